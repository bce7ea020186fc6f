import { expect } from 'vitest'
import { DONE, keysOf, keysOfOneCell, newRequest, place, RETURN } from '../timetable/helpers.ts'
import {
  claim,
  expectCount,
  expectGone,
  expectLane,
  has,
  type HintHarness,
  hold,
  holdFrom,
  LANES,
  type Lane,
  now,
  put,
  rescue,
  ringMs,
  settle,
  theme,
} from './helpers.ts'

const LEASE_MS = 100
/** The first lost lease puts off by up to this much, the second by twice as much. */
const SPREAD_MS = 2_000

async function loseLease(harness: HintHarness, key: string, lane: Lane): Promise<void> {
  await holdFrom(harness, key, lane, { leaseMs: LEASE_MS })
  await harness.advance(LEASE_MS)
  expect((await rescue(harness, key)).rescued).toBe(1)
}

export const claiming = theme('claiming', [
  {
    name: 'lane by lane, in each by time',
    async run(harness) {
      const [a = '', b = '', c = '', d = '', e = '', f = ''] = keysOfOneCell(6)
      await put(harness, a, { inMs: -1 })
      await put(harness, b, { inMs: -2 })
      await put(harness, c, { inMs: -9, lane: 'low' })
      await put(harness, d, { lane: 'high' })
      await put(harness, e, { inMs: 1, lane: 'high' })
      await put(harness, f, { inMs: -9, lane: 'suspects' })
      const first = await claim(harness, a, { limit: 2 })
      expect(keysOf(first.tasks)).toEqual([d, b])
      expect(first).toMatchObject({ nextRingMs: first.nowMs - 9, nextSuspectMs: first.nowMs - 9 })
      expect(keysOf((await claim(harness, a)).tasks)).toEqual([a, c])
      await expectCount(harness, 6)
    },
  },
  {
    name: 'suspects come alone, and to those who ask for them',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await put(harness, a, { inMs: -1, lane: 'suspects' })
      await put(harness, b, { lane: 'suspects' })
      expect((await claim(harness, a)).tasks).toEqual([])
      await hold(harness, a, { from: 'suspects' })
      await hold(harness, b, { from: 'suspects' })
      expect((await claim(harness, a, { from: 'suspects' })).tasks).toEqual([])
    },
  },
  {
    name: 'what is done is gone, from whatever lane',
    async run(harness) {
      for (const lane of LANES) {
        await put(harness, 'a', { lane })
        const stamp = await holdFrom(harness, 'a', lane)
        expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
        expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
        await expectGone(harness, 'a')
        await expectCount(harness, 0)
      }
    },
  },
  {
    name: 'what is given back has its time and its lane again',
    async run(harness) {
      for (const lane of LANES) {
        await put(harness, 'a', { inMs: -7, lane })
        const stamp = await holdFrom(harness, 'a', lane)
        expect(await ringMs(harness)).toBeNull()
        expect(await settle(harness, 'a', stamp, RETURN)).toBe('settled')
        expect(await ringMs(harness)).toBe((await now(harness)) - 7)
        await expectLane(harness, 'a', lane)
      }
    },
  },
  {
    name: 'a repeated request brings what it holds, and a greater stamp whatever comes after',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await put(harness, a)
      const req = newRequest()
      const stamp = await hold(harness, a, { req })
      await put(harness, b)
      expect(await hold(harness, a, { req })).toBe(stamp)
      expect(await hold(harness, b)).toBeGreaterThan(stamp)
    },
  },
  {
    name: 'an extended lease lasts',
    async run(harness) {
      await put(harness, 'a')
      const req = newRequest()
      const stamp = await hold(harness, 'a', { req, leaseMs: LEASE_MS })
      await harness.advance(LEASE_MS - 1)
      const at = { topic: harness.topic, cell: place('a').cell }
      expect(await harness.table.extend(at, req, LEASE_MS)).toBe('extended')
      await harness.advance(LEASE_MS - 1)
      expect((await rescue(harness, 'a')).rescued).toBe(0)
      expect(await settle(harness, 'a', stamp)).toBe('settled')
    },
  },
  ...LANES.filter((lane) => lane !== 'suspects').map((lane) => ({
    name: `its lease runs out: it is back in its lane, ${lane}, a little later`,
    async run(harness: HintHarness) {
      await put(harness, 'a', { lane })
      const stamp = await hold(harness, 'a', { leaseMs: LEASE_MS })
      await harness.advance(LEASE_MS - 1)
      expect((await rescue(harness, 'a')).rescued).toBe(0)
      await harness.advance(1)
      const { rescued, nowMs } = await rescue(harness, 'a')
      expect(rescued).toBe(1)
      expect(await has(harness, 'a')).toBe(true)
      const againMs = (await ringMs(harness)) ?? 0
      expect(againMs).toBeGreaterThanOrEqual(nowMs)
      expect(againMs).toBeLessThanOrEqual(nowMs + SPREAD_MS)
      expect(await settle(harness, 'a', stamp)).toBe('stale')
      await harness.advance(SPREAD_MS)
      await expectLane(harness, 'a', lane)
    },
  })),
  {
    name: 'a suspect whose lease runs out is in the normal lane: its ledger says what it is',
    async run(harness) {
      await put(harness, 'a', { lane: 'suspects' })
      await loseLease(harness, 'a', 'suspects')
      await harness.advance(SPREAD_MS)
      await expectLane(harness, 'a', 'normal')
    },
  },
  {
    name: 'two leases lost in a row make a suspect, also without a body',
    async run(harness) {
      await put(harness, 'a', { lane: 'high' })
      await loseLease(harness, 'a', 'high')
      await harness.advance(SPREAD_MS)
      await loseLease(harness, 'a', 'high')
      await harness.advance(2 * SPREAD_MS)
      await expectLane(harness, 'a', 'suspects')
    },
  },
  {
    name: 'what is done is forgotten with its lost leases',
    async run(harness) {
      await put(harness, 'a')
      await loseLease(harness, 'a', 'normal')
      await harness.advance(SPREAD_MS)
      expect(await settle(harness, 'a', await hold(harness, 'a'))).toBe('settled')
      await put(harness, 'a')
      await loseLease(harness, 'a', 'normal')
      await harness.advance(SPREAD_MS)
      await expectLane(harness, 'a', 'normal')
    },
  },
  {
    name: 'many of one claim come back apart from each other',
    async run(harness) {
      const keys = keysOfOneCell(50)
      const [first = ''] = keys
      for (const key of keys) await put(harness, key)
      expect((await claim(harness, first, { leaseMs: LEASE_MS })).tasks).toHaveLength(50)
      await harness.advance(LEASE_MS)
      expect((await rescue(harness, first)).rescued).toBe(50)
      await harness.advance(SPREAD_MS / 2)
      const soon = (await claim(harness, first)).tasks.length
      expect(soon).toBeGreaterThan(20)
      expect(soon).toBeLessThan(30)
    },
  },
])
