import { expect } from 'vitest'
import type { SettleOutcome } from '../../../src/timetable.ts'
import {
  cancel,
  claim,
  DEAD,
  DONE,
  expectBooks,
  expectCounts,
  FAR_MS,
  find,
  hold,
  keysOfOneCell,
  kill,
  leaseEnds,
  look,
  newRequest,
  place,
  rescue,
  RETURN,
  retryIn,
  schedule,
  scheduleAll,
  settle,
  SHORT_LEASE_MS,
  shortenLease,
  snoozeFor,
  type TimetableCase,
  type TimetableHarness,
  theme,
  view,
} from './helpers.ts'

/** Cancelled while it was held: how it ends when its holder reports this. */
function heldEndsAs(
  outcome: SettleOutcome,
  ending: 'done' | 'obsolete' | 'dead' | 'cancelled',
): TimetableCase {
  return {
    name: `a held task that was cancelled and reports ${outcome.kind} ends ${ending}`,
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
      expect(await settle(harness, 'a', stamp, outcome)).toBe('settled')
      await expectBooks(harness, { scheduled: 1, [ending]: 1 })
      expect((await claim(harness, 'a')).tasks).toEqual([])
      expect((await look(harness, 'a'))?.state).toBe(ending === 'dead' ? 'dead' : undefined)
    },
  }
}

export const cancelling = theme('cancelling', [
  {
    name: 'a pending task is cancelled and never claimed',
    async run(harness) {
      await schedule(harness, 'due', { tags: ['t'] })
      await schedule(harness, 'later', { delayMs: 30 })
      expect(await cancel(harness, 'due')).toBe('cancelled')
      expect(await cancel(harness, 'later')).toBe('cancelled')
      await harness.advance(50)
      for (const key of ['due', 'later']) {
        expect((await claim(harness, key)).tasks).toEqual([])
        expect(await look(harness, key)).toBeNull()
      }
      expect(await find(harness, 'due', 'live', { tag: 't' })).toEqual([])
      await expectCounts(harness, {})
      await expectBooks(harness, { scheduled: 2, cancelled: 2 })
    },
  },
  {
    name: 'what is not there, or has ended, is not found',
    async run(harness) {
      expect(await cancel(harness, 'a')).toBe('not-found')
      await schedule(harness, 'a', { delayMs: FAR_MS })
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect(await cancel(harness, 'a')).toBe('not-found')
      await kill(harness, 'b')
      expect(await cancel(harness, 'b')).toBe('not-found')
      await expectBooks(harness, { scheduled: 2, cancelled: 1, dead: 1 })
    },
  },
  {
    name: 'one call on one cell: of every priority, held and unknown together',
    async run(harness) {
      const [held = '', high = '', unknown = '', normal = '', low = ''] = keysOfOneCell(5)
      await schedule(harness, held)
      await hold(harness, held)
      for (const [key, priority] of [
        [high, 'high'],
        [normal, 'normal'],
        [low, 'low'],
      ] as const)
        await schedule(harness, key, { delayMs: 30, priority, tags: ['t'] })
      const places = [low, held, normal, unknown, high].map((key) => place(key))
      expect(await harness.timetable.cancel(harness.topic, places)).toEqual([
        'cancelled',
        'in-flight',
        'cancelled',
        'not-found',
        'cancelled',
      ])
      await harness.advance(50)
      expect((await claim(harness, held)).tasks).toEqual([])
      expect(await find(harness, held, 'live', { tag: 't' })).toEqual([])
      await expectCounts(harness, { claimed: 1 })
      await expectBooks(harness, { scheduled: 4, cancelled: 3, claimed: 1 })
    },
  },
  {
    name: 'one call on one cell: many that are held by several claims, and one that is not',
    async run(harness) {
      const keys = keysOfOneCell(31)
      const [first = ''] = keys
      await scheduleAll(harness, keys.slice(0, 30))
      for (let n = 0; n < 3; n++) expect((await claim(harness, first, { limit: 10 })).tasks).toHaveLength(10)
      const cancelled = await harness.timetable.cancel(
        harness.topic,
        keys.map((key) => place(key)),
      )
      expect(cancelled).toEqual([...keys.slice(0, 30).map(() => 'in-flight'), 'not-found'])
      await expectCounts(harness, { claimed: 30 })
    },
  },
  {
    name: 'one call answers for each place, in order, over many cells',
    async run(harness) {
      for (const key of ['a', 'c', 'd']) await schedule(harness, key)
      await hold(harness, 'c')
      const places = ['a', 'b', 'c', 'd'].map((key) => place(key))
      expect(await harness.timetable.cancel(harness.topic, places)).toEqual([
        'cancelled',
        'not-found',
        'in-flight',
        'cancelled',
      ])
    },
  },
  {
    name: 'a held task is in flight, and stays its holder’s',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await cancel(harness, 'a')).toBe('in-flight')
      expect(await view(harness, 'a')).toMatchObject({ state: 'claimed' })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
      expect(await cancel(harness, 'a')).toBe('not-found')
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  heldEndsAs(DONE, 'done'),
  heldEndsAs({ kind: 'obsolete' }, 'obsolete'),
  heldEndsAs(DEAD, 'dead'),
  heldEndsAs(retryIn(0), 'cancelled'),
  heldEndsAs(snoozeFor(0), 'cancelled'),
  heldEndsAs(RETURN, 'cancelled'),
  {
    name: 'a held task that was cancelled and loses its lease ends cancelled',
    async run(harness) {
      await schedule(harness, 'a')
      const req = newRequest()
      const { stamp } = await hold(harness, 'a', { req })
      expect(await cancel(harness, 'a')).toBe('in-flight')
      await shortenLease(harness, 'a', req)
      await leaseEnds(harness)
      expect((await rescue(harness, 'a')).poisoned).toEqual([])
      expect(await look(harness, 'a')).toBeNull()
      expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'after the end of its lease a task is cancelled, also when nobody rescued it yet',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
      expect(await look(harness, 'a')).toBeNull()
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
    },
  },
  {
    name: 'a task that waits for its retry is cancelled',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, retryIn(0))
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await expectBooks(harness, { scheduled: 1, cancelled: 1 })
      // The next task of its key begins anew.
      expect(await schedule(harness, 'a')).toMatchObject({ outcome: 'created' })
      expect((await hold(harness, 'a')).task).toMatchObject({ failures: 0, deliveries: 1 })
      await expectBooks(harness, { scheduled: 2, cancelled: 1, claimed: 1 })
    },
  },
  ...[DONE, { kind: 'obsolete' } as const, DEAD, retryIn(0), snoozeFor(0), RETURN, null].map((outcome) => ({
    name: `a key that was cancelled in flight and ended by ${outcome?.kind ?? 'a lost lease'} is free, and its mark gone`,
    async run(harness: TimetableHarness) {
      await schedule(harness, 'a', { tags: ['t'] })
      const req = newRequest()
      const first = await hold(harness, 'a', { req })
      await cancel(harness, 'a')
      if (outcome === null) {
        await shortenLease(harness, 'a', req)
        await leaseEnds(harness)
        await rescue(harness, 'a')
      } else await settle(harness, 'a', first.stamp, outcome)
      expect(await find(harness, 'a', 'live', { tag: 't' })).toEqual([])
      expect(await schedule(harness, 'a')).toMatchObject({ outcome: 'created', inFlight: false })
      const second = await hold(harness, 'a')
      expect(second.task).toMatchObject({ failures: 0, deliveries: 1, tags: [] })
      expect(await settle(harness, 'a', second.stamp, retryIn(FAR_MS))).toBe('settled')
      expect(await view(harness, 'a')).toMatchObject({ state: 'pending', failures: 1 })
    },
  })),
  {
    name: 'a thousand tasks of one cell, each with all the tags there may be, come and go in one call',
    async run(harness) {
      const { timetable, topic } = harness
      const keys = keysOfOneCell(1_000)
      const [first = ''] = keys
      const tags = ['a', 'b', 'c', 'd'].map((tag) => tag.padEnd(64, tag))
      await scheduleAll(harness, keys, { delayMs: FAR_MS, tags, priority: 'low' })
      for (const tag of tags) expect((await find(harness, first, 'live', { tag })).length).toBe(1_000)
      await scheduleAll(harness, keys, { delayMs: FAR_MS, tags: tags.slice(1) })
      expect(await find(harness, first, 'live', { tag: tags[0] ?? '' })).toEqual([])
      const answers = await timetable.cancel(
        topic,
        keys.map((key) => place(key)),
      )
      expect(new Set(answers)).toEqual(new Set(['cancelled']))
      for (const tag of tags) expect(await find(harness, first, 'live', { tag })).toEqual([])
      await expectBooks(harness, { scheduled: 1_000, cancelled: 1_000 })
    },
  },
])
