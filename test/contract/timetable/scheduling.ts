import { expect } from 'vitest'
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import {
  cancel,
  claim,
  DONE,
  during,
  entry,
  expectBetween,
  expectBooks,
  expectCounts,
  FAR_MS,
  find,
  hold,
  keysOf,
  keysOfOneCell,
  leaseEnds,
  look,
  now,
  place,
  reschedule,
  retryIn,
  schedule,
  scheduleAll,
  settle,
  SHORT_LEASE_MS,
  theme,
  view,
} from './helpers.ts'

export const scheduling = theme('scheduling', [
  {
    name: 'a new key is created, and seen as it was given',
    async run(harness) {
      const { answer, fromMs, toMs } = await during(harness, () =>
        schedule(harness, 'a', { body: '{"n":[]}', delayMs: 100, priority: 'low', tags: ['t', 'u'] }),
      )
      expect(answer).toEqual({ outcome: 'created', dueMs: answer.dueMs, inFlight: false })
      expectBetween(answer.dueMs, fromMs + 100, toMs + 100)
      expect(await view(harness, 'a')).toMatchObject({
        key: 'a',
        id: null,
        body: '{"n":[]}',
        state: 'pending',
        dueMs: answer.dueMs,
        ringMs: answer.dueMs,
        failures: 0,
        deliveries: 0,
        tags: ['t', 'u'],
        priority: 'low',
        lastError: null,
        deadCause: null,
      })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'an instant is taken as it is, also one in the past',
    async run(harness) {
      const nowMs = await now(harness)
      expect(await schedule(harness, 'a', { atMs: nowMs + FAR_MS })).toMatchObject({ dueMs: nowMs + FAR_MS })
      expect(await schedule(harness, 'b', { atMs: nowMs - FAR_MS })).toMatchObject({ dueMs: nowMs - FAR_MS })
      const { task } = await hold(harness, 'b')
      expect(task).toMatchObject({ dueMs: nowMs - FAR_MS, ringMs: nowMs - FAR_MS })
    },
  },
  {
    name: 'of several in one cell, each keeps its own due time, priority and answer',
    async run(harness) {
      const { timetable, topic } = harness
      const [a = '', b = '', c = '', d = ''] = keysOfOneCell(4)
      const { dueMs } = await schedule(harness, c, { delayMs: 3 * FAR_MS })
      const keep = { onConflict: 'keep' } as const
      const answers = await timetable.schedule(
        topic,
        [entry(a, keep), entry(b, { ...keep, priority: 'high' }), entry(c, keep), entry(d, keep)],
        0,
      )
      expect(answers.map(({ outcome }) => outcome)).toEqual(['created', 'created', 'kept', 'created'])
      expect(answers[2]?.dueMs).toBe(dueMs)
      expect(keysOf((await claim(harness, a, { limit: 1 })).tasks)).toEqual([b])
      expect(keysOf((await claim(harness, a)).tasks).toSorted()).toEqual([a, d])
    },
  },
  {
    name: 'a delay and an instant of the same number are two times',
    async run(harness) {
      const { timetable, topic } = harness
      const [a = '', b = ''] = keysOfOneCell(2)
      await timetable.schedule(topic, [entry(a, { atMs: FAR_MS }), entry(b, { delayMs: FAR_MS })], 0)
      expect(await view(harness, a)).toMatchObject({ dueMs: FAR_MS })
      expect((await view(harness, b))?.dueMs).toBeGreaterThan(FAR_MS)
    },
  },
  {
    name: 'one call answers for each entry, in order, over many cells',
    async run(harness) {
      const keys = Array.from({ length: 70 }, (_, n) => `k${n}`)
      await schedule(harness, 'k3', { delayMs: FAR_MS })
      await schedule(harness, 'k60', { delayMs: FAR_MS })
      const nowMs = await now(harness)
      const answers = await harness.timetable.schedule(
        harness.topic,
        keys.map((key, n) =>
          entry(key, { atMs: nowMs + FAR_MS + n, onConflict: n === 60 ? 'keep' : 'replace' }),
        ),
        0,
      )
      expect(answers.map(({ outcome }) => outcome)).toEqual(
        keys.map((_, n) => (n === 3 ? 'replaced' : n === 60 ? 'kept' : 'created')),
      )
      for (const [n, { dueMs }] of answers.entries()) if (n !== 60) expect(dueMs).toBe(nowMs + FAR_MS + n)
      await expectBooks(harness, { scheduled: 70, pending: 70 })
    },
  },
  {
    name: 'replace leaves one task, with the new body, time, priority and tags',
    async run(harness) {
      await schedule(harness, 'a', { body: 'old', priority: 'high', tags: ['old'] })
      const nowMs = await now(harness)
      const answer = await schedule(harness, 'a', {
        body: 'new',
        atMs: nowMs - 5,
        priority: 'low',
        tags: ['new'],
      })
      expect(answer).toEqual({ outcome: 'replaced', dueMs: nowMs - 5, inFlight: false })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
      const { tasks } = await claim(harness, 'a')
      expect(tasks).toHaveLength(1)
      expect(tasks[0]).toMatchObject({ body: 'new', dueMs: nowMs - 5, priority: 'low', tags: ['new'] })
      expect(await find(harness, 'a', 'live', { tag: 'old' })).toEqual([])
    },
  },
  {
    name: 'replace puts a due task off',
    async run(harness) {
      await schedule(harness, 'a')
      await schedule(harness, 'a', { delayMs: FAR_MS })
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await expectCounts(harness, { pending: 1 })
    },
  },
  {
    name: 'replace of a held task fences the claim and delivers the new body only',
    async run(harness) {
      await schedule(harness, 'a', { body: 'old' })
      const old = await hold(harness, 'a')
      expect(await schedule(harness, 'a', { body: 'new' })).toMatchObject({
        outcome: 'replaced',
        inFlight: true,
      })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
      expect(await settle(harness, 'a', old.stamp, DONE)).toBe('stale')
      const { task, stamp } = await hold(harness, 'a')
      expect(task).toMatchObject({ body: 'new', failures: 0, deliveries: 1 })
      expect(task.id).not.toBe(old.task.id)
      expect(await settle(harness, 'a', old.stamp, retryIn(0))).toBe('stale')
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'replace of one task leaves the others of its claim to their holder',
    async run(harness) {
      const keys = keysOfOneCell(2)
      const [replaced = '', left = ''] = keys
      await scheduleAll(harness, keys)
      const { stamp } = await claim(harness, left)
      await schedule(harness, replaced, { delayMs: FAR_MS })
      expect(
        await harness.timetable.settle(
          { topic: harness.topic, cell: place(left).cell },
          keys.map((key) => ({ key, stamp, outcome: DONE })),
        ),
      ).toEqual(['stale', 'settled'])
    },
  },
  {
    name: 'replace forgets failures and the mark of a cancel',
    async run(harness) {
      await schedule(harness, 'a')
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(0))
      await hold(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await schedule(harness, 'a')).toMatchObject({ outcome: 'replaced', inFlight: true })
      const { stamp, task } = await hold(harness, 'a')
      expect(task).toMatchObject({ failures: 0, deliveries: 1 })
      expect(await settle(harness, 'a', stamp, retryIn(0))).toBe('settled')
      expect(await view(harness, 'a')).toMatchObject({ state: 'pending', failures: 1 })
    },
  },
  {
    name: 'keep leaves the body, the time, the priority and the tags',
    async run(harness) {
      const first = await schedule(harness, 'a', { body: 'old', delayMs: FAR_MS, tags: ['old'] })
      const answer = await schedule(harness, 'a', {
        body: 'new',
        priority: 'high',
        tags: ['new'],
        onConflict: 'keep',
      })
      expect(answer).toEqual({ outcome: 'kept', dueMs: first.dueMs, inFlight: false })
      expect(await view(harness, 'a')).toMatchObject({
        body: 'old',
        dueMs: first.dueMs,
        ringMs: first.dueMs,
        priority: 'normal',
        tags: ['old'],
      })
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'keep over a held task leaves it to its holder',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      expect(await schedule(harness, 'a', { delayMs: FAR_MS, onConflict: 'keep' })).toEqual({
        outcome: 'kept',
        dueMs,
        inFlight: true,
      })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'keep where there is nothing creates',
    async run(harness) {
      expect(await schedule(harness, 'a', { onConflict: 'keep' })).toMatchObject({
        outcome: 'created',
        inFlight: false,
      })
      await hold(harness, 'a')
    },
  },
  {
    name: 'keep over a held task that was cancelled creates anew',
    async run(harness) {
      await schedule(harness, 'a', { body: 'old' })
      const old = await hold(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await schedule(harness, 'a', { body: 'new', onConflict: 'keep' })).toMatchObject({
        outcome: 'replaced',
        inFlight: true,
      })
      expect(await settle(harness, 'a', old.stamp, DONE)).toBe('stale')
      const { task, stamp } = await hold(harness, 'a')
      expect(task.body).toBe('new')
      expect(await settle(harness, 'a', stamp, retryIn(FAR_MS))).toBe('settled')
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'an ended key can be scheduled again, as another task',
    async run(harness) {
      await schedule(harness, 'a')
      const failed = await hold(harness, 'a')
      await settle(harness, 'a', failed.stamp, retryIn(0))
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, DONE)
      expect(await schedule(harness, 'a')).toMatchObject({ outcome: 'created', inFlight: false })
      const second = await hold(harness, 'a')
      expect(second.task.id).not.toBe(first.task.id)
      expect(second.task).toMatchObject({ failures: 0, deliveries: 1 })
      expect(await settle(harness, 'a', first.stamp, DONE)).toBe('stale')
    },
  },
  {
    name: 'rings are rounded up to the quantum, never down',
    async run(harness) {
      const nowMs = await now(harness)
      const mergeMs = 1_000
      const base = Math.ceil((nowMs + FAR_MS) / mergeMs) * mergeMs
      const asked = [base - 999, base - 1, base, base + 1]
      const answers = await harness.timetable.schedule(
        harness.topic,
        asked.map((atMs, n) => entry(`at${n}`, { atMs })),
        mergeMs,
      )
      expect(answers.map(({ dueMs }) => dueMs)).toEqual([base, base, base, base + mergeMs])
      expect(await view(harness, 'at0')).toMatchObject({ ringMs: base, dueMs: base })
    },
  },
  {
    name: 'a delay is rounded up from its end',
    async run(harness) {
      const { answer, fromMs, toMs } = await during(harness, () =>
        harness.timetable.schedule(harness.topic, [entry('a', { delayMs: 30 })], 50),
      )
      const dueMs = answer[0]?.dueMs ?? 0
      expect(dueMs % 50).toBe(0)
      expectBetween(dueMs, fromMs + 30, toMs + 30 + 49)
    },
  },
  {
    name: 'reschedule to an instant, by a delay, by a shift',
    async run(harness) {
      await schedule(harness, 'a', { delayMs: FAR_MS })
      const atMs = (await now(harness)) + 2 * FAR_MS
      expect(await reschedule(harness, 'a', { kind: 'at', ms: atMs })).toEqual({
        outcome: 'rescheduled',
        dueMs: atMs,
      })
      for (const ms of [5_000, -7_000]) {
        const { ringMs } = await view(harness, 'a')
        const { dueMs } = await reschedule(harness, 'a', { kind: 'shift', ms })
        expect(dueMs).toBe(ringMs + ms)
        expect(await view(harness, 'a')).toMatchObject({ ringMs: ringMs + ms, dueMs: ringMs + ms })
      }
      const { answer, fromMs, toMs } = await during(harness, () =>
        reschedule(harness, 'a', { kind: 'delay', ms: 0 }),
      )
      expectBetween(answer.dueMs ?? 0, fromMs, toMs)
      const { task } = await hold(harness, 'a')
      expect(task).toMatchObject({ dueMs: answer.dueMs, ringMs: answer.dueMs, body: 'body of a' })
    },
  },
  {
    name: 'what lies beyond the ends of time rings at the end',
    async run(harness) {
      expect(await schedule(harness, 'a', { delayMs: LAST_INSTANT_MS })).toMatchObject({
        dueMs: LAST_INSTANT_MS,
      })
      expect(await view(harness, 'a')).toMatchObject({ ringMs: LAST_INSTANT_MS })
      expect(await reschedule(harness, 'a', { kind: 'shift', ms: -LAST_INSTANT_MS - 1 })).toMatchObject({
        dueMs: 0,
      })
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, retryIn(LAST_INSTANT_MS))
      expect(await view(harness, 'a')).toMatchObject({ ringMs: LAST_INSTANT_MS, failures: 1 })
    },
  },
  {
    name: 'reschedule puts a due task off, and keeps what it is',
    async run(harness) {
      await schedule(harness, 'a', { body: 'b', priority: 'high', tags: ['t'] })
      await reschedule(harness, 'a', { kind: 'delay', ms: FAR_MS })
      expect((await claim(harness, 'a')).tasks).toEqual([])
      expect(await view(harness, 'a')).toMatchObject({ body: 'b', priority: 'high', tags: ['t'] })
      expect(await find(harness, 'a', 'live', { tag: 't' })).toEqual(['a'])
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'reschedule rounds up to the quantum',
    async run(harness) {
      await schedule(harness, 'a', { delayMs: FAR_MS })
      const base = Math.ceil((await now(harness)) / 1_000) * 1_000 + FAR_MS
      expect(await reschedule(harness, 'a', { kind: 'at', ms: base + 1 }, 1_000)).toMatchObject({
        dueMs: base + 1_000,
      })
      expect(await reschedule(harness, 'a', { kind: 'shift', ms: -1 }, 1_000)).toMatchObject({
        dueMs: base + 1_000,
      })
    },
  },
  {
    name: 'reschedule forgets failures',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, retryIn(FAR_MS))
      expect(await view(harness, 'a')).toMatchObject({ failures: 1 })
      const dueMs = (await now(harness)) - 7
      expect(await reschedule(harness, 'a', { kind: 'at', ms: dueMs })).toMatchObject({ dueMs })
      expect(await view(harness, 'a')).toMatchObject({ failures: 0, dueMs, ringMs: dueMs })
      const { task } = await hold(harness, 'a')
      expect(task).toMatchObject({ failures: 0, dueMs, ringMs: dueMs })
    },
  },
  {
    name: 'reschedule of a held task leaves it as it is',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      expect(await reschedule(harness, 'a', { kind: 'delay', ms: FAR_MS })).toEqual({
        outcome: 'in-flight',
        dueMs: null,
      })
      expect(await view(harness, 'a')).toMatchObject({ state: 'claimed', dueMs })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'reschedule of a task whose lease ran out moves it',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      expect(await reschedule(harness, 'a', { kind: 'delay', ms: 0 })).toMatchObject({
        outcome: 'rescheduled',
      })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
      await hold(harness, 'a')
    },
  },
  {
    name: 'reschedule answers for each place, in order; what is not there is not found',
    async run(harness) {
      await schedule(harness, 'b', { delayMs: FAR_MS })
      const when = { kind: 'delay', ms: FAR_MS } as const
      const answers = await harness.timetable.reschedule(
        harness.topic,
        ['a', 'b', 'c'].map((key) => place(key)),
        when,
        0,
      )
      expect(answers.map(({ outcome }) => outcome)).toEqual(['not-found', 'rescheduled', 'not-found'])
      expect(answers[0]?.dueMs).toBeNull()
      expect(await look(harness, 'a')).toBeNull()
    },
  },
  {
    name: 'topics do not see each other',
    async run(harness) {
      const other = { ...harness, topic: `${harness.topic}-other` }
      await schedule(harness, 'a', { body: 'ours', tags: ['t'] })
      expect(await schedule(other, 'a', { body: 'theirs', delayMs: FAR_MS })).toMatchObject({
        outcome: 'created',
      })
      const { stamp, task } = await hold(harness, 'a')
      expect(task.body).toBe('ours')
      expect(keysOf((await claim(other, 'a')).tasks)).toEqual([])
      expect(await settle(other, 'a', stamp, DONE)).toBe('stale')
      expect(await find(other, 'a', 'live', { tag: 't' })).toEqual([])
      expect(await cancel(other, 'a')).toBe('cancelled')
      expect(await view(harness, 'a')).toMatchObject({ state: 'claimed', body: 'ours' })
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
      await expectBooks(other, { scheduled: 1, cancelled: 1 })
    },
  },
])
