import { expect } from 'vitest'
import { entry, FAR_MS, only, place } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  expectBooks,
  hintOf,
  hold,
  holdNew,
  leaseEnds,
  type LedgerCase,
  look,
  now,
  put,
  settle,
  theme,
} from './helpers.ts'

const cases: readonly LedgerCase[] = [
  {
    name: 'a new task is created, and its hint says where it rings',
    async run(harness) {
      const before = await now(harness)
      const answer = await put(harness, 'a', { delayMs: FAR_MS, priority: 'high' })
      expect(answer).toMatchObject({ outcome: 'created', inFlight: false })
      expect(answer.dueMs).toBeGreaterThanOrEqual(before + FAR_MS)
      expect(answer.hint).toEqual({
        ...place('a'),
        ringMs: answer.dueMs,
        failures: 0,
        priority: 'high',
        isSuspect: false,
      })
      expect(await hintOf(harness, 'a')).toEqual(answer.hint)
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'what is written is what is claimed',
    async run(harness) {
      const { dueMs } = await put(harness, 'a', {
        body: '{"é":"\\u0000😀"}',
        tags: ['x', 'y'],
        priority: 'low',
      })
      const { task } = await hold(harness, 'a')
      expect(task).toEqual({
        id: task.id,
        key: 'a',
        body: '{"é":"\\u0000😀"}',
        dueMs,
        ringMs: dueMs,
        failures: 0,
        deliveries: 1,
        tags: ['x', 'y'],
        priority: 'low',
      })
    },
  },
  {
    name: 'an instant is kept as it is, a delay starts now, and both are rounded up to the quantum',
    async run(harness) {
      const atMs = (await now(harness)) + FAR_MS
      expect(await put(harness, 'a', { atMs })).toMatchObject({ dueMs: atMs })
      expect(await put(harness, 'b', { atMs: atMs - (atMs % 1_000) + 1 }, 1_000)).toMatchObject({
        dueMs: atMs - (atMs % 1_000) + 1_000,
      })
      const { dueMs } = await put(harness, 'c', { delayMs: 1 }, 1_000)
      expect(dueMs % 1_000).toBe(0)
    },
  },
  {
    name: 'a second task of a key replaces the first, as one task in the books',
    async run(harness) {
      await put(harness, 'a', { delayMs: FAR_MS, body: 'first', tags: ['x'] })
      const second = await put(harness, 'a', { delayMs: 0, body: 'second' })
      expect(second).toMatchObject({ outcome: 'replaced', inFlight: false })
      expect(await look(harness, 'a')).toMatchObject({ body: 'second', dueMs: second.dueMs, tags: [] })
      expect(second.hint).toEqual(await hintOf(harness, 'a'))
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'a task that replaces another has an id of its own',
    async run(harness) {
      const first = await holdNew(harness, 'a')
      await put(harness, 'a')
      expect((await hold(harness, 'a')).task.id).not.toBe(first.task.id)
    },
  },
  {
    name: "'keep' keeps the older task, and answers when that one is due",
    async run(harness) {
      const first = await put(harness, 'a', { delayMs: FAR_MS, body: 'first' })
      expect(await put(harness, 'a', { body: 'second', onConflict: 'keep' })).toEqual({
        outcome: 'kept',
        dueMs: first.dueMs,
        inFlight: false,
        hint: null,
      })
      expect(await look(harness, 'a')).toMatchObject({ body: 'first', dueMs: first.dueMs })
      expect(await hintOf(harness, 'a')).toEqual(first.hint)
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: "'keep' creates where there is nothing to keep, also after an end",
    async run(harness) {
      expect(await put(harness, 'a', { onConflict: 'keep' })).toMatchObject({ outcome: 'created' })
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, { kind: 'done' })
      expect(await put(harness, 'a', { onConflict: 'keep' })).toMatchObject({ outcome: 'created' })
      await expectBooks(harness, { scheduled: 2, pending: 1, done: 1 })
    },
  },
  {
    name: 'a held task is replaced in flight: the new one waits, the holder has lost it',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      expect(await put(harness, 'a', { body: 'second' })).toMatchObject({
        outcome: 'replaced',
        inFlight: true,
      })
      expect(await settle(harness, 'a', stamp, { kind: 'done' })).toEqual({ answer: 'stale', hint: null })
      expect((await hold(harness, 'a')).task).toMatchObject({ body: 'second', deliveries: 1 })
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
    },
  },
  {
    name: 'a held task is kept in flight, unless it was cancelled: then there is nothing to keep',
    async run(harness) {
      await holdNew(harness, 'a')
      expect(await put(harness, 'a', { onConflict: 'keep' })).toMatchObject({
        outcome: 'kept',
        inFlight: true,
      })
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await put(harness, 'a', { onConflict: 'keep', body: 'new' })).toMatchObject({
        outcome: 'replaced',
        inFlight: true,
      })
      expect((await hold(harness, 'a')).task).toMatchObject({ body: 'new', deliveries: 1 })
    },
  },
  {
    name: 'a task whose lease is over is replaced without its past: no losses, no mark',
    async run(harness) {
      await holdNew(harness, 'a', { leaseMs: 50 })
      await cancel(harness, 'a')
      await leaseEnds(harness)
      expect(await put(harness, 'a', { body: 'new' })).toMatchObject({ outcome: 'replaced' })
      expect((await hold(harness, 'a')).task).toMatchObject({ body: 'new', deliveries: 1 })
    },
  },
  {
    name: 'an id is never given twice, not even after an end, a replacement or a restart',
    async run(harness) {
      const ids: string[] = []
      const write = async (key: string) => {
        await put(harness, key)
        ids.push((await look(harness, key))?.id ?? '')
      }
      await write('a')
      await write('a')
      await cancel(harness, 'a')
      await write('a')
      await harness.reopen()
      await write('a')
      await write('b')
      expect(new Set(ids).size).toBe(5)
    },
  },
  {
    name: 'the id that a task has before its first claim is the one it is claimed with',
    async run(harness) {
      await put(harness, 'a')
      const before = await look(harness, 'a')
      expect((await hold(harness, 'a')).task.id).toBe(before?.id)
    },
  },
  {
    name: 'many at once are answered in order, a key twice among them as well',
    async run(harness) {
      const { ledger, topic } = harness
      const answers = await ledger.schedule(
        topic,
        [
          entry('a'),
          entry('b', { body: 'one' }),
          entry('b', { body: 'two' }),
          entry('a', { onConflict: 'keep' }),
        ],
        0,
      )
      expect(answers.map(({ outcome }) => outcome)).toEqual(['created', 'created', 'replaced', 'kept'])
      expect(await look(harness, 'b')).toMatchObject({ body: 'two' })
      await expectBooks(harness, { scheduled: 2, pending: 2 })
    },
  },
  {
    name: 'nothing is nothing, and topics do not know of one another',
    needsEmptyLedger: true,
    async run(harness) {
      const { ledger, topic } = harness
      expect(await ledger.schedule(topic, [], 0)).toEqual([])
      await put(harness, 'a', { body: 'here' })
      only(await ledger.schedule('another', [entry('a', { body: 'there' })], 0))
      expect(await ledger.cancel('another', [place('a')])).toEqual(['cancelled'])
      expect(await look(harness, 'a')).toMatchObject({ body: 'here', state: 'pending' })
      expect((await claim(harness, 'a')).kind).toBe('ours')
      expect((await ledger.topics()).toSorted()).toEqual(['another', topic].toSorted())
    },
  },
  {
    name: 'topics are those that ever had a task: asking for one does not make it one',
    needsEmptyLedger: true,
    async run({ ledger, topic }) {
      expect(await ledger.topics()).toEqual([])
      await ledger.get(topic, place('a'))
      await ledger.books(topic)
      await ledger.load(topic, null, 1, 1)
      expect(await ledger.topics()).toEqual([])
    },
  },
]

export const scheduling = theme('scheduling', cases)
