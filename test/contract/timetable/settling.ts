import { expect } from 'vitest'
import type { SettleOutcome } from '../../../src/timetable.ts'
import {
  claim,
  DEAD,
  DONE,
  during,
  expectBetween,
  expectBooks,
  expectCounts,
  FAR_MS,
  find,
  hold,
  keysOf,
  keysOfOneCell,
  leaseEnds,
  list,
  look,
  newRequest,
  now,
  place,
  rescue,
  RESCUE_SPREAD_MS,
  RETURN,
  retryIn,
  schedule,
  scheduleAll,
  settle,
  SHORT_LEASE_MS,
  shortenLease,
  snoozeFor,
  theme,
  view,
} from './helpers.ts'

export const settling = theme('settling', [
  {
    name: 'of an error text with control characters nothing behind them is lost',
    async run(harness) {
      await schedule(harness, 'a')
      const { task, stamp } = await hold(harness, 'a')
      await settle(harness, task.key, stamp, { kind: 'retry', delayMs: FAR_MS, error: 'before\0\nafter' })
      expect((await view(harness, 'a'))?.lastError).toMatch(/^before.*after$/s)
    },
  },
  {
    name: 'done ends the task',
    async run(harness) {
      await schedule(harness, 'a', { tags: ['t'] })
      const { stamp } = await hold(harness, 'a')
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
      expect(await look(harness, 'a')).toBeNull()
      expect(await find(harness, 'a', 'live', { tag: 't' })).toEqual([])
      await expectCounts(harness, {})
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'obsolete ends the task, counted apart from done',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      expect(await settle(harness, 'a', stamp, { kind: 'obsolete' })).toBe('settled')
      expect(await look(harness, 'a')).toBeNull()
      await expectBooks(harness, { scheduled: 1, obsolete: 1 })
    },
  },
  {
    name: 'retry counts a failure, rings after its delay and keeps everything else',
    async run(harness) {
      const given = { body: 'b', priority: 'high', tags: ['t'] } as const
      const { dueMs } = await schedule(harness, 'a', given)
      const { stamp, task } = await hold(harness, 'a')
      const { answer, fromMs, toMs } = await during(harness, () =>
        settle(harness, 'a', stamp, retryIn(FAR_MS, 'the line was busy')),
      )
      expect(answer).toBe('settled')
      const waiting = await view(harness, 'a')
      expect(waiting).toMatchObject({
        ...given,
        id: task.id,
        state: 'pending',
        dueMs,
        failures: 1,
        deliveries: 1,
        lastError: 'the line was busy',
      })
      expectBetween(waiting.ringMs, fromMs + FAR_MS, toMs + FAR_MS)
      await expectCounts(harness, { pending: 1 })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'failures add up over retries',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a')
      for (let failures = 0; failures < 6; failures++) {
        const { stamp, task } = await hold(harness, 'a')
        expect(task).toMatchObject({ failures, deliveries: failures + 1, dueMs })
        expect(await settle(harness, 'a', stamp, retryIn(0, `failure ${failures}`))).toBe('settled')
      }
      expect(await view(harness, 'a')).toMatchObject({ failures: 6, lastError: 'failure 5' })
    },
  },
  {
    name: 'snooze counts no failure',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a')
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(0))
      const { stamp, task } = await hold(harness, 'a')
      const { answer, fromMs, toMs } = await during(harness, () =>
        settle(harness, 'a', stamp, snoozeFor(FAR_MS)),
      )
      expect(answer).toBe('settled')
      const waiting = await view(harness, 'a')
      expect(waiting).toMatchObject({ id: task.id, state: 'pending', dueMs, failures: 1, deliveries: 2 })
      expectBetween(waiting.ringMs, fromMs + FAR_MS, toMs + FAR_MS)
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'a task may snooze 1,100 times in a row',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a')
      const { task: first, stamp } = await hold(harness, 'a')
      let held = stamp
      for (let n = 1; n <= 1_100; n++) {
        expect(await settle(harness, 'a', held, snoozeFor(0))).toBe('settled')
        const { task, stamp: next } = await hold(harness, 'a')
        if (n % 100 === 0) expect(task).toMatchObject({ id: first.id, dueMs, failures: 0, deliveries: n + 1 })
        held = next
      }
      expect(await settle(harness, 'a', held, DONE)).toBe('settled')
    },
  },
  {
    name: 'dead keeps the task apart, with what it was',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a', { body: 'b', priority: 'low', tags: ['t'] })
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(0))
      const { stamp, task } = await hold(harness, 'a')
      const dead = { kind: 'dead', cause: 'attempts', error: 'too often', failed: true } as const
      expect(await settle(harness, 'a', stamp, dead)).toBe('settled')
      expect(await view(harness, 'a')).toMatchObject({
        id: task.id,
        body: 'b',
        state: 'dead',
        dueMs,
        failures: 2,
        deliveries: 2,
        tags: ['t'],
        priority: 'low',
        lastError: 'too often',
        deadCause: 'attempts',
      })
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await expectCounts(harness, { dead: 1 })
      await expectBooks(harness, { scheduled: 1, dead: 1 })
    },
  },
  {
    name: 'a death that is no failure counts none',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, { kind: 'dead', cause: 'late', error: 'too late', failed: false })
      expect(await view(harness, 'a')).toMatchObject({ failures: 0, deliveries: 1, deadCause: 'late' })
    },
  },
  {
    name: 'return puts the task back as if it had not been claimed',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a', { atMs: (await now(harness)) - 30, priority: 'low' })
      const { stamp } = await hold(harness, 'a')
      expect(await settle(harness, 'a', stamp, RETURN)).toBe('settled')
      expect(await view(harness, 'a')).toMatchObject({
        id: null,
        state: 'pending',
        dueMs,
        ringMs: dueMs,
        failures: 0,
        deliveries: 0,
        priority: 'low',
      })
      await expectCounts(harness, { pending: 1, due: 1 })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
      const { task } = await hold(harness, 'a')
      expect(task).toMatchObject({ dueMs, ringMs: dueMs, deliveries: 1 })
    },
  },
  {
    name: 'return after a retry keeps the failure, the id and the ring of the retry',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a', { atMs: (await now(harness)) - 30 })
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(0))
      const { ringMs } = await view(harness, 'a')
      const second = await hold(harness, 'a')
      await settle(harness, 'a', second.stamp, RETURN)
      const { task } = await hold(harness, 'a')
      expect(task).toMatchObject({ id: first.task.id, dueMs, ringMs, failures: 1, deliveries: 2 })
    },
  },
  {
    name: 'a task that was given back was not changed',
    async run(harness) {
      await schedule(harness, 'a')
      const failed = await hold(harness, 'a')
      await settle(harness, 'a', failed.stamp, retryIn(0))
      const before = await view(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await harness.advance(10)
      await settle(harness, 'a', stamp, RETURN)
      expect(await view(harness, 'a')).toEqual(before)
    },
  },
  {
    name: 'a wrong stamp is stale and changes nothing',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      const before = await view(harness, 'a')
      for (const wrong of [stamp - 1, stamp + 1, 0])
        for (const outcome of [DONE, RETURN, DEAD, retryIn(0), snoozeFor(0), { kind: 'obsolete' }] as const)
          expect(await settle(harness, 'a', wrong, outcome)).toBe('stale')
      expect(await view(harness, 'a')).toEqual(before)
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'a second settle is stale and changes nothing',
    async run(harness) {
      const outcomes = [DONE, RETURN, DEAD, retryIn(FAR_MS), snoozeFor(FAR_MS), { kind: 'obsolete' }] as const
      for (const [n, outcome] of outcomes.entries()) {
        const key = `k${n}`
        await schedule(harness, key)
        const { stamp } = await hold(harness, key)
        expect(await settle(harness, key, stamp, outcome)).toBe('settled')
        const seen = await look(harness, key)
        const books = await harness.timetable.books(harness.topic)
        for (const again of outcomes) expect(await settle(harness, key, stamp, again)).toBe('stale')
        expect(await look(harness, key)).toEqual(seen)
        expect(await harness.timetable.books(harness.topic)).toEqual(books)
      }
    },
  },
  {
    name: 'a settle after the rescue is stale and changes nothing',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      expect((await rescue(harness, 'a')).rescued).toBe(1)
      const rescued = await view(harness, 'a')
      for (const outcome of [DONE, DEAD, retryIn(0)] as const)
        expect(await settle(harness, 'a', stamp, outcome)).toBe('stale')
      expect(await view(harness, 'a')).toEqual(rescued)
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'a settle of a task that was never there is stale',
    async run(harness) {
      expect(await settle(harness, 'a', await now(harness), DONE)).toBe('stale')
      expect(await settle(harness, 'a', await now(harness), DEAD)).toBe('stale')
      await expectBooks(harness, {})
    },
  },
  {
    name: 'a settle of two keys in one text is stale and changes nothing',
    async run(harness) {
      const keys = keysOfOneCell(3)
      const [a = ''] = keys
      await scheduleAll(harness, keys, { atMs: await now(harness) })
      const { stamp, tasks } = await claim(harness, a)
      const together = keysOf(tasks).slice(0, 2).join('\n')
      const settlements = [DONE, retryIn(FAR_MS)].map((outcome) => ({ key: together, stamp, outcome }))
      const at = { topic: harness.topic, cell: place(a).cell }
      expect(await harness.timetable.settle(at, settlements)).toEqual(['stale', 'stale'])
      for (const key of keys) expect(await settle(harness, key, stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'one call settles many tasks of a cell, each for itself, and answers in order',
    async run(harness) {
      const keys = keysOfOneCell(6)
      const [a = '', b = '', c = '', d = '', e = '', f = ''] = keys
      await scheduleAll(harness, keys)
      const { stamp } = await claim(harness, a)
      const answers = await harness.timetable.settle({ topic: harness.topic, cell: place(a).cell }, [
        { key: f, stamp, outcome: DONE },
        { key: a, stamp: stamp + 1, outcome: DONE },
        { key: b, stamp, outcome: retryIn(FAR_MS) },
        { key: 'never there', stamp, outcome: DONE },
        { key: c, stamp, outcome: DEAD },
        { key: d, stamp, outcome: snoozeFor(FAR_MS) },
        { key: e, stamp, outcome: { kind: 'obsolete' } },
      ])
      expect(answers).toEqual(['settled', 'stale', 'settled', 'stale', 'settled', 'settled', 'settled'])
      await expectBooks(harness, { scheduled: 6, done: 1, claimed: 1, pending: 2, dead: 1, obsolete: 1 })
    },
  },
  {
    name: 'a claim that is settled in pieces holds exactly the rest, until its lease ends',
    async run(harness) {
      const keys = keysOfOneCell(60)
      const [first = ''] = keys
      const at = { topic: harness.topic, cell: place(first).cell }
      await scheduleAll(harness, keys, { atMs: await now(harness) })
      const request = { req: newRequest(), limit: 60 }
      const { stamp, tasks } = await claim(harness, first, request)
      let rest = keysOf(tasks)
      expect(rest.toSorted()).toEqual(keys)
      const settleSome = async (some: readonly string[], outcome: SettleOutcome = DONE) => {
        const settlements = some.map((key) => ({ key, stamp, outcome }))
        expect(await harness.timetable.settle(at, settlements)).toEqual(some.map(() => 'settled'))
        // The same again changes nothing.
        expect(await harness.timetable.settle(at, settlements)).toEqual(some.map(() => 'stale'))
        rest = rest.filter((key) => !some.includes(key))
        expect(keysOf((await claim(harness, first, request)).tasks)).toEqual(rest)
        expect((await harness.timetable.counts(harness.topic)).claimed).toBe(rest.length)
      }
      const every = (n: number, from = 0) => rest.filter((_, i) => i % n === from)
      await settleSome(rest.slice(0, 10))
      await settleSome(rest.slice(20, 25))
      await settleSome(rest.slice(-1))
      await settleSome(rest.slice(7, 8), retryIn(FAR_MS))
      await settleSome(every(12).toReversed())
      await settleSome(every(3, 1).toReversed())
      await settleSome(every(4).toReversed(), snoozeFor(FAR_MS))
      // One of them is not held: the others are.
      const [one = '', two = '', three = ''] = rest
      const mixed = [three, keys.find((key) => !rest.includes(key)) ?? '', one]
      const answers = await harness.timetable.settle(
        at,
        mixed.map((key) => ({ key, stamp, outcome: DONE })),
      )
      expect(answers).toEqual(['settled', 'stale', 'settled'])
      rest = rest.filter((key) => key !== one && key !== three)
      expect(rest).toContain(two)
      expect(rest.length).toBeGreaterThan(10)
      await shortenLease(harness, first, request.req)
      await leaseEnds(harness)
      expect((await rescue(harness, first)).rescued).toBe(rest.length)
      await harness.advance(2 * RESCUE_SPREAD_MS)
      expect(keysOf((await claim(harness, first, { limit: 60 })).tasks).toSorted()).toEqual(rest.toSorted())
    },
  },
  {
    name: 'of two settlements of a key in one call the first counts, whatever they say',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      // Where scripts are sent when they are first needed: one of these was needed before, the other was not.
      await schedule(harness, b)
      const first = await hold(harness, b)
      await settle(harness, b, first.stamp, DONE)
      await schedule(harness, a)
      const { stamp } = await hold(harness, a)
      const answers = await harness.timetable.settle({ topic: harness.topic, cell: place(a).cell }, [
        { key: a, stamp, outcome: retryIn(FAR_MS) },
        { key: a, stamp, outcome: DONE },
      ])
      expect(answers).toEqual(['settled', 'stale'])
      await expectBooks(harness, { scheduled: 2, done: 1, pending: 1 })
    },
  },
  {
    name: 'extend keeps the stamp, and the lease alive beyond its first end',
    async run(harness) {
      const keys = keysOfOneCell(2)
      const [a = '', b = ''] = keys
      await scheduleAll(harness, keys)
      const req = newRequest()
      const { stamp } = await claim(harness, a, { req, leaseMs: SHORT_LEASE_MS })
      const at = { topic: harness.topic, cell: place(a).cell }
      expect(await harness.timetable.extend(at, req, FAR_MS)).toBe('extended')
      await leaseEnds(harness)
      const looked = await rescue(harness, a)
      expect(looked.rescued).toBe(0)
      expectBetween(looked.nextLeaseEndInMs ?? -1, FAR_MS / 2, FAR_MS)
      expect(await settle(harness, a, stamp, DONE)).toBe('settled')
      expect(await harness.timetable.extend(at, req, FAR_MS)).toBe('extended')
      expect(await settle(harness, b, stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'an extended lease ends as well, counted from the extension',
    async run(harness) {
      await schedule(harness, 'a')
      const req = newRequest()
      const { stamp } = await hold(harness, 'a', { req, leaseMs: FAR_MS })
      const at = { topic: harness.topic, cell: place('a').cell }
      expect(await harness.timetable.extend(at, req, SHORT_LEASE_MS)).toBe('extended')
      await leaseEnds(harness)
      expect((await rescue(harness, 'a')).rescued).toBe(1)
      expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
    },
  },
  {
    name: 'extend of a request that holds nothing is stale',
    async run(harness) {
      const at = { topic: harness.topic, cell: place('a').cell }
      const extend = (req: string) => harness.timetable.extend(at, req, FAR_MS)
      expect(await extend('never made')).toBe('stale')
      expect((await claim(harness, 'a', { req: 'empty' })).tasks).toEqual([])
      expect(await extend('empty')).toBe('stale')
      await schedule(harness, 'a')
      const settled = await hold(harness, 'a', { req: 'settled' })
      await settle(harness, 'a', settled.stamp, DONE)
      expect(await extend('settled')).toBe('stale')
      await schedule(harness, 'a')
      const retried = await hold(harness, 'a', { req: 'retried' })
      await settle(harness, 'a', retried.stamp, retryIn(FAR_MS))
      expect(await extend('retried')).toBe('stale')
      await schedule(harness, 'a')
      await hold(harness, 'a', { req: 'lost', leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      await rescue(harness, 'a')
      expect(await extend('lost')).toBe('stale')
      expect((await rescue(harness, 'a')).nextLeaseEndInMs).toBeNull()
    },
  },
  {
    name: 'extend of one claim leaves the others of its cell to their ends',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await schedule(harness, a)
      const req = newRequest()
      const first = await hold(harness, a, { req })
      await schedule(harness, b)
      const other = newRequest()
      const second = await hold(harness, b, { req: other })
      await shortenLease(harness, a, req)
      await shortenLease(harness, b, other)
      await harness.timetable.extend({ topic: harness.topic, cell: place(a).cell }, req, FAR_MS)
      await leaseEnds(harness)
      expect((await rescue(harness, a)).rescued).toBe(1)
      expect(await settle(harness, a, first.stamp, DONE)).toBe('settled')
      expect(await settle(harness, b, second.stamp, DONE)).toBe('stale')
      expect(keysOf(await list(harness, { state: 'pending' }))).toEqual([b])
    },
  },
])
