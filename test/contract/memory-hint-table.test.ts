import { expect, it } from 'vitest'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import type { HintHarness } from './hint-table/helpers.ts'
import { hintTableContract } from './hint-table.ts'
import { seededRandom, START_MS } from './memory-harness.ts'

async function open(): Promise<HintHarness> {
  const clock = new VirtualClock(START_MS)
  const table = new MemoryTimetable(clock, seededRandom(1))
  const advance = async (ms: number) => clock.moveTo(clock.monotonicNow() + ms)
  return { table, topic: 'contract', advance, close: () => table.close() }
}

hintTableContract('in-process', open)

it('each table has an epoch of its own, and knows of no other', async () => {
  const [one, other] = [await open(), await open()]
  const { epoch } = await one.table.filling('t')
  expect((await other.table.filling('t')).epoch).not.toBe(epoch)
  expect(await other.table.filledTo('t', epoch, { key: 'a', cell: 0, ringMs: 1 })).toBe(false)
  expect(one.table.isShared).toBe(false)
})
