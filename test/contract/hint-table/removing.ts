import { expect } from 'vitest'
import { DONE, keysOf, keysOfOneCell, newRequest, place, RETURN } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  drop,
  expectCount,
  expectGone,
  expectLane,
  has,
  type HintHarness,
  hold,
  holdFrom,
  LANES,
  put,
  rescue,
  settle,
  theme,
} from './helpers.ts'

const WAYS = [
  ['cancelled', cancel],
  ['dropped', drop],
] as const

/** Its lease is over, and a rescue has put it back. */
async function loseLease(harness: HintHarness, key: string): Promise<void> {
  await hold(harness, key, { leaseMs: 100 })
  await harness.advance(100)
  expect((await rescue(harness, key)).rescued).toBe(1)
}

export const removing = theme('cancel and drop', [
  ...WAYS.map(([word, remove]) => ({
    name: `what waits and is ${word} is gone, from every lane; the others stay`,
    async run(harness: HintHarness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      for (const lane of LANES) {
        await put(harness, a, { lane })
        await put(harness, b, { lane })
        await remove(harness, a)
        expect(await has(harness, a)).toBe(false)
        await expectCount(harness, 1)
        await expectLane(harness, b, lane)
        await expectGone(harness, a)
      }
    },
  })),
  ...WAYS.map(([word, remove]) => ({
    name: `what is not there is ${word} in vain`,
    async run(harness: HintHarness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await remove(harness, a)
      await put(harness, b)
      const stamp = await hold(harness, b)
      await remove(harness, a)
      await remove(harness, a)
      expect(await settle(harness, b, stamp)).toBe('settled')
      await expectCount(harness, 0)
    },
  })),
  ...WAYS.map(([word, remove]) => ({
    name: `what is ${word} takes its lost leases with it`,
    async run(harness: HintHarness) {
      await put(harness, 'a')
      await loseLease(harness, 'a')
      await remove(harness, 'a')
      await put(harness, 'a')
      await loseLease(harness, 'a')
      await harness.advance(2_000)
      await expectLane(harness, 'a', 'normal')
    },
  })),
  {
    name: 'one that is held and cancelled stays until its holder reports its end',
    async run(harness) {
      for (const lane of LANES) {
        await put(harness, 'a', { lane })
        const stamp = await holdFrom(harness, 'a', lane)
        await cancel(harness, 'a')
        expect(await has(harness, 'a')).toBe(true)
        await expectCount(harness, 1)
        expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
        await expectGone(harness, 'a')
        await expectCount(harness, 0)
      }
    },
  },
  {
    name: 'one that is held and cancelled does not come back: given back by its holder',
    async run(harness) {
      await put(harness, 'a')
      const stamp = await hold(harness, 'a')
      await cancel(harness, 'a')
      expect(await settle(harness, 'a', stamp, RETURN)).toBe('settled')
      await expectGone(harness, 'a')
    },
  },
  {
    name: 'one that is held and cancelled does not come back: its lease runs out',
    async run(harness) {
      await put(harness, 'a')
      const stamp = await hold(harness, 'a', { leaseMs: 100 })
      await cancel(harness, 'a')
      await harness.advance(100)
      expect((await rescue(harness, 'a')).rescued).toBe(0)
      await harness.advance(2_000)
      await expectGone(harness, 'a')
      expect(await settle(harness, 'a', stamp)).toBe('stale')
    },
  },
  {
    name: 'one that was cancelled while held, and is set again, is as good as new',
    async run(harness) {
      await put(harness, 'a')
      await hold(harness, 'a')
      await cancel(harness, 'a')
      await put(harness, 'a')
      const stamp = await hold(harness, 'a')
      expect(await settle(harness, 'a', stamp, RETURN)).toBe('settled')
      await expectLane(harness, 'a', 'normal')
    },
  },
  {
    name: 'one that is held and dropped is gone, and its holder has nothing any more',
    async run(harness) {
      const at = { topic: harness.topic, cell: place('a').cell }
      for (const lane of LANES) {
        await put(harness, 'a', { lane })
        const req = newRequest()
        const stamp = await holdFrom(harness, 'a', lane, { req })
        await drop(harness, 'a')
        await expectCount(harness, 0)
        expect(await settle(harness, 'a', stamp, RETURN)).toBe('stale')
        expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
        expect(await harness.table.extend(at, req, 100)).toBe('stale')
        await expectGone(harness, 'a')
      }
    },
  },
  {
    name: 'of a claim, one is dropped, one cancelled, and the third comes back by itself',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      for (const key of [a, b, c]) await put(harness, key)
      const { stamp, tasks } = await claim(harness, a, { leaseMs: 100 })
      expect(keysOf(tasks)).toEqual([a, b, c])
      await drop(harness, a)
      await cancel(harness, b)
      expect(await settle(harness, a, stamp)).toBe('stale')
      await harness.advance(100)
      expect((await rescue(harness, a)).rescued).toBe(1)
      await expectCount(harness, 1)
      await harness.advance(2_000)
      await expectLane(harness, c, 'normal')
    },
  },
])
