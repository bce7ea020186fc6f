import { expect } from 'vitest'
import type { ClaimVerdict, LedgerClaimRequest } from '../../../src/ledger.ts'
import { BATCH_BYTES_MAX } from '../../../src/lib/batch-max.ts'
import {
  DONE,
  entry,
  FAR_MS,
  keysOfOneCell,
  LONG_LEASE_MS,
  only,
  place,
  SHORT_LEASE_MS,
} from '../timetable/helpers.ts'
import {
  begin,
  cancel,
  claim,
  endNew,
  expectBooks,
  expectCounts,
  extend,
  hintOf,
  hold,
  holdNew,
  leaseEnds,
  type LedgerCase,
  type LedgerHarness,
  look,
  lose,
  makeSuspect,
  newStamp,
  now,
  put,
  putAll,
  reschedule,
  settle,
  theme,
} from './helpers.ts'

/** A body near the maximum size of a payload, and how many of them fill a call. */
const LARGE_BODY = 'x'.repeat(60_000)
const PER_CALL = Math.ceil(BATCH_BYTES_MAX / LARGE_BODY.length)

async function claimAll(
  harness: LedgerHarness,
  keys: readonly string[],
  request: Partial<LedgerClaimRequest> = {},
): Promise<ClaimVerdict[]> {
  const { ledger, topic } = harness
  const asked = { stamp: newStamp(), leaseMs: LONG_LEASE_MS, nowMs: await now(harness), alone: false }
  return ledger.claim(
    topic,
    { ...asked, ...request },
    keys.map((key) => place(key)),
  )
}

const cases: readonly LedgerCase[] = [
  {
    name: 'due is what has its time by the clock that rang, not by the ledger’s: to the millisecond',
    async run(harness) {
      const { dueMs, hint } = await put(harness, 'a', { delayMs: FAR_MS })
      expect(await claim(harness, 'a', { nowMs: dueMs - 1 })).toEqual({ kind: 'later', hint })
      await expectCounts(harness, { pending: 1 })
      expect((await claim(harness, 'a', { nowMs: dueMs })).kind).toBe('ours')
    },
  },
  {
    name: "'later' brings the hint as it is now, wherever it was moved to",
    async run(harness) {
      const { dueMs } = await put(harness, 'a')
      const moved = await reschedule(harness, 'a', { kind: 'delay', ms: FAR_MS })
      expect(await claim(harness, 'a', { nowMs: dueMs })).toEqual({ kind: 'later', hint: moved.hint })
    },
  },
  {
    name: "'later' is no delivery and changes nothing",
    async run(harness) {
      await put(harness, 'a', { delayMs: FAR_MS })
      const before = await look(harness, 'a')
      await claim(harness, 'a')
      expect(await look(harness, 'a')).toEqual(before)
    },
  },
  {
    name: "there is no such task: 'gone', whether it never was, ended or was cancelled",
    async run(harness) {
      await endNew(harness, 'done', DONE)
      await put(harness, 'cancelled')
      await cancel(harness, 'cancelled')
      for (const key of ['never', 'done', 'cancelled'])
        expect(await claim(harness, key)).toEqual({ kind: 'gone' })
    },
  },
  {
    name: "one has it: the next is told 'held', and for how long",
    async run(harness) {
      await holdNew(harness, 'a')
      const verdict = (await claim(harness, 'a')) as { kind: string; leaseEndInMs: number }
      expect(verdict.kind).toBe('held')
      expect(verdict.leaseEndInMs).toBeGreaterThan(0)
      expect(verdict.leaseEndInMs).toBeLessThanOrEqual(LONG_LEASE_MS)
      await harness.advance(LONG_LEASE_MS / 2)
      const later = (await claim(harness, 'a')) as { kind: string; leaseEndInMs: number }
      expect(later.kind).toBe('held')
      expect(later.leaseEndInMs).toBeLessThanOrEqual(LONG_LEASE_MS / 2)
      expect(await look(harness, 'a')).toMatchObject({ state: 'claimed', deliveries: 1 })
    },
  },
  {
    name: 'one of many claims of a key at once has it',
    async run(harness) {
      await put(harness, 'a')
      const verdicts = await Promise.all(Array.from({ length: 20 }, () => claim(harness, 'a')))
      expect(verdicts.filter(({ kind }) => kind === 'ours')).toHaveLength(1)
      expect(verdicts.filter(({ kind }) => kind === 'held')).toHaveLength(19)
    },
  },
  {
    name: 'the same token again is the same task, and no second delivery',
    async run(harness) {
      const { stamp, task } = await holdNew(harness, 'a')
      for (let times = 0; times < 3; times++)
        expect(await claim(harness, 'a', { stamp })).toEqual({ kind: 'ours', task })
      expect(await look(harness, 'a')).toMatchObject({ state: 'claimed', deliveries: 1 })
      expect(await settle(harness, 'a', stamp, DONE)).toMatchObject({ answer: 'settled' })
    },
  },
  {
    name: "a call that is full answers 'full' for the rest, which stays as it was",
    async run(harness) {
      const keys = keysOfOneCell(PER_CALL + 3)
      await putAll(harness, keys, { body: LARGE_BODY })
      const verdicts = await claimAll(harness, keys)
      expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map((_, n) => (n < PER_CALL ? 'ours' : 'full')))
      for (const key of keys.slice(PER_CALL))
        expect(await look(harness, key)).toMatchObject({ state: 'pending', deliveries: 0 })
      await expectCounts(harness, { pending: 3, due: 3, claimed: PER_CALL })
      const rest = await claimAll(harness, keys.slice(PER_CALL))
      expect(rest.map(({ kind }) => kind)).toEqual(['ours', 'ours', 'ours'])
    },
  },
  {
    name: 'a call is full of tasks whose leases have ended, too, and never of those that it already has',
    async run(harness) {
      const keys = keysOfOneCell(PER_CALL + 3)
      await putAll(harness, keys, { body: LARGE_BODY })
      for (const from of [0, PER_CALL])
        await claimAll(harness, keys.slice(from, from + PER_CALL), { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      const stamp = newStamp()
      const verdicts = await claimAll(harness, keys, { stamp })
      expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map((_, n) => (n < PER_CALL ? 'ours' : 'full')))
      await claimAll(harness, keys.slice(PER_CALL), { stamp })
      expect((await claimAll(harness, keys, { stamp })).every(({ kind }) => kind === 'ours')).toBe(true)
      await expectCounts(harness, { claimed: keys.length })
    },
  },
  {
    name: 'a token that was settled is worth nothing any more',
    async run(harness) {
      const { stamp } = await endNew(harness, 'a', DONE)
      expect(await claim(harness, 'a', { stamp })).toEqual({ kind: 'gone' })
    },
  },
  {
    name: 'verdicts come in the order of the places, one for each',
    async run(harness) {
      const { ledger, topic } = harness
      await put(harness, 'due')
      await put(harness, 'far', { delayMs: FAR_MS })
      await holdNew(harness, 'held')
      const request = { stamp: newStamp(), leaseMs: LONG_LEASE_MS, nowMs: await now(harness), alone: false }
      const keys = ['never', 'held', 'far', 'due']
      const verdicts = await ledger.claim(
        topic,
        request,
        keys.map((key) => place(key)),
      )
      expect(verdicts.map(({ kind }) => kind)).toEqual(['gone', 'held', 'later', 'ours'])
      expect(await ledger.claim(topic, request, [])).toEqual([])
    },
  },
  {
    name: 'a lease that is over is nobody’s: the next claim has it, as a second delivery',
    async run(harness) {
      await put(harness, 'a')
      const first = await lose(harness, 'a')
      const second = await hold(harness, 'a')
      expect(second.task).toEqual({ ...first.task, deliveries: 2 })
      expect(await settle(harness, 'a', first.stamp, DONE)).toEqual({ answer: 'stale', hint: null })
      expect(await settle(harness, 'a', second.stamp, DONE)).toMatchObject({ answer: 'settled' })
    },
  },
  {
    name: 'a lease that is over is free whatever the clock that rang says',
    async run(harness) {
      const { dueMs } = await put(harness, 'a')
      await lose(harness, 'a')
      expect((await claim(harness, 'a', { nowMs: dueMs - FAR_MS })).kind).toBe('ours')
    },
  },
  {
    name: 'the second loss in a row makes a suspect: only a claim of it alone has it',
    async run(harness) {
      await put(harness, 'a')
      await lose(harness, 'a')
      await lose(harness, 'a')
      const hint = { ...(await hintOf(harness, 'a')), isSuspect: true }
      expect(await claim(harness, 'a')).toMatchObject({
        kind: 'suspect',
        hint: { key: 'a', isSuspect: true },
      })
      expect(await claim(harness, 'a')).toEqual({ kind: 'suspect', hint })
      await expectCounts(harness, { pending: 1, due: 1 })
      expect((await hold(harness, 'a', { alone: true })).task).toMatchObject({ deliveries: 3, failures: 0 })
    },
  },
  {
    name: 'one loss makes no suspect, and a hint says which it is',
    async run(harness) {
      await put(harness, 'a')
      await lose(harness, 'a')
      expect(await hintOf(harness, 'a')).toMatchObject({ isSuspect: false })
      await lose(harness, 'a')
      expect(await hintOf(harness, 'a')).toMatchObject({ isSuspect: true })
    },
  },
  {
    name: 'the second loss may be found by the claim alone itself',
    async run(harness) {
      await put(harness, 'a')
      await lose(harness, 'a')
      await lose(harness, 'a')
      expect((await claim(harness, 'a', { alone: true })).kind).toBe('ours')
    },
  },
  {
    name: 'a suspect that is not due is later, not suspect',
    async run(harness) {
      await makeSuspect(harness, 'a')
      expect((await claim(harness, 'a', { nowMs: 0 })).kind).toBe('later')
    },
  },
  {
    name: 'the third loss, of a start recorded alone, is poison: it is dead from now on',
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true, leaseMs: SHORT_LEASE_MS })
      expect(await begin(harness, 'a', stamp)).toBe(true)
      await leaseEnds(harness)
      const verdict = await claim(harness, 'a')
      expect(verdict).toMatchObject({ kind: 'poison' })
      expect(verdict).toHaveProperty('error', expect.stringContaining('3 times'))
      expect(await claim(harness, 'a')).toEqual({ kind: 'gone' })
      expect(await look(harness, 'a')).toMatchObject({ state: 'dead', deadCause: 'poison', deliveries: 3 })
      await expectBooks(harness, { scheduled: 1, dead: 1 })
    },
  },
  {
    name: 'one loss convicts nobody, though it was claimed alone and its start recorded',
    async run(harness) {
      await put(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true, leaseMs: SHORT_LEASE_MS })
      expect(await begin(harness, 'a', stamp)).toBe(true)
      await leaseEnds(harness)
      expect(await claim(harness, 'a')).toMatchObject({ kind: 'ours' })
    },
  },
  {
    name: 'the third loss convicts nobody whose start was not recorded',
    async run(harness) {
      await makeSuspect(harness, 'a')
      await lose(harness, 'a', { alone: true })
      expect((await claim(harness, 'a')).kind).toBe('suspect')
      expect((await claim(harness, 'a', { alone: true })).kind).toBe('ours')
    },
  },
  {
    name: 'a start that is recorded beside others convicts nobody',
    async run(harness) {
      await put(harness, 'a')
      for (let times = 0; times < 2; times++) {
        const { stamp } = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
        expect(await begin(harness, 'a', stamp)).toBe(true)
        await leaseEnds(harness)
      }
      expect((await claim(harness, 'a')).kind).toBe('suspect')
    },
  },
  {
    name: 'an outcome ends a row of losses',
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true })
      await settle(harness, 'a', stamp, { kind: 'snooze', delayMs: 0 })
      await lose(harness, 'a')
      expect((await claim(harness, 'a')).kind).toBe('ours')
    },
  },
  {
    name: 'a start cannot be recorded by one who does not hold it',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      expect(await begin(harness, 'a', stamp + 1_000_000)).toBe(false)
      expect(await begin(harness, 'never', stamp)).toBe(false)
      expect(await begin(harness, 'a', stamp)).toBe(true)
      expect(await begin(harness, 'a', stamp)).toBe(true)
      await settle(harness, 'a', stamp, DONE)
      expect(await begin(harness, 'a', stamp)).toBe(false)
    },
  },
  {
    name: 'cancelled in flight, and the lease is over: gone, and the books say cancelled',
    async run(harness) {
      await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      expect(await cancel(harness, 'a')).toBe('in-flight')
      await leaseEnds(harness)
      expect(await claim(harness, 'a')).toEqual({ kind: 'gone' })
      expect(await look(harness, 'a')).toMatchObject({ state: 'cancelled', deliveries: 1 })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'cancelled in flight, a suspect whose start was recorded is cancelled, not poison',
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true, leaseMs: SHORT_LEASE_MS })
      await begin(harness, 'a', stamp)
      await cancel(harness, 'a')
      await leaseEnds(harness)
      expect(await claim(harness, 'a')).toEqual({ kind: 'gone' })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'a lease is extended for whoever holds it, and for nobody else',
    async run(harness) {
      const { ledger, topic } = harness
      const stamp = newStamp()
      await ledger.schedule(topic, [entry('a'), entry('b'), entry('c')], 0)
      await hold(harness, 'a', { stamp, leaseMs: SHORT_LEASE_MS })
      await hold(harness, 'b', { stamp, leaseMs: SHORT_LEASE_MS })
      await hold(harness, 'c', { leaseMs: SHORT_LEASE_MS })
      expect(await extend(harness, ['a', 'b', 'c', 'never'], stamp, LONG_LEASE_MS)).toBe(2)
      await leaseEnds(harness)
      expect((await claim(harness, 'a')).kind).toBe('held')
      expect((await claim(harness, 'b')).kind).toBe('held')
      expect((await claim(harness, 'c')).kind).toBe('ours')
      expect(await extend(harness, ['a'], stamp + 1_000_000, LONG_LEASE_MS)).toBe(0)
    },
  },
  {
    name: 'an extended lease ends so long after the extension, be that sooner than before',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a', { leaseMs: LONG_LEASE_MS })
      expect(await extend(harness, ['a'], stamp, SHORT_LEASE_MS)).toBe(1)
      await leaseEnds(harness)
      expect((await claim(harness, 'a')).kind).toBe('ours')
    },
  },
  {
    name: 'what is settled, replaced or taken by another cannot be extended',
    async run(harness) {
      const settled = await endNew(harness, 'settled', DONE)
      const replaced = await holdNew(harness, 'replaced')
      await put(harness, 'replaced')
      await put(harness, 'taken')
      const taken = await lose(harness, 'taken')
      await hold(harness, 'taken')
      for (const [key, { stamp }] of Object.entries({ settled, replaced, taken }))
        expect(await extend(harness, [key], stamp, LONG_LEASE_MS), key).toBe(0)
    },
  },
  {
    name: 'a claim takes its place in one piece with others: only one of two claims of many has each',
    async run(harness) {
      const { ledger, topic } = harness
      const keys = Array.from({ length: 50 }, (_, n) => `k${n}`)
      await ledger.schedule(
        topic,
        keys.map((key) => entry(key)),
        0,
      )
      const nowMs = await now(harness)
      const of = () =>
        ledger.claim(
          topic,
          { stamp: newStamp(), leaseMs: LONG_LEASE_MS, nowMs, alone: false },
          keys.map((key) => place(key)),
        )
      const both = await Promise.all([of(), of()])
      for (const [i] of keys.entries())
        expect(new Set(both.map((verdicts) => verdicts[i]?.kind))).toEqual(new Set(['held', 'ours']))
      expect(only(await ledger.hints(topic, [place('k0')]))).toMatchObject({ key: 'k0' })
    },
  },
]

export const claiming = theme('claiming', cases)
