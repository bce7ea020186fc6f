import { expect } from 'vitest'
import {
  DONE,
  entry,
  expectBetween,
  FAR_MS,
  keysOf,
  keysOfOneCell,
  LONG_LEASE_MS,
  place,
  SHORT_LEASE_MS,
} from '../timetable/helpers.ts'
import {
  cancel,
  endNew,
  hintOf,
  hold,
  holdNew,
  leaseEnds,
  type LedgerCase,
  loadAll,
  now,
  put,
  reschedule,
  theme,
} from './helpers.ts'

const cases: readonly LedgerCase[] = [
  {
    name: 'hints come in the order of their rings, and of their places where these are the same',
    async run(harness) {
      const nowMs = await now(harness)
      const rings = { e: 500, b: 100, d: 300, c: 100, a: 300, f: 300 }
      for (const [key, ringMs] of Object.entries(rings)) await put(harness, key, { atMs: nowMs + ringMs })
      const expected = Object.entries(rings)
        .map(([key, ringMs]) => ({ ...place(key), ringMs: nowMs + ringMs }))
        .toSorted((a, b) => a.ringMs - b.ringMs || a.cell - b.cell || (a.key < b.key ? -1 : 1))
      expect(await loadAll(harness)).toMatchObject(expected)
    },
  },
  {
    name: 'they are the hints that the writes answered',
    async run(harness) {
      const a = await put(harness, 'a', { priority: 'high', tags: ['x'] })
      const b = await put(harness, 'b', { delayMs: FAR_MS })
      expect(await loadAll(harness)).toEqual([a.hint, b.hint])
      const moved = await reschedule(harness, 'a', { kind: 'delay', ms: 2 * FAR_MS })
      expect(await loadAll(harness)).toEqual([b.hint, moved.hint])
    },
  },
  {
    name: 'no more than up to `untilMs`, that moment included',
    async run(harness) {
      const nowMs = await now(harness)
      await put(harness, 'at', { atMs: nowMs + 1_000 })
      await put(harness, 'after', { atMs: nowMs + 1_001 })
      const loaded = await harness.ledger.load(harness.topic, null, nowMs + 1_000, 10)
      expect(keysOf(loaded.hints)).toEqual(['at'])
      expect(loaded.frontier).toBeNull()
      expect(keysOf(await loadAll(harness, { untilMs: nowMs + 999 }))).toEqual([])
    },
  },
  {
    name: 'page by page they are all there, each once, also where many ring at one moment',
    async run(harness) {
      const { ledger, topic } = harness
      const atMs = (await now(harness)) + FAR_MS
      const keys = Array.from({ length: 25 }, (_, n) => `k${n}`)
      await ledger.schedule(
        topic,
        [...keys, ...keysOfOneCell(10)].map((key, n) => entry(key, { atMs: atMs + (n < 15 ? 0 : n % 3) })),
        0,
      )
      const all = keysOf(await loadAll(harness, { limit: 1_000 }))
      expect(new Set(all).size).toBe(35)
      for (const limit of [1, 4, 5, 34, 35, 36])
        expect(keysOf(await loadAll(harness, { limit })), `pages of ${limit}`).toEqual(all)
    },
  },
  {
    name: 'a reading goes on where it stopped, with what was written behind that since',
    async run(harness) {
      const { ledger, topic } = harness
      const atMs = (await now(harness)) + FAR_MS
      for (const [n, key] of ['a', 'b', 'c', 'd'].entries()) await put(harness, key, { atMs: atMs + n * 10 })
      const { hints, frontier } = await ledger.load(topic, null, atMs + 100, 2)
      expect(keysOf(hints)).toEqual(['a', 'b'])
      expect(frontier).toEqual({ ringMs: atMs + 10, ...place('b') })
      await put(harness, 'before', { atMs })
      await put(harness, 'behind', { atMs: atMs + 15 })
      await cancel(harness, 'c')
      expect(keysOf(await loadAll(harness, { after: frontier }))).toEqual(['behind', 'd'])
    },
  },
  {
    name: 'a claimed task rings when its lease is over',
    async run(harness) {
      const fromMs = await now(harness)
      await holdNew(harness, 'a', { leaseMs: LONG_LEASE_MS })
      const [hint] = await loadAll(harness)
      expectBetween(hint?.ringMs ?? 0, fromMs + LONG_LEASE_MS, (await now(harness)) + LONG_LEASE_MS)
      expect(await hintOf(harness, 'a')).toMatchObject({ key: 'a' })
    },
  },
  {
    name: 'a task whose lease is over rings where it was to ring, with its loss counted',
    async run(harness) {
      const { dueMs } = await put(harness, 'a')
      for (const isSuspect of [false, true]) {
        await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
        await leaseEnds(harness)
        expect(await loadAll(harness)).toMatchObject([{ key: 'a', ringMs: dueMs, isSuspect }])
      }
    },
  },
  {
    name: 'ended tasks have no hints, nor has one that is cancelled in flight',
    async run(harness) {
      const { ledger, topic } = harness
      await endNew(harness, 'done', DONE)
      await put(harness, 'waits', { delayMs: FAR_MS })
      await holdNew(harness, 'marked')
      await cancel(harness, 'marked')
      const places = ['never', 'done', 'waits', 'marked'].map((key) => place(key))
      const hints = await ledger.hints(topic, places)
      expect(hints.map((hint) => hint?.key ?? null)).toEqual([null, null, 'waits', null])
      expect(await ledger.hints(topic, [])).toEqual([])
      expect(keysOf(await loadAll(harness))).not.toContain('done')
    },
  },
  {
    name: 'an unknown topic is empty',
    async run({ ledger }) {
      expect(await ledger.load('unknown', null, Number.MAX_SAFE_INTEGER, 10)).toEqual({
        hints: [],
        orderMs: [],
        frontier: null,
      })
      expect(await ledger.hints('unknown', [place('a')])).toEqual([null])
    },
  },
]

export const loading = theme('loading', cases)
