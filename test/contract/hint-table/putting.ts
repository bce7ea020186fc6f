import { expect } from 'vitest'
import { DONE, FAR_MS, keysOf, keysOfOneCell, newRequest, place, RETURN } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  drop,
  expectCount,
  expectGone,
  expectLane,
  find,
  has,
  hint,
  type HintCase,
  type HintHarness,
  hold,
  holdFrom,
  LANES,
  type Lane,
  type Mode,
  now,
  put,
  putAll,
  rescue,
  ringMs,
  settle,
  theme,
} from './helpers.ts'

const MODES: readonly Mode[] = ['set', 'lower']

/** Nobody gets it before its time, and then it comes from its lane. */
async function expectRing(harness: HintHarness, key: string, atMs: number, lane: Lane): Promise<void> {
  expect(await ringMs(harness)).toBe(atMs)
  await harness.advance(atMs - (await now(harness)) - 1)
  expect((await claim(harness, key)).tasks).toEqual([])
  expect((await claim(harness, key, { from: 'suspects' })).tasks).toEqual([])
  await harness.advance(1)
  await expectLane(harness, key, lane)
}

const EARLIER_MS = 1_000
const NEW_MS = 2_000
const LATER_MS = 3_000

/** A new one for a key that waits already, in each lane, for each lane. */
function overWaiting(mode: Mode, was: string, oldMs: number, isPut: boolean): HintCase {
  return {
    name: `${mode}, where one waits that rings ${was}: ${isPut ? 'takes its place' : 'leaves it'}`,
    async run(harness) {
      for (const from of LANES)
        for (const to of LANES) {
          const startMs = await now(harness)
          await put(harness, 'a', { inMs: oldMs, lane: from })
          expect(await put(harness, 'a', { inMs: NEW_MS, lane: to, mode })).toBe(isPut)
          await expectCount(harness, 1)
          await expectRing(harness, 'a', startMs + (isPut ? NEW_MS : oldMs), isPut ? to : from)
          await expectCount(harness, 0)
        }
    },
  }
}

export const putting = theme('put', [
  ...MODES.map((mode) => ({
    name: `${mode}, where there is nothing: rings at its time, in its lane`,
    async run(harness: HintHarness) {
      for (const lane of LANES) {
        const atMs = (await now(harness)) + NEW_MS
        expect(await has(harness, 'a')).toBe(false)
        expect(await put(harness, 'a', { inMs: NEW_MS, lane, mode })).toBe(true)
        expect(await has(harness, 'a')).toBe(true)
        await expectRing(harness, 'a', atMs, lane)
      }
    },
  })),
  overWaiting('set', 'earlier', EARLIER_MS, true),
  overWaiting('set', 'at the same time', NEW_MS, true),
  overWaiting('set', 'later', LATER_MS, true),
  overWaiting('lower', 'earlier', EARLIER_MS, false),
  overWaiting('lower', 'at the same time', NEW_MS, false),
  overWaiting('lower', 'later', LATER_MS, true),
  {
    name: 'set, where one is held: takes its place, and the holder has nothing any more',
    async run(harness) {
      for (const lane of LANES) {
        await put(harness, 'a', { lane })
        const req = newRequest()
        const stamp = await holdFrom(harness, 'a', lane, { req })
        expect(await put(harness, 'a', { lane: 'low' })).toBe(true)
        await expectCount(harness, 1)
        expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
        expect(await settle(harness, 'a', stamp, RETURN)).toBe('stale')
        expect(await harness.table.extend({ topic: harness.topic, cell: place('a').cell }, req, 1)).toBe(
          'stale',
        )
        await expectLane(harness, 'a', 'low')
      }
    },
  },
  {
    name: 'set, where one is held with others: the others stay held',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await put(harness, a)
      await put(harness, b)
      const req = newRequest()
      const { stamp, tasks } = await claim(harness, a, { req })
      expect(keysOf(tasks)).toEqual([a, b])
      await put(harness, a, { inMs: FAR_MS })
      const at = { topic: harness.topic, cell: place(a).cell }
      expect(await harness.table.extend(at, req, FAR_MS)).toBe('extended')
      expect(await settle(harness, a, stamp)).toBe('stale')
      expect(await settle(harness, b, stamp)).toBe('settled')
      expect(await harness.table.extend(at, req, FAR_MS)).toBe('stale')
      await expectCount(harness, 1)
    },
  },
  {
    name: 'lower, where one is held: leaves it to its holder, whatever its time',
    async run(harness) {
      for (const lane of LANES)
        for (const inMs of [-1_000, 0, 1_000]) {
          await put(harness, 'a', { lane })
          const stamp = await holdFrom(harness, 'a', lane)
          expect(await put(harness, 'a', { inMs, mode: 'lower' })).toBe(false)
          expect((await claim(harness, 'a')).tasks).toEqual([])
          await expectCount(harness, 1)
          expect(await settle(harness, 'a', stamp)).toBe('settled')
          await expectGone(harness, 'a')
        }
    },
  },
  {
    name: 'lower tells how many it changed, of many in one call',
    async run(harness) {
      const [absent = '', earlier = '', later = '', same = '', held = ''] = keysOfOneCell(5)
      await put(harness, held)
      const stamp = await hold(harness, held)
      await put(harness, earlier, { inMs: EARLIER_MS, lane: 'high' })
      await put(harness, later, { inMs: LATER_MS, lane: 'low' })
      await put(harness, same, { inMs: NEW_MS })
      const atMs = (await now(harness)) + NEW_MS
      const hints = [held, earlier, later, same, absent].map((key) => hint(key, atMs))
      expect(await putAll(harness, hints, 'lower')).toBe(2)
      expect(await putAll(harness, hints, 'lower')).toBe(0)
      await expectCount(harness, 5)
      await harness.advance(NEW_MS)
      // High before normal; in a lane by time, then by key.
      expect(keysOf((await claim(harness, held)).tasks)).toEqual([earlier, absent, later, same])
      expect(await settle(harness, held, stamp)).toBe('settled')
    },
  },
  {
    name: 'at one time, what failed less often goes first',
    async run(harness) {
      const keys = keysOfOneCell(4)
      const atMs = await now(harness)
      const failures = [2, 0, 999, 1]
      await putAll(
        harness,
        keys.map((key, i) => hint(key, atMs, { failures: failures[i] ?? 0 })),
      )
      const byFailures = [1, 3, 0, 2].map((i) => keys[i])
      expect(keysOf((await claim(harness, keys[0] ?? '')).tasks)).toEqual(byFailures)
    },
  },
  {
    name: 'set forgets lost leases',
    async run(harness) {
      await put(harness, 'a', { lane: 'high' })
      await hold(harness, 'a', { leaseMs: 100 })
      await harness.advance(100)
      expect((await rescue(harness, 'a')).rescued).toBe(1)
      await put(harness, 'a', { lane: 'high' })
      await hold(harness, 'a', { leaseMs: 100 })
      await harness.advance(100)
      expect((await rescue(harness, 'a')).rescued).toBe(1)
      await harness.advance(2_000)
      // A second loss in a row would have made it a suspect.
      await expectLane(harness, 'a', 'high')
    },
  },
  {
    name: 'lower leaves one that a rescue has put off, unless it is for before its first time',
    async run(harness) {
      await put(harness, 'a', { lane: 'high' })
      await hold(harness, 'a', { leaseMs: 100 })
      await harness.advance(100)
      await rescue(harness, 'a')
      const spreadMs = await ringMs(harness)
      expect(spreadMs).toBeGreaterThan(await now(harness))
      expect(await put(harness, 'a', { mode: 'lower' })).toBe(false)
      expect(await put(harness, 'a', { inMs: -100, mode: 'lower' })).toBe(false)
      expect(await ringMs(harness)).toBe(spreadMs)
      expect(await put(harness, 'a', { inMs: -101, mode: 'lower' })).toBe(true)
      expect(await ringMs(harness)).toBe((await now(harness)) - 101)
      await expectLane(harness, 'a', 'normal')
    },
  },
  {
    name: 'thousands in one call, of one cell',
    async run(harness) {
      const keys = keysOfOneCell(2_500)
      const atMs = await now(harness)
      const hints = keys.map((key) => hint(key, atMs + FAR_MS))
      expect(await putAll(harness, hints)).toBe(2_500)
      expect(await putAll(harness, hints, 'lower')).toBe(0)
      await expectCount(harness, 2_500)
      const nearer = hints.map((one, i) => ({ ...one, ringMs: atMs + FAR_MS - (i % 2) }))
      expect(await putAll(harness, nearer, 'lower')).toBe(1_250)
      expect(await putAll(harness, nearer)).toBe(2_500)
      await expectCount(harness, 2_500)
      expect(await find(harness, keys[0] ?? '')).toEqual(keys)
      await drop(harness, ...keys)
      await expectCount(harness, 0)
    },
  },
  {
    name: 'thousands in one call, of all cells',
    async run(harness) {
      const keys = Array.from({ length: 5_000 }, (_, n) => `task ${n}`)
      const atMs = (await now(harness)) + FAR_MS
      expect(
        await putAll(
          harness,
          keys.map((key, n) => hint(key, atMs + n)),
        ),
      ).toBe(5_000)
      expect(await harness.table.extent(harness.topic)).toEqual({ count: 5_000, headMs: atMs })
      const known = await harness.table.has(
        harness.topic,
        keys.flatMap((key) => [place(key), place(`${key}?`)]),
      )
      expect(known).toEqual(keys.flatMap(() => [true, false]))
      await cancel(harness, ...keys)
      await expectCount(harness, 0)
    },
  },
  {
    name: 'nothing at all is put, cancelled and dropped',
    async run(harness) {
      expect(await putAll(harness, [])).toBe(0)
      expect(await putAll(harness, [], 'lower')).toBe(0)
      await cancel(harness)
      await drop(harness)
      expect(await harness.table.has(harness.topic, [])).toEqual([])
      expect(await harness.table.extent(harness.topic)).toEqual({ count: 0, headMs: null })
    },
  },
  {
    name: 'of a key that comes twice in one call, the last one counts',
    async run(harness) {
      const atMs = await now(harness)
      const twice = [hint('a', atMs + LATER_MS, { lane: 'high' }), hint('a', atMs + NEW_MS, { lane: 'low' })]
      expect(await putAll(harness, twice)).toBe(2)
      await expectRing(harness, 'a', atMs + NEW_MS, 'low')
    },
  },
  {
    name: 'calls for one key keep their order, also when nobody waits for the one before',
    async run(harness) {
      const { table, topic } = harness
      const atMs = await now(harness)
      const at = [place('a')]
      await Promise.all([
        table.put(topic, [hint('a', atMs + LATER_MS)], 'set'),
        table.drop(topic, at),
        table.put(topic, [hint('a', atMs + NEW_MS, { lane: 'low' })], 'lower'),
        table.put(topic, [hint('a', atMs + LATER_MS)], 'lower'),
      ])
      expect(await ringMs(harness)).toBe(atMs + NEW_MS)
      await Promise.all([
        table.cancel(topic, at),
        table.put(topic, [hint('a', atMs + LATER_MS, { lane: 'high' })], 'set'),
        table.put(topic, [hint('a', atMs + EARLIER_MS)], 'set'),
        table.put(topic, [hint('a', atMs + NEW_MS)], 'set'),
      ])
      expect(await ringMs(harness)).toBe(atMs + NEW_MS)
      const [, , between] = await Promise.all([
        table.put(topic, [hint('a', atMs)], 'set'),
        table.drop(topic, at),
        table.has(topic, at),
        table.put(topic, [hint('a', atMs)], 'set'),
        table.put(topic, [hint('a', atMs)], 'lower'),
        table.cancel(topic, at),
      ])
      expect(between).toEqual([false])
      await expectGone(harness, 'a')
    },
  },
])
