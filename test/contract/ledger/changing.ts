import { expect } from 'vitest'
import { DONE, FAR_MS, place, retryIn, SHORT_LEASE_MS } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  endNew,
  expectBooks,
  hintOf,
  hold,
  holdNew,
  leaseEnds,
  type LedgerCase,
  look,
  lose,
  makeSuspect,
  now,
  put,
  reschedule,
  settle,
  theme,
} from './helpers.ts'

const LATER = { kind: 'delay', ms: FAR_MS } as const
const NOT_FOUND = { outcome: 'not-found', dueMs: null, hint: null }
const IN_FLIGHT = { outcome: 'in-flight', dueMs: null, hint: null }

const cases: readonly LedgerCase[] = [
  {
    name: 'a waiting task is cancelled, once: it is gone, and the ledger remembers',
    async run(harness) {
      await put(harness, 'a', { tags: ['x'] })
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect(await cancel(harness, 'a')).toBe('not-found')
      expect(await claim(harness, 'a')).toEqual({ kind: 'gone' })
      expect(await look(harness, 'a')).toMatchObject({ state: 'cancelled', deliveries: 0, tags: ['x'] })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'a held task is marked, as often as one likes; its holder ends it',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await look(harness, 'a')).toMatchObject({ state: 'claimed' })
      expect(await hintOf(harness, 'a')).toBeNull()
      expect((await claim(harness, 'a')).kind).toBe('held')
      expect(await settle(harness, 'a', stamp, DONE)).toMatchObject({ answer: 'settled' })
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'a task whose lease is over is cancelled for good: nobody has it',
    async run(harness) {
      await put(harness, 'a')
      const { stamp } = await lose(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect(await settle(harness, 'a', stamp, DONE)).toEqual({ answer: 'stale', hint: null })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'a marked task whose lease is over is cancelled',
    async run(harness) {
      await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await cancel(harness, 'a')
      await leaseEnds(harness)
      expect(await cancel(harness, 'a')).toBe('cancelled')
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'what never was, or ended, cannot be cancelled or moved',
    async run(harness) {
      await endNew(harness, 'ended', DONE)
      for (const key of ['never', 'ended']) {
        expect(await cancel(harness, key)).toBe('not-found')
        expect(await reschedule(harness, key, LATER)).toEqual(NOT_FOUND)
      }
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'many at once are answered in order, a key twice among them as well',
    async run(harness) {
      const { ledger, topic } = harness
      await put(harness, 'a')
      await holdNew(harness, 'b')
      const places = ['b', 'never', 'a', 'a'].map((key) => place(key))
      expect((await ledger.reschedule(topic, places, LATER, 0)).map(({ outcome }) => outcome)).toEqual([
        'in-flight',
        'not-found',
        'rescheduled',
        'rescheduled',
      ])
      expect(await ledger.cancel(topic, places)).toEqual(['in-flight', 'not-found', 'cancelled', 'not-found'])
      expect(await ledger.cancel(topic, [])).toEqual([])
    },
  },
  {
    name: 'a waiting task is moved, and its hint with it: the same task, at another time',
    async run(harness) {
      const { hint } = await put(harness, 'a', { tags: ['x'], priority: 'low' })
      const before = await look(harness, 'a')
      const atMs = (await now(harness)) + FAR_MS
      const moved = await reschedule(harness, 'a', { kind: 'at', ms: atMs })
      expect(moved).toEqual({ outcome: 'rescheduled', dueMs: atMs, hint: { ...hint, ringMs: atMs } })
      expect(await hintOf(harness, 'a')).toEqual(moved.hint)
      const after = await look(harness, 'a')
      expect(after).toEqual({ ...before, dueMs: atMs, ringMs: atMs, updatedMs: after?.updatedMs })
      expect((await claim(harness, 'a', { nowMs: atMs - 1 })).kind).toBe('later')
      expect((await claim(harness, 'a', { nowMs: atMs })).kind).toBe('ours')
    },
  },
  {
    name: 'a shift starts from where the task is, rounded up to the quantum, and never before 1970',
    async run(harness) {
      const atMs = Math.ceil(((await now(harness)) + FAR_MS) / 1_000) * 1_000
      await put(harness, 'a', { atMs })
      expect(await reschedule(harness, 'a', { kind: 'shift', ms: 500 })).toMatchObject({ dueMs: atMs + 500 })
      expect(await reschedule(harness, 'a', { kind: 'shift', ms: 1 }, 1_000)).toMatchObject({
        dueMs: atMs + 1_000,
      })
      expect(await reschedule(harness, 'a', { kind: 'shift', ms: -1_000 })).toMatchObject({ dueMs: atMs })
      expect(await reschedule(harness, 'a', { kind: 'shift', ms: -1e15 })).toMatchObject({ dueMs: 0 })
    },
  },
  {
    name: 'moving forgets failures and losses, and keeps what was delivered',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      await settle(harness, 'a', stamp, retryIn(0))
      expect((await reschedule(harness, 'a', { kind: 'delay', ms: 0 })).hint).toMatchObject({ failures: 0 })
      expect(await look(harness, 'a')).toMatchObject({ failures: 0, deliveries: 1 })
      await makeSuspect(harness, 'b')
      const moved = await reschedule(harness, 'b', { kind: 'delay', ms: 0 })
      expect(moved.hint).toMatchObject({ isSuspect: false })
      expect((await hold(harness, 'b')).task).toMatchObject({ failures: 0, deliveries: 3 })
    },
  },
  {
    name: 'a held task stays as it is',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      const before = await look(harness, 'a')
      expect(await reschedule(harness, 'a', LATER)).toEqual(IN_FLIGHT)
      expect(await look(harness, 'a')).toEqual(before)
      expect(await settle(harness, 'a', stamp, DONE)).toMatchObject({ answer: 'settled' })
    },
  },
  {
    name: 'a task whose lease is over is moved, and its former holder has nothing',
    async run(harness) {
      await put(harness, 'a')
      const { stamp } = await lose(harness, 'a')
      const moved = await reschedule(harness, 'a', LATER)
      expect(moved.outcome).toBe('rescheduled')
      expect(await settle(harness, 'a', stamp, DONE)).toEqual({ answer: 'stale', hint: null })
      expect(await claim(harness, 'a')).toEqual({ kind: 'later', hint: moved.hint })
    },
  },
  {
    name: 'a marked task is in flight, and when its lease is over it has ended: nothing to move',
    async run(harness) {
      await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await cancel(harness, 'a')
      expect(await reschedule(harness, 'a', LATER)).toEqual(IN_FLIGHT)
      await leaseEnds(harness)
      expect(await reschedule(harness, 'a', LATER)).toEqual(NOT_FOUND)
      expect(await look(harness, 'a')).toMatchObject({ state: 'cancelled' })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
]

export const changing = theme('changing', cases)
