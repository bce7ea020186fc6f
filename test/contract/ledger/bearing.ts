/** Whoever has the token of a claim, its session and its stamp, may speak for it, in whichever process. */
import { expect } from 'vitest'
import type { ExtendAnswer, Ledger, LedgerSettled, LedgerSettlement } from '../../../src/ledger.ts'
import {
  DEAD,
  DONE,
  keysOfOneCell,
  LONG_LEASE_MS,
  only,
  place,
  RETURN,
  retryIn,
  SHORT_LEASE_MS,
  snoozeFor,
} from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  expectBooks,
  hold,
  holdNew,
  leaseEnds,
  type LedgerCase,
  type LedgerHarness,
  LOST,
  look,
  newStamp,
  OBSOLETE,
  putAll,
  theme,
} from './helpers.ts'

const STALE = { answer: 'stale', hint: null }
const OUTCOMES = [DONE, OBSOLETE, DEAD, RETURN, LOST, retryIn(0), snoozeFor(0)] as const

function sessionOf({ ledger }: LedgerHarness, key: string): number {
  return ledger.sessionOf(place(key).cell)
}

async function settleAs(
  { topic }: LedgerHarness,
  ledger: Ledger,
  session: number,
  key: string,
  stamp: number,
  outcome: LedgerSettlement['outcome'] = DONE,
): Promise<LedgerSettled> {
  return only(await ledger.settle(topic, [{ ...place(key), stamp, outcome }], session))
}

async function extendAs(
  { topic }: LedgerHarness,
  ledger: Ledger,
  session: number,
  key: string,
  stamp: number,
  leaseMs = LONG_LEASE_MS,
): Promise<ExtendAnswer> {
  return only(await ledger.extend(topic, [place(key)], stamp, leaseMs, session))
}

const cases: readonly LedgerCase[] = [
  {
    name: 'a session is that of its process, whatever it does, and the next one has another',
    async run(harness) {
      const session = sessionOf(harness, 'a')
      await holdNew(harness, 'a')
      expect(sessionOf(harness, 'a')).toBe(session)
      await harness.reopen()
      expect(sessionOf(harness, 'a')).not.toBe(session)
    },
  },
  {
    name: 'its own session, by name, is what it is without',
    async run(harness) {
      const { ledger } = harness
      const session = sessionOf(harness, 'a')
      const { stamp } = await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      expect(await extendAs(harness, ledger, session, 'a', stamp)).toBe('extended')
      await leaseEnds(harness)
      expect((await claim(harness, 'a')).kind).toBe('held')
      expect(await settleAs(harness, ledger, session, 'a', stamp)).toEqual({ answer: 'settled', hint: null })
      expect(await settleAs(harness, ledger, session, 'a', stamp)).toEqual(STALE)
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'under the session of somebody else, whatever it says is stale and changes nothing',
    async run(harness) {
      const { ledger } = harness
      const session = sessionOf(harness, 'a')
      const { stamp } = await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      const before = await look(harness, 'a')
      for (const wrong of [session + 1, session - 1, 0])
        for (const outcome of OUTCOMES)
          expect(await settleAs(harness, ledger, wrong, 'a', stamp, outcome), outcome.kind).toEqual(STALE)
      expect(await look(harness, 'a')).toEqual(before)
      expect(await extendAs(harness, ledger, session + 1, 'a', stamp)).toBe('stale')
      await leaseEnds(harness)
      expect((await claim(harness, 'a')).kind).toBe('ours')
    },
  },
  {
    name: 'only what is named is extended: the others of the claim end when they would have',
    async run(harness) {
      const { ledger, topic } = harness
      const keys = keysOfOneCell(3)
      const [a = '', b = '', c = ''] = keys
      const stamp = newStamp()
      await putAll(harness, keys)
      for (const key of keys) await hold(harness, key, { stamp, leaseMs: SHORT_LEASE_MS })
      const session = sessionOf(harness, a)
      const places = [place(c), place(a)]
      expect(await ledger.extend(topic, places, stamp, LONG_LEASE_MS, session)).toEqual([
        'extended',
        'extended',
      ])
      await leaseEnds(harness)
      expect((await claim(harness, b)).kind).toBe('ours')
      for (const key of [a, c]) expect((await claim(harness, key)).kind).toBe('held')
    },
  },
  {
    name: 'what a process held that is gone: its token is good where processes share the ledger, and nothing elsewhere',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      const session = sessionOf(harness, 'a')
      await harness.reopen()
      const { ledger } = harness
      const isGood = harness.isShared === true
      expect(await extendAs(harness, ledger, session, 'a', stamp)).toBe(isGood ? 'extended' : 'stale')
      await leaseEnds(harness)
      const settled = await settleAs(harness, ledger, session, 'a', stamp, retryIn(0, 'no luck'))
      expect(settled.answer).toBe(isGood ? 'settled' : 'stale')
      expect(await settleAs(harness, ledger, session, 'a', stamp)).toEqual(STALE)
      // Where it means nothing, the task was free from the beginning of the new session.
      const failures = isGood ? 1 : 0
      expect((await hold(harness, 'a')).task).toMatchObject({ failures, deliveries: 2 })
    },
  },
  {
    name: 'through another process that is open: every outcome, once',
    async run(harness) {
      if (harness.another === undefined) return
      const other = await harness.another()
      const outcomes = OUTCOMES.filter(({ kind }) => kind !== 'lost')
      for (const [n, outcome] of outcomes.entries()) {
        const key = `k${n}`
        const { stamp } = await holdNew(harness, key)
        const session = sessionOf(harness, key)
        expect((await settleAs(harness, other, session, key, stamp, outcome)).answer).toBe('settled')
        const before = await look(harness, key)
        for (const ledger of [other, harness.ledger])
          expect(await settleAs(harness, ledger, session, key, stamp, outcome)).toEqual(STALE)
        expect(await look(harness, key)).toEqual(before)
      }
      await expectBooks(harness, { scheduled: 6, done: 1, obsolete: 1, dead: 1, pending: 3 })
    },
  },
  {
    name: 'extended through another process, it is not lost by the one that claimed it',
    async run(harness) {
      if (harness.another === undefined) return
      const other = await harness.another()
      const session = sessionOf(harness, 'a')
      const { stamp } = await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      for (let times = 0; times < 2; times++)
        expect(await extendAs(harness, other, session, 'a', stamp)).toBe('extended')
      await leaseEnds(harness)
      expect(await settleAs(harness, harness.ledger, session, 'a', stamp, LOST)).toEqual(STALE)
      expect((await claim(harness, 'a')).kind).toBe('held')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await settleAs(harness, other, session, 'a', stamp, RETURN)).toEqual({
        answer: 'settled',
        hint: null,
      })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'one stamp in the hands of two sessions, at the same time through one process: each has its own',
    async run(harness) {
      if (harness.another === undefined) return
      const { ledger, topic } = harness
      const other = await harness.another()
      const keys = keysOfOneCell(4)
      const [a = '', b = '', c = '', d = ''] = keys
      const stamp = newStamp()
      await putAll(harness, keys)
      for (const key of [a, c]) await hold(harness, key, { stamp, leaseMs: SHORT_LEASE_MS })
      const request = { stamp, leaseMs: SHORT_LEASE_MS, nowMs: await other.nowMs(), alone: false }
      await other.claim(topic, request, [place(b), place(d)])
      const [mine, theirs] = [sessionOf(harness, a), other.sessionOf(place(a).cell)]
      const extended = await Promise.all(
        keys.flatMap((key) => [mine, theirs].map((as) => extendAs(harness, ledger, as, key, stamp))),
      )
      const each = ['extended', 'stale', 'stale', 'extended']
      expect(extended).toEqual([...each, ...each])
      await leaseEnds(harness)
      const settled = await Promise.all(
        keys.flatMap((key) => [mine, theirs].map((as) => settleAs(harness, ledger, as, key, stamp))),
      )
      expect(settled.map(({ answer }) => answer)).toEqual(
        [...each, ...each].map((answer) => (answer === 'extended' ? 'settled' : answer)),
      )
      await expectBooks(harness, { scheduled: 4, done: 4 })
    },
  },
]

export const bearing = theme('bearing', cases)
