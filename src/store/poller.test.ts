import { describe, expect, it } from 'vitest'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import type { Ledger, Loaded } from '../ledger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Poller } from './poller.ts'

const NOTHING: Loaded = { hints: [], orderMs: [], frontier: null }
const MIDWAY: Frontier = { ringMs: 5, cell: 1, key: 'k' }

function hintAt(ringMs: number): Hint {
  return { key: 'a', cell: 0, ringMs, failures: 0, priority: 'normal', isSuspect: false }
}

/** A poller over a ledger that answers what `world` says, and notes from where each page was read. */
function polling() {
  const clock = new VirtualClock(0)
  const world = {
    pages: [] as (Loaded | Promise<Loaded>)[],
    from: [] as (Frontier | null)[],
    count: 0,
  }
  const ledger = {
    clockMs: () => clock.now(),
    load: async (_: string, after: Frontier | null) => {
      world.from.push(after)
      return world.pages.shift() ?? NOTHING
    },
  } as unknown as Ledger
  const table = {
    residentMax: 1,
    extent: async () => ({ count: world.count, headMs: null }),
    put: async () => 0,
  } as unknown as HintTable
  const poller = new Poller('t', ledger, table, clock, (error) => {
    throw error
  })
  return { clock, world, poller }
}

describe('a poller', () => {
  it('polls once more if it is told of a near task during a poll, which may have read past it', async () => {
    const { world, poller } = polling()
    let answer: (page: Loaded) => void = () => {}
    world.pages.push(
      new Promise((resolve) => {
        answer = resolve
      }),
    )
    const first = poller.catchUp()
    await expect.poll(() => world.from.length).toBe(1)
    poller.pollNow()
    answer(NOTHING)
    await first
    await expect.poll(() => world.from.length).toBe(2)
  })

  it('has its own writes that ring soon put at once, without a poll', () => {
    const { poller } = polling()
    expect(poller.includes(hintAt(1_500))).toBe(true)
    expect(poller.includes(hintAt(60_000))).toBe(false)
  })

  it('goes on where a full table stopped it, but begins anew after a while', async () => {
    const { clock, world, poller } = polling()
    world.pages.push({ ...NOTHING, frontier: MIDWAY })
    const first = poller.catchUp()
    await expect.poll(() => world.from.length).toBe(1)
    world.count = 1
    await first
    world.count = 0
    world.pages.push({ ...NOTHING, frontier: MIDWAY })
    const second = poller.catchUp()
    await expect.poll(() => world.from.length).toBeGreaterThan(1)
    world.count = 1
    await second
    world.count = 0
    clock.moveTo(6_000)
    await poller.catchUp()
    expect(world.from.slice(0, 2)).toEqual([null, MIDWAY])
    expect(world.from.slice(2)).toContain(null)
  })
})
