import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { Claim } from '../timetable.ts'
import { Puller, type PullerHost } from './puller.ts'

const LOOK_MS = 10_000
const NEVER = Number.POSITIVE_INFINITY
const EMPTY: Claim = {
  stamp: 1,
  tasks: [],
  nowMs: 0,
  nextRingMs: null,
  nextSuspectMs: null,
  nextLeaseEndInMs: null,
  rescued: 0,
  poisoned: [],
}

function pulling(host: Partial<PullerHost<object>>) {
  const clock = new VirtualClock(0)
  const seen = { claims: 0, found: 0 }
  const puller = new Puller<object>(
    clock,
    {
      reserve: () => ({}),
      reserveAlone: () => null,
      look: async () => ({ ringInMs: null, leaseEndInMs: null }),
      nextReserveMs: () => NEVER,
      nextAloneMs: () => NEVER,
      passOn: () => {},
      onError: () => {},
      foundByLook: (count) => (seen.found += count),
      ...host,
      claim: (...args) => {
        seen.claims++
        return host.claim?.(...args) ?? Promise.resolve({ ...EMPTY, nowMs: clock.monotonicNow() })
      },
    },
    [0],
    LOOK_MS,
  )
  return { clock, seen, puller }
}

describe('a puller', () => {
  it('claims at once after a wake, however long it would wait after failed claims', async () => {
    const { clock, seen, puller } = pulling({ claim: () => Promise.reject(new Error('unreachable')) })
    for (let tries = 0; tries < 8; tries++) clock.moveTo(await puller.step())
    const failed = seen.claims
    await puller.step()
    expect(seen.claims).toBe(failed + 1)
    await puller.step()
    expect(seen.claims).toBe(failed + 1)
    puller.wake(0, 0, 0)
    await puller.step()
    expect(seen.claims).toBe(failed + 2)
  })

  /** A puller that has just looked, and was told by the look of a task that rang long before. */
  async function afterLook() {
    const task = { key: 'a', ringMs: 5_000 } as Claim['tasks'][number]
    const answers = [EMPTY, { ...EMPTY, tasks: [task], nowMs: LOOK_MS }]
    const { clock, seen, puller } = pulling({
      look: async () => ({ ringInMs: 0, leaseEndInMs: null }),
      claim: async () => answers.shift() ?? EMPTY,
    })
    await puller.step()
    clock.moveTo(LOOK_MS)
    await puller.step()
    return { seen, puller }
  }

  it('reports tasks of which a look told and no wake', async () => {
    const { seen, puller } = await afterLook()
    await puller.step()
    expect(seen).toEqual({ claims: 2, found: 1 })
  })

  it('does not report a task whose wake came after the look', async () => {
    const { seen, puller } = await afterLook()
    puller.wake(0, 0, 5_000)
    await puller.step()
    expect(seen).toEqual({ claims: 2, found: 0 })
  })
})
