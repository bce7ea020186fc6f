import { expect } from 'vitest'
import {
  advanceTo,
  cancel,
  claim,
  DONE,
  entry,
  expectBetween,
  expectCounts,
  FAR_MS,
  find,
  hold,
  keysOf,
  keysOfOneCell,
  kill,
  list,
  LONG_LEASE_MS,
  look,
  loseLease,
  newRequest,
  now,
  only,
  place,
  reschedule,
  retryIn,
  schedule,
  scheduleAll,
  settle,
  SHORT_LEASE_MS,
  shortenLease,
  type TimetableHarness,
  theme,
  view,
} from './helpers.ts'

/** Far tasks at `base + offset`, over many cells. */
async function scheduleAt(
  { timetable, topic }: TimetableHarness,
  base: number,
  offsets: Readonly<Record<string, number>>,
): Promise<void> {
  await timetable.schedule(
    topic,
    Object.entries(offsets).map(([key, offset]) => entry(key, { atMs: base + offset })),
    0,
  )
}

/** For a look that says never: beyond every bound. */
const NEVER_MS = Number.POSITIVE_INFINITY

async function far(harness: TimetableHarness): Promise<number> {
  return (await now(harness)) + FAR_MS
}

export const looking = theme('looking', [
  {
    name: 'the clock of record goes forward',
    async run(harness) {
      const before = await now(harness)
      await harness.advance(30)
      expect(await now(harness)).toBeGreaterThanOrEqual(before + 29)
      expect(harness.timetable.lookMs).toBeGreaterThan(0)
    },
  },
  {
    name: 'an unknown key is null',
    async run(harness) {
      expect(await look(harness, 'a')).toBeNull()
    },
  },
  {
    name: 'find by tag follows the task: replaced, claimed, retried, ended',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      await schedule(harness, a, { tags: ['x', 'y'] })
      await schedule(harness, b, { tags: ['x'], delayMs: FAR_MS })
      await schedule(harness, c, { delayMs: FAR_MS })
      const tagged = (tag: string) => find(harness, a, 'live', { tag })
      expect(await tagged('x')).toEqual([a, b])
      expect(await tagged('y')).toEqual([a])
      expect(await tagged('z')).toEqual([])
      await schedule(harness, b, { tags: ['z'], delayMs: FAR_MS })
      expect(await tagged('x')).toEqual([a])
      expect(await tagged('z')).toEqual([b])
      const { stamp } = await hold(harness, a)
      expect(await tagged('x')).toEqual([a])
      await settle(harness, a, stamp, retryIn(0))
      expect(await tagged('x')).toEqual([a])
      const again = await hold(harness, a)
      await settle(harness, a, again.stamp, DONE)
      expect(await tagged('x')).toEqual([])
      expect(await tagged('y')).toEqual([])
      await cancel(harness, b)
      expect(await tagged('z')).toEqual([])
    },
  },
  {
    name: 'a tag is matched whole, not by its beginning',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      await schedule(harness, a, { tags: ['campaign:7'], delayMs: FAR_MS })
      await schedule(harness, b, { tags: ['campaign:77'], delayMs: FAR_MS })
      await schedule(harness, c, { tags: ['campaign'], delayMs: FAR_MS })
      expect(await find(harness, a, 'live', { tag: 'campaign:7' })).toEqual([a])
      expect(await find(harness, a, 'live', { tag: 'campaign' })).toEqual([c])
      expect(keysOf(await list(harness, { tag: 'campaign:7' }))).toEqual([a])
    },
  },
  {
    name: 'find by prefix and find everything, among the living, waiting or held',
    async run(harness) {
      const { one, two, cell } = twoPrefixesOfOneCell()
      await scheduleAll(harness, [...one, ...two], { delayMs: FAR_MS })
      const [held = ''] = one
      await schedule(harness, held)
      await hold(harness, held)
      expect(await find(harness, cell, 'live', { prefix: 'one' })).toEqual(one)
      expect(await find(harness, cell, 'live', { prefix: 'two' })).toEqual(two)
      expect(await find(harness, cell, 'live', { prefix: 'on' })).toEqual([])
      expect(await find(harness, cell, 'live', { all: true })).toEqual([...one, ...two].toSorted())
      expect(await find(harness, cell, 'dead', { all: true })).toEqual([])
    },
  },
  {
    name: 'find by tag, by prefix and everything among the dead',
    async run(harness) {
      const { one, two, cell } = twoPrefixesOfOneCell()
      for (const key of one) await kill(harness, key, { tags: ['t'] })
      for (const key of two) await kill(harness, key)
      expect(await find(harness, cell, 'dead', { tag: 't' })).toEqual(one)
      expect(await find(harness, cell, 'dead', { prefix: 'two' })).toEqual(two)
      expect(await find(harness, cell, 'dead', { all: true })).toEqual([...one, ...two].toSorted())
      expect(await find(harness, cell, 'live', { all: true })).toEqual([])
      expect(await find(harness, cell, 'live', { tag: 't' })).toEqual([])
    },
  },
  {
    name: 'find gives all of a large cell',
    async run(harness) {
      const keys = keysOfOneCell(1_500)
      await scheduleAll(harness, keys, { delayMs: FAR_MS, tags: ['t'] })
      const [first = ''] = keys
      expect(await find(harness, first, 'live', { all: true })).toEqual(keys)
      expect(await find(harness, first, 'live', { tag: 't' })).toEqual(keys)
    },
  },
  {
    name: 'a listing goes by ring and then by key',
    async run(harness) {
      await scheduleAt(harness, await far(harness), { c: 2, b: 1, a: 2, e: 0, d: 1, f: 2 })
      expect(keysOf(await list(harness))).toEqual(['e', 'b', 'd', 'a', 'c', 'f'])
    },
  },
  {
    name: 'pages follow one another without a gap or a repetition',
    async run(harness) {
      const base = await far(harness)
      const offsets = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`k${n}`, (n * 7) % 10]))
      await scheduleAt(harness, base, offsets)
      const whole = keysOf(await list(harness))
      expect(whole).toEqual(
        Object.keys(offsets).toSorted(
          (a, b) => (offsets[a] ?? 0) - (offsets[b] ?? 0) || (a < b ? -1 : a > b ? 1 : 0),
        ),
      )
      const paged: string[] = []
      let page = await list(harness, { limit: 7 })
      while (page.length > 0 && paged.length <= whole.length) {
        expect(page.length).toBeLessThanOrEqual(7)
        paged.push(...keysOf(page))
        page = await list(harness, { limit: 7, after: page.at(-1) ?? null })
      }
      expect(paged).toEqual(whole)
      expect(keysOf(await list(harness, { limit: 7 }))).toEqual(whole.slice(0, 7))
    },
  },
  {
    name: 'a listing by state: null means pending and claimed',
    async run(harness) {
      await kill(harness, 'dead')
      await schedule(harness, 'held')
      await hold(harness, 'held')
      await schedule(harness, 'waiting', { delayMs: FAR_MS })
      expect(keysOf(await list(harness))).toEqual(['held', 'waiting'])
      expect(keysOf(await list(harness, { state: 'pending' }))).toEqual(['waiting'])
      expect(await list(harness, { state: 'claimed' })).toMatchObject([{ key: 'held', state: 'claimed' }])
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ key: 'dead', state: 'dead' }])
      expect(await list({ ...harness, topic: `${harness.topic}-other` })).toEqual([])
    },
  },
  {
    name: 'a listing by tag, by prefix and by due',
    async run(harness) {
      const base = await far(harness)
      await schedule(harness, 'u:1', { atMs: base, tags: ['t'] })
      await schedule(harness, 'u:2', { atMs: base + 100, tags: ['t', 's'] })
      await schedule(harness, 'u', { atMs: base + 200 })
      await schedule(harness, 'v:1', { atMs: base + 300, tags: ['t'] })
      const keys = async (query: Parameters<typeof list>[1]) => keysOf(await list(harness, query))
      expect(await keys({ tag: 't' })).toEqual(['u:1', 'u:2', 'v:1'])
      expect(await keys({ tag: 's' })).toEqual(['u:2'])
      expect(await keys({ prefix: 'u' })).toEqual(['u:1', 'u:2', 'u'])
      expect(await keys({ tag: 't', prefix: 'u' })).toEqual(['u:1', 'u:2'])
      expect(await keys({ dueFromMs: base + 50, dueToMs: base + 250 })).toEqual(['u:2', 'u'])
      expect(await keys({ tag: 't', dueFromMs: base + 50 })).toEqual(['u:2', 'v:1'])
      expect(await keys({ tag: 't', state: 'claimed' })).toEqual([])
      expect(await keys({ tag: 't', state: 'dead' })).toEqual([])
    },
  },
  {
    name: 'a listing of the dead by tag and by prefix',
    async run(harness) {
      await kill(harness, 'u:1', { tags: ['t'] })
      await kill(harness, 'u:2')
      await kill(harness, 'v:1', { tags: ['t'] })
      const keys = async (query: Parameters<typeof list>[1]) =>
        keysOf(await list(harness, { ...query, state: 'dead' })).toSorted()
      expect(await keys({})).toEqual(['u:1', 'u:2', 'v:1'])
      expect(await keys({ tag: 't' })).toEqual(['u:1', 'v:1'])
      expect(await keys({ prefix: 'u' })).toEqual(['u:1', 'u:2'])
      expect(keysOf(await list(harness, { state: 'dead', limit: 2 }))).toHaveLength(2)
    },
  },
  {
    name: 'what a listing shows is what get shows',
    async run(harness) {
      await schedule(harness, 'a', { body: 'b', tags: ['t'], priority: 'high' })
      const { stamp } = await hold(harness, 'a')
      expect(await list(harness)).toEqual([await look(harness, 'a')])
      await settle(harness, 'a', stamp, retryIn(FAR_MS))
      expect(await list(harness)).toEqual([await look(harness, 'a')])
      await kill(harness, 'c')
      expect(await list(harness, { state: 'dead' })).toEqual([await look(harness, 'c')])
    },
  },
  {
    name: 'counts tell what is due from what waits',
    async run(harness) {
      const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
      await scheduleAll(harness, keys.slice(0, 8))
      await scheduleAll(harness, keys.slice(8, 15), { delayMs: FAR_MS })
      await schedule(harness, 'soon', { delayMs: FAR_MS })
      await schedule(harness, 'low', { priority: 'low' })
      await schedule(harness, 'high', { priority: 'high' })
      await expectCounts(harness, { pending: 18, due: 10 })
      const { dueMs } = await reschedule(harness, 'soon', { kind: 'delay', ms: 50 })
      await advanceTo(harness, dueMs ?? 0)
      await expectCounts(harness, { pending: 18, due: 11 })
      const { tasks, stamp } = await claim(harness, 'low')
      const taken = tasks.length
      await expectCounts(harness, { pending: 18 - taken, due: 11 - taken, claimed: taken })
      // Due again at this very moment, with a failure.
      for (const { key } of tasks) await settle(harness, key, stamp, retryIn(0))
      await expectCounts(harness, { pending: 18, due: 11 })
    },
  },
  {
    name: 'a forecast counts the rings of each step; what is overdue counts as due now',
    async run(harness) {
      const from = await now(harness)
      const stepMs = FAR_MS
      await scheduleAt(harness, from, {
        overdue: -5_000,
        first: 0,
        stillFirst: stepMs - 1,
        second: stepMs,
        alsoSecond: stepMs + 500,
        last: 3 * stepMs - 1,
        beyond: 3 * stepMs,
      })
      await schedule(harness, 'low', { atMs: from + 30_000, priority: 'low' })
      await schedule(harness, 'high', { atMs: from + 30_000, priority: 'high' })
      await schedule(harness, 'held')
      await hold(harness, 'held')
      await kill(harness, 'dead')
      const { timetable, topic } = harness
      expect(await timetable.forecast(topic, from, from + 3 * stepMs, stepMs)).toEqual([5, 2, 1])
      // Now lies before these steps, and what is overdue with it.
      expect(await timetable.forecast(topic, from + stepMs, from + stepMs + 1_000, 500)).toEqual([1, 1])
      expect(await timetable.forecast(topic, from + stepMs, from + 2 * stepMs, stepMs)).toEqual([2])
      expect(await timetable.forecast(`${topic}-other`, from, from + 2_000, 1_000)).toEqual([0, 0])
    },
  },
  {
    name: 'a forecast of many tasks of one cell',
    async run(harness) {
      const from = await far(harness)
      const keys = keysOfOneCell(60)
      await scheduleAt(harness, from, Object.fromEntries(keys.map((key, n) => [key, n * 100])))
      const { timetable, topic } = harness
      expect(await timetable.forecast(topic, from, from + 4_000, 1_000)).toEqual([10, 10, 10, 10])
      expect(await timetable.forecast(topic, from + 50, from + 5_000, 2_000)).toEqual([20, 20, 9])
      expect(await timetable.forecast(topic, from, from + 6_000, 100)).toEqual(keys.map(() => 1))
    },
  },
  {
    name: 'a forecast in more steps than there are tasks, and of more tasks than a page has',
    async run(harness) {
      const from = await far(harness)
      const keys = keysOfOneCell(1_100)
      await scheduleAt(harness, from, Object.fromEntries(keys.map((key, n) => [key, n])))
      const { timetable, topic } = harness
      const steps = await timetable.forecast(topic, from, from + 1_200, 1)
      expect(steps).toEqual(Array.from({ length: 1_200 }, (_, n) => (n < 1_100 ? 1 : 0)))
    },
  },
  {
    name: 'a listing by due looks past what does not belong, however much that is',
    async run(harness) {
      const keys = keysOfOneCell(8)
      const last = keys.at(-1) ?? ''
      await scheduleAll(harness, keys.slice(0, -1))
      const { stamp, tasks } = await claim(harness, last)
      const base = await far(harness)
      // Due long ago, to ring late: the others of this cell are found after all of them.
      for (const { key } of tasks) await settle(harness, key, stamp, retryIn(2 * FAR_MS))
      const { dueMs } = await schedule(harness, last, { delayMs: 3 * FAR_MS })
      for (const limit of [1, 3, 100])
        expect(keysOf(await list(harness, { dueFromMs: base, dueToMs: dueMs, limit }))).toEqual([last])
    },
  },
  {
    name: 'a listing by due misses nothing, whatever lanes its tasks wait in',
    async run(harness) {
      const [a = '', b = '', c = '', d = '', e = ''] = keysOfOneCell(5)
      const dueFromMs = (await now(harness)) + FAR_MS
      // Due before that, to ring after it: all to be passed over, two of them before `c` in its lane.
      for (const [n, key] of [a, b, d, e].entries()) {
        await schedule(harness, key, { priority: n < 2 ? 'high' : 'normal' })
        const { stamp } = await hold(harness, key)
        await settle(harness, key, stamp, retryIn((2 + n) * FAR_MS))
      }
      await schedule(harness, c, { delayMs: 3 * FAR_MS + 1_000, priority: 'high' })
      for (const limit of [1, 2, 3]) expect(keysOf(await list(harness, { dueFromMs, limit }))).toEqual([c])
    },
  },
  {
    name: 'a page of held and waiting tasks tells of each once',
    async run(harness) {
      const keys = keysOfOneCell(4)
      const [held = '', early = '', alsoEarly = '', late = ''] = keys
      const dueFromMs = (await now(harness)) - 1_000
      await schedule(harness, held, { atMs: dueFromMs })
      await hold(harness, held)
      // Due before that, to ring after it: they fill the first round, and the held one comes with every round.
      for (const key of [early, alsoEarly]) {
        await schedule(harness, key, { atMs: dueFromMs - 1_000 })
        const { stamp, tasks } = await claim(harness, key)
        await settle(harness, only(tasks).key, stamp, retryIn(FAR_MS))
      }
      await schedule(harness, late, { delayMs: 2 * FAR_MS })
      expect(keysOf(await list(harness, { dueFromMs, limit: 2 }))).toEqual([held, late])
    },
  },
  {
    name: 'a look tells of the next ring and the next end of a lease: too near perhaps, never too far',
    slow: true,
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      const at = { topic: harness.topic, cell: place(a).cell }
      const lookAt = () => harness.timetable.look(at)
      expect(await lookAt()).toEqual({ ringInMs: null, leaseEndInMs: null })
      await schedule(harness, a, { delayMs: 2 * FAR_MS })
      expectBetween((await lookAt()).ringInMs ?? NEVER_MS, 0, 2 * FAR_MS)
      await schedule(harness, b, { delayMs: FAR_MS, priority: 'low' })
      expectBetween((await lookAt()).ringInMs ?? NEVER_MS, 0, FAR_MS)
      await schedule(harness, c)
      const req = newRequest()
      const { stamp } = await hold(harness, c, { req })
      const held = await lookAt()
      expectBetween(held.ringInMs ?? NEVER_MS, 0, FAR_MS)
      expectBetween(held.leaseEndInMs ?? NEVER_MS, 0, LONG_LEASE_MS)
      await shortenLease(harness, c, req)
      expectBetween((await lookAt()).leaseEndInMs ?? NEVER_MS, 0, SHORT_LEASE_MS)
      await settle(harness, c, stamp, retryIn(5_000))
      expectBetween((await lookAt()).ringInMs ?? NEVER_MS, 0, 5_000)
      await cancel(harness, a)
      await cancel(harness, b)
      await reschedule(harness, c, { kind: 'delay', ms: 0 })
      expect((await lookAt()).ringInMs).toBe(0)
      // Suspects ring, too.
      await loseLease(harness, c)
      await loseLease(harness, c)
      const { ringMs } = await view(harness, c)
      const nowMs = await now(harness)
      expectBetween((await lookAt()).ringInMs ?? NEVER_MS, 0, Math.max(0, ringMs - nowMs))
    },
  },
  {
    name: 'when a task was made and last changed lies on the clock of record',
    async run(harness) {
      const before = await now(harness)
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await harness.advance(20)
      await settle(harness, 'a', stamp, retryIn(FAR_MS))
      const seen = await look(harness, 'a')
      const after = await now(harness)
      expectBetween(seen?.createdMs ?? 0, before, after)
      expectBetween(seen?.updatedMs ?? 0, before + 19, after)
    },
  },
])

/** Keys of the prefixes 'one' and 'two' that share a cell where keys are placed by the whole key. */
function twoPrefixesOfOneCell(): { one: string[]; two: string[]; cell: string } {
  const one = keysOfOneCell(3, 'one:')
  const [cell = ''] = one
  const two = keysOfOneCell(3, 'two:', cell)
  return { one, two, cell }
}
