import { expect } from 'vitest'
import { DEAD, DONE, FAR_MS, keysOf, LONG_LEASE_MS, retryIn } from '../timetable/helpers.ts'
import {
  begin,
  cancel,
  claim,
  endNew,
  expectBalance,
  expectBooks,
  extend,
  hintOf,
  hold,
  holdNew,
  type LedgerCase,
  list,
  loadAll,
  look,
  makeSuspect,
  put,
  settle,
  theme,
} from './helpers.ts'

const STATES = [null, 'pending', 'done', 'dead', 'cancelled', 'obsolete'] as const

const cases: readonly LedgerCase[] = [
  {
    name: 'everything is still there',
    async run(harness) {
      const { topic } = harness
      await put(harness, 'near', { tags: ['x'], priority: 'high' })
      await put(harness, 'far', { delayMs: FAR_MS })
      const { stamp } = await holdNew(harness, 'failed')
      await settle(harness, 'failed', stamp, retryIn(FAR_MS, 'no luck'))
      await endNew(harness, 'done', DONE)
      await endNew(harness, 'dead', DEAD)
      await put(harness, 'cancelled')
      await cancel(harness, 'cancelled')
      const all = async () => ({
        books: await harness.ledger.books(topic),
        recount: await harness.ledger.recount(topic),
        counts: await harness.ledger.counts(topic),
        topics: await harness.ledger.topics(),
        hints: await loadAll(harness),
        lists: await Promise.all(STATES.map((state) => list(harness, { state }))),
      })
      const before = await all()
      await harness.reopen()
      expect(await all()).toEqual(before)
    },
  },
  {
    name: 'what the former process held is free at once, and its loss is counted',
    async run(harness) {
      const { dueMs } = await put(harness, 'a')
      const first = await hold(harness, 'a', { leaseMs: LONG_LEASE_MS })
      await harness.reopen()
      expect(await look(harness, 'a')).toMatchObject({ state: 'pending', deliveries: 1 })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
      expect(await hintOf(harness, 'a')).toMatchObject({ ringMs: dueMs, isSuspect: false })
      expect((await hold(harness, 'a')).task).toEqual({ ...first.task, deliveries: 2 })
      await harness.reopen()
      expect(await hintOf(harness, 'a')).toMatchObject({ isSuspect: true })
      expect((await claim(harness, 'a')).kind).toBe('suspect')
    },
  },
  {
    name: 'a stamp of the former process means nothing',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      await harness.reopen()
      expect(await settle(harness, 'a', stamp, DONE)).toEqual({ answer: 'stale', hint: null })
      expect(await extend(harness, ['a'], stamp, LONG_LEASE_MS)).toBe(0)
      expect(await begin(harness, 'a', stamp)).toBe(false)
      const again = await hold(harness, 'a', { stamp })
      expect(again.task.deliveries).toBe(2)
      expect(await settle(harness, 'a', stamp, DONE)).toMatchObject({ answer: 'settled' })
    },
  },
  {
    name: 'a suspect that took the process with it, alone, is poison',
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true })
      await begin(harness, 'a', stamp)
      await harness.reopen()
      expect((await claim(harness, 'a')).kind).toBe('poison')
      await expectBooks(harness, { scheduled: 1, dead: 1 })
    },
  },
  {
    name: 'what was cancelled in flight is not delivered again: it is cancelled',
    async run(harness) {
      await holdNew(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      await harness.reopen()
      await expectBalance(harness)
      expect(await hintOf(harness, 'a')).toBeNull()
      expect(await claim(harness, 'a')).toEqual({ kind: 'gone' })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'what the former process held can be cancelled, moved or replaced, exactly',
    async run(harness) {
      const { ledger, topic } = harness
      for (const key of ['a', 'b', 'c']) await holdNew(harness, key)
      expect(await ledger.counts(topic)).toMatchObject({ claimed: 3 })
      await harness.reopen()
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect(await put(harness, 'b')).toMatchObject({ outcome: 'replaced', inFlight: false })
      expect((await claim(harness, 'b')).kind).toBe('ours')
      await expectBooks(harness, { scheduled: 3, pending: 1, claimed: 1, cancelled: 1 })
      await expectBalance(harness)
    },
  },
  {
    name: 'every one of many sessions adds to the same books',
    async run(harness) {
      for (let n = 0; n < 5; n++) {
        await endNew(harness, `k${n}`, DONE)
        await holdNew(harness, `h${n}`)
        await harness.reopen()
      }
      await expectBooks(harness, { scheduled: 10, pending: 5, done: 5 })
      expect(keysOf(await list(harness))).toEqual(['h0', 'h1', 'h2', 'h3', 'h4'])
    },
  },
]

export const reopening = theme('reopening', cases)
