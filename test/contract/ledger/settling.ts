import { expect } from 'vitest'
import {
  DEAD,
  DONE,
  expectBetween,
  FAR_MS,
  LONG_LEASE_MS,
  place,
  RETURN,
  retryIn,
  SHORT_LEASE_MS,
  snoozeFor,
} from '../timetable/helpers.ts'
import type { LedgerSettlement } from '../../../src/ledger.ts'
import {
  begin,
  cancel,
  claim,
  endNew,
  expectBooks,
  expectCounts,
  hintOf,
  hold,
  holdNew,
  leaseEnds,
  type LedgerCase,
  LOST,
  look,
  lose,
  makeSuspect,
  now,
  OBSOLETE,
  put,
  settle,
  theme,
} from './helpers.ts'

const STALE = { answer: 'stale', hint: null }

const OUTCOMES: readonly LedgerSettlement['outcome'][] = [
  DONE,
  OBSOLETE,
  DEAD,
  RETURN,
  LOST,
  retryIn(0),
  snoozeFor(0),
]

const cases: readonly LedgerCase[] = [
  {
    name: 'an error text with a NUL is stored, and nothing behind it is lost',
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      await settle(harness, 'a', stamp, { kind: 'retry', delayMs: FAR_MS, error: 'before\0after' })
      expect((await look(harness, 'a'))?.lastError).toMatch(/^before.*after$/s)
    },
  },
  ...((['done', 'obsolete'] as const).map((kind) => ({
    name: `'${kind}' ends it, and the ledger knows when`,
    async run(harness) {
      const before = await now(harness)
      await harness.advance(10)
      await endNew(harness, 'a', { kind })
      const view = await look(harness, 'a')
      expect(view).toMatchObject({ state: kind, deliveries: 1, deadCause: null, body: 'body of a' })
      expect(view?.ringMs).toBeGreaterThanOrEqual(before + 10)
      await expectBooks(harness, { scheduled: 1, [kind]: 1 })
      expect(await hintOf(harness, 'a')).toBeNull()
    },
  })) satisfies LedgerCase[]),
  {
    name: "'retry' counts a failure, says what it was, and rings again after the delay",
    async run(harness) {
      const { stamp, task } = await holdNew(harness, 'a')
      const fromMs = await now(harness)
      const { answer, hint } = await settle(harness, 'a', stamp, retryIn(5_000, 'no luck'))
      expect(answer).toBe('settled')
      expect(hint).toMatchObject({ key: 'a', failures: 1, isSuspect: false })
      expectBetween(hint?.ringMs ?? 0, fromMs + 5_000, (await now(harness)) + 5_000)
      expect(await hintOf(harness, 'a')).toEqual(hint)
      expect(await look(harness, 'a')).toMatchObject({
        state: 'pending',
        failures: 1,
        deliveries: 1,
        lastError: 'no luck',
        dueMs: task.dueMs,
      })
      expect((await claim(harness, 'a')).kind).toBe('later')
      const again = await hold(harness, 'a', { nowMs: hint?.ringMs ?? 0 })
      expect(again.task).toEqual({ ...task, ringMs: hint?.ringMs, failures: 1, deliveries: 2 })
    },
  },
  {
    name: "'snooze' rings again after the delay, and is no failure",
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      await settle(harness, 'a', stamp, retryIn(0, 'once'))
      const second = await hold(harness, 'a')
      const fromMs = await now(harness)
      const { hint } = await settle(harness, 'a', second.stamp, snoozeFor(7_000))
      expect(hint).toMatchObject({ failures: 1 })
      expectBetween(hint?.ringMs ?? 0, fromMs + 7_000, (await now(harness)) + 7_000)
      expect(await look(harness, 'a')).toMatchObject({ failures: 1, deliveries: 2, lastError: 'once' })
    },
  },
  {
    name: "'return' puts it back as if it had not been claimed",
    async run(harness) {
      const { hint } = await put(harness, 'a')
      const before = await look(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      expect(await settle(harness, 'a', stamp, RETURN)).toEqual({ answer: 'settled', hint })
      expect(await look(harness, 'a')).toEqual(before)
      expect((await hold(harness, 'a')).task.deliveries).toBe(1)
    },
  },
  {
    name: "'return' keeps the losses before it: a suspect stays one",
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true })
      expect((await settle(harness, 'a', stamp, RETURN)).hint).toMatchObject({ isSuspect: true })
      expect((await claim(harness, 'a')).kind).toBe('suspect')
    },
  },
  {
    name: "'return' takes a recorded start back",
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true })
      await begin(harness, 'a', stamp)
      await settle(harness, 'a', stamp, RETURN)
      await lose(harness, 'a', { alone: true })
      expect((await claim(harness, 'a')).kind).toBe('suspect')
    },
  },
  {
    name: "'dead' is kept with its reason, and counts the failure if it was one",
    async run(harness) {
      await endNew(harness, 'a', DEAD)
      expect(await look(harness, 'a')).toMatchObject({
        state: 'dead',
        deadCause: 'handler',
        lastError: 'it said so',
        failures: 0,
        deliveries: 1,
      })
      await endNew(harness, 'b', { kind: 'dead', cause: 'attempts', error: 'again', failed: true })
      expect(await look(harness, 'b')).toMatchObject({ deadCause: 'attempts', failures: 1 })
      await expectBooks(harness, { scheduled: 2, dead: 2 })
      await expectCounts(harness, { dead: 2 })
    },
  },
  {
    name: "'lost' before the lease is over is stale: the holder still has it",
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a', { leaseMs: LONG_LEASE_MS })
      expect(await settle(harness, 'a', stamp, LOST)).toEqual(STALE)
      expect((await claim(harness, 'a')).kind).toBe('held')
      expect(await settle(harness, 'a', stamp, DONE)).toMatchObject({ answer: 'settled' })
    },
  },
  {
    name: "'lost' puts it back, spread over twice a second for the first loss, and is no failure",
    async run(harness) {
      await put(harness, 'a')
      const { stamp } = await lose(harness, 'a')
      const fromMs = await now(harness)
      const { answer, hint } = await settle(harness, 'a', stamp, { kind: 'lost', spread: 0.5 })
      expect(answer).toBe('settled')
      expect(hint).toMatchObject({ failures: 0, isSuspect: false })
      expectBetween(hint?.ringMs ?? 0, fromMs + 1_000, (await now(harness)) + 1_000)
      const { task } = await hold(harness, 'a', { nowMs: hint?.ringMs ?? 0 })
      expect(task).toMatchObject({ deliveries: 2, failures: 0 })
    },
  },
  {
    name: "the second 'lost' in a row makes a suspect, spread over twice as much",
    async run(harness) {
      await put(harness, 'a')
      await lose(harness, 'a')
      const { stamp } = await lose(harness, 'a')
      const fromMs = await now(harness)
      const { hint } = await settle(harness, 'a', stamp, { kind: 'lost', spread: 0.5 })
      expect(hint).toMatchObject({ isSuspect: true })
      expectBetween(hint?.ringMs ?? 0, fromMs + 2_000, (await now(harness)) + 2_000)
    },
  },
  {
    name: "one 'lost' convicts nobody, though it was claimed alone and its start recorded",
    async run(harness) {
      await put(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true, leaseMs: SHORT_LEASE_MS })
      await begin(harness, 'a', stamp)
      await leaseEnds(harness)
      const settled = await settle(harness, 'a', stamp, LOST)
      expect(settled).toMatchObject({ answer: 'settled', hint: { key: 'a' } })
      expect(settled.poison).toBeUndefined()
    },
  },
  {
    name: "the third 'lost', of a start recorded alone, is poison",
    async run(harness) {
      await makeSuspect(harness, 'a')
      const { stamp } = await hold(harness, 'a', { alone: true, leaseMs: SHORT_LEASE_MS })
      await begin(harness, 'a', stamp)
      await leaseEnds(harness)
      const settled = await settle(harness, 'a', stamp, LOST)
      expect(settled).toMatchObject({ answer: 'settled', hint: null })
      expect(settled.poison).toContain('3 times')
      expect(await look(harness, 'a')).toMatchObject({ state: 'dead', deadCause: 'poison' })
    },
  },
  {
    name: "'lost' of one that was cancelled in flight ends it as cancelled",
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await cancel(harness, 'a')
      await leaseEnds(harness)
      expect(await settle(harness, 'a', stamp, LOST)).toEqual({ answer: 'settled', hint: null })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  ...(OUTCOMES.map((outcome) => ({
    name: `'${outcome.kind}' under another stamp is stale and changes nothing`,
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      const before = await look(harness, 'a')
      expect(await settle(harness, 'a', stamp + 1_000_000, outcome)).toEqual(STALE)
      expect(await look(harness, 'a')).toEqual(before)
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
    },
  })) satisfies LedgerCase[]),
  ...(OUTCOMES.map((outcome) => ({
    name: `'${outcome.kind}' of a task that was replaced is stale: the new one waits on`,
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      await put(harness, 'a', { body: 'new', delayMs: FAR_MS })
      const before = await look(harness, 'a')
      expect(await settle(harness, 'a', stamp, outcome)).toEqual(STALE)
      expect(await look(harness, 'a')).toEqual(before)
    },
  })) satisfies LedgerCase[]),
  ...(OUTCOMES.filter(({ kind }) => kind !== 'lost').map((outcome) => ({
    name: `'${outcome.kind}' twice is once`,
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      expect(await settle(harness, 'a', stamp, outcome)).toMatchObject({ answer: 'settled' })
      const before = await look(harness, 'a')
      const books = await harness.ledger.books(harness.topic)
      expect(await settle(harness, 'a', stamp, outcome)).toEqual(STALE)
      expect(await look(harness, 'a')).toEqual(before)
      expect(await harness.ledger.books(harness.topic)).toEqual(books)
    },
  })) satisfies LedgerCase[]),
  {
    name: 'one that nobody took since its lease was over may still be settled by its holder',
    async run(harness) {
      await put(harness, 'a')
      const { stamp } = await lose(harness, 'a')
      expect(await settle(harness, 'a', stamp, DONE)).toMatchObject({ answer: 'settled' })
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  ...(([RETURN, retryIn(0), snoozeFor(0)] as const).map((outcome) => ({
    name: `cancelled in flight, '${outcome.kind}' ends it: no attempt follows`,
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await settle(harness, 'a', stamp, outcome)).toEqual({ answer: 'settled', hint: null })
      expect(await claim(harness, 'a')).toEqual({ kind: 'gone' })
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  })) satisfies LedgerCase[]),
  ...(([DONE, OBSOLETE, DEAD] as const).map((outcome) => ({
    name: `cancelled in flight, '${outcome.kind}' is what it was`,
    async run(harness) {
      const { stamp } = await holdNew(harness, 'a')
      await cancel(harness, 'a')
      expect(await settle(harness, 'a', stamp, outcome)).toEqual({ answer: 'settled', hint: null })
      await expectBooks(harness, { scheduled: 1, [outcome.kind]: 1 })
    },
  })) satisfies LedgerCase[]),
  {
    name: 'many at once are answered in order, whatever each of them is',
    async run(harness) {
      const { ledger, topic } = harness
      const a = await holdNew(harness, 'a')
      const b = await holdNew(harness, 'b')
      const settled = await ledger.settle(topic, [
        { ...place('b'), stamp: b.stamp, outcome: retryIn(FAR_MS) },
        { ...place('never'), stamp: a.stamp, outcome: DONE },
        { ...place('a'), stamp: a.stamp, outcome: DONE },
        { ...place('a'), stamp: a.stamp, outcome: DEAD },
      ])
      expect(settled.map(({ answer }) => answer)).toEqual(['settled', 'stale', 'settled', 'stale'])
      expect(settled[0]?.hint).toMatchObject({ key: 'b', failures: 1 })
      expect(await ledger.settle(topic, [])).toEqual([])
    },
  },
]

export const settling = theme('settling', cases)
