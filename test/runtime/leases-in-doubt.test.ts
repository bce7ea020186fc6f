/** Leases of held tasks when the ledger's answers are late, lost, or differ from task to task. */
import { describe, expect, it } from 'vitest'
import type { ExtendAnswer } from '../../src/ledger.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { seededRandom } from '../contract/memory-harness.ts'
import { keysOf, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { LEASE_MS, Lives, TOPIC } from './ledger-life.ts'
import { hintOf, instead } from './stand-in-tables.ts'

const [A = '', B = ''] = keysOfOneCell(2)
const AT = { topic: TOPIC, cell: place(A).cell }
async function pair() {
  const lives = await Lives.begin()
  for (const key of [A, B]) await lives.schedule(key)
  const fences: { key: string; ms: number }[] = []
  lives.store.watch(TOPIC, {
    wake() {},
    limit() {},
    missed() {},
    fence: (_, key) => fences.push({ key, ms: lives.clock.monotonicNow() }),
  })
  return { lives, fences }
}

/** Delays the answers to extensions until the returned function is called. */
function delayed(lives: Lives, answer: (key: string) => ExtendAnswer): () => void {
  let proceed = () => {}
  const held = new Promise<void>((resolve) => {
    proceed = resolve
  })
  lives.faults.ledger = {
    async extend(_topic, places) {
      await held
      return places.map(({ key }) => answer(key))
    },
  }
  return () => proceed()
}

describe('leases that could not be extended, and stamps that were issued twice', () => {
  it('one task of a claim is stale (another process took it): its holder is fenced', async () => {
    const { lives, fences } = await pair()
    await using _ = lives
    const { stamp, tasks } = await lives.claim(A, { req: 'r' })
    expect(tasks).toHaveLength(2)
    await lives.advance(LEASE_MS + 1_000)
    // Another process takes one of them; then we wake up and extend.
    const request = { stamp: stamp + 1, leaseMs: LEASE_MS, nowMs: lives.clock.now(), alone: false }
    expect(await lives.ledger.claim(TOPIC, request, [place(A)])).toMatchObject([{ kind: 'ours' }])
    const answer = await lives.store.extend(AT, 'r', LEASE_MS)
    await lives.advance(LEASE_MS / 2)
    expect({ answer, fenced: fences.map(({ key }) => key) }).toEqual({ answer: 'extended', fenced: [A] })
  })
  it('locked, then stale: the fence is not cancelled', async () => {
    const { lives, fences } = await pair()
    await using _ = lives
    await lives.claim(A, { req: 'r' })
    let answers: ('locked' | 'stale')[] = ['locked']
    lives.faults.ledger = {
      extend: async (_t, places) =>
        places.map(({ key }) => (key === A ? (answers[0] ?? 'stale') : 'extended')),
    }
    await lives.advance(10_000)
    await lives.store.extend(AT, 'r', LEASE_MS)
    answers = ['stale']
    await lives.advance(10_000)
    await lives.store.extend(AT, 'r', LEASE_MS)
    await lives.advance(10_000)
    expect(fences.map(({ key }) => key)).toEqual([A])
  })
  it('a repeated claim: the lease counts from the first request', async () => {
    const { lives, fences } = await pair()
    await using _ = lives
    const { ledger } = lives
    const t0 = lives.clock.monotonicNow()
    lives.faults.ledger = {
      async claim(...args) {
        await ledger.claim(...args)
        throw new Error('lost')
      },
    }
    await expect(lives.claim(A, { req: 'r' })).rejects.toThrow('lost')
    await lives.advance(6_000)
    lives.faults.ledger = {
      extend: async (_t, places) => places.map(({ key }) => (key === A ? 'locked' : 'extended')),
    }
    expect((await lives.claim(A, { req: 'r' })).tasks).toHaveLength(2)
    expect(await lives.store.extend(AT, 'r', LEASE_MS)).toBe('extended')
    await lives.advance(LEASE_MS * 2)
    expect(fences).toHaveLength(1)
    expect((fences[0]?.ms ?? 0) - t0).toBeLessThan(LEASE_MS)
  })
  it('the answer to an extend arrives after its tasks are settled: no timer, no fence, no stamp is left', async () => {
    const { lives, fences } = await pair()
    await using _ = lives
    const { stamp } = await lives.claim(A, { req: 'r' })
    const proceed = delayed(lives, (key) => (key === A ? 'locked' : 'extended'))
    const extending = lives.store.extend(AT, 'r', LEASE_MS)
    for (const key of [A, B]) expect(await lives.settle(key, stamp)).toBe('settled')
    proceed()
    await extending
    const { clock } = lives
    await lives.dieAndComeBack()
    const left = clock.timerCount
    clock.moveTo(clock.monotonicNow() + LEASE_MS)
    expect({ left, fences }).toEqual({ left: 0, fences: [] })
  })
  it('the answer to an extend arrives after its tasks are settled: the stamp is free', async () => {
    const { lives } = await pair()
    await using _ = lives
    const { stamp } = await lives.claim(A, { req: 'r' })
    const proceed = delayed(lives, () => 'extended')
    const extending = lives.store.extend(AT, 'r', LEASE_MS)
    for (const key of [A, B]) expect(await lives.settle(key, stamp)).toBe('settled')
    proceed()
    await extending
    const fresh = new MemoryTimetable(lives.clock, seededRandom(2))
    lives.faults.table = instead(fresh)
    await lives.schedule(A)
    expect(keysOf((await lives.claim(A)).tasks)).toEqual([A])
  })
  it('a stamp is not issued again after a rescue: a late settle of its holder is stale', async () => {
    const { lives } = await pair()
    await using _ = lives
    const { stamp } = await lives.claim(A, { req: 'r' })
    await lives.advance(LEASE_MS + 1_000)
    await lives.claim(A, { limit: 0 })
    await lives.advance(10_000)
    const fresh = new MemoryTimetable(lives.clock, seededRandom(2))
    await fresh.put(TOPIC, [hintOf(lives, A)], 'set')
    lives.faults.table = {
      ...instead(fresh),
      claim: async (...args) => ({ ...(await fresh.claim(...args)), stamp }),
    }
    const second = await lives.claim(A)
    const late = await lives.settle(A, stamp)
    expect({ got: keysOf(second.tasks), late }).not.toEqual({ got: [A], late: 'settled' })
  })
  it('locked: the task gets its own limit at once, which is lifted when it is extended', async () => {
    const { lives } = await pair()
    await using _ = lives
    const limits: { key: string; endMs: number | null }[] = []
    const limit = (_cell: number, key: string, _stamp: number, endMs: number | null) =>
      void limits.push({ key, endMs })
    lives.store.watch(TOPIC, { wake() {}, missed() {}, fence() {}, limit })
    const fromMs = lives.clock.monotonicNow()
    await lives.claim(A, { req: 'r' })
    lives.faults.ledger = {
      extend: async (_t, places) => places.map(({ key }) => (key === A ? 'locked' : 'extended')),
    }
    await lives.advance(10_000)
    await lives.store.extend(AT, 'r', LEASE_MS)
    expect(limits).toEqual([{ key: A, endMs: fromMs + LEASE_MS }])
    lives.faults.ledger = {}
    await lives.store.extend(AT, 'r', LEASE_MS)
    expect(limits.slice(1)).toEqual([{ key: A, endMs: null }])
  })
  it('a lease that ends while it is being extended is not rescued before the ledger answers', async () => {
    const { lives } = await pair()
    await using _ = lives
    const { stamp } = await lives.claim(A, { req: 'r' })
    await lives.advance(LEASE_MS + 1_000)
    // As after a stall: the extension is under way when the cell is claimed again.
    const extending = lives.store.extend(AT, 'r', LEASE_MS)
    await lives.claim(A, { limit: 0 })
    expect(await extending).toBe('extended')
    expect(await lives.store.extend(AT, 'r', LEASE_MS)).toBe('extended')
    expect(await lives.settle(A, stamp)).toBe('settled')
  })
  it('all tasks of a claim locked for longer than its lease: running handlers are fenced', async () => {
    const { lives, fences } = await pair()
    await using _ = lives
    await lives.claim(A, { req: 'r' })
    lives.faults.ledger = { extend: async (_t, places) => places.map(() => 'locked') }
    for (let n = 0; n < 3; n++) {
      await lives.advance(10_000)
      await lives.store.extend(AT, 'r', LEASE_MS).catch(() => {})
    }
    expect(fences.map(({ key }) => key).toSorted()).toEqual([A, B].toSorted())
  })
  it('the store is closed while an extend is under way: no timer is left', async () => {
    const { lives } = await pair()
    await using _ = lives
    await lives.claim(A, { req: 'r' })
    const proceed = delayed(lives, (key) => (key === A ? 'locked' : 'extended'))
    const extending = lives.store.extend(AT, 'r', LEASE_MS)
    const { clock } = lives
    await lives.dieAndComeBack()
    proceed()
    await extending
    expect(clock.timerCount).toBe(0)
  })
})
