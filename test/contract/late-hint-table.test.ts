import { expect, it } from 'vitest'
import { TocsinError } from '../../src/errors.ts'
import type { HintTable } from '../../src/hint-table.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { Watcher } from '../../src/timetable.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { LateHintTable } from '../../src/timetables/redis/late-hint-table.ts'
import { gate } from '../library/helpers.ts'
import { hint, type HintHarness } from './hint-table/helpers.ts'
import { hintTableContract } from './hint-table.ts'
import { seededRandom, START_MS } from './memory-harness.ts'

const LOOK_MS = 10_000

function inProcess(clock = new VirtualClock(START_MS)): MemoryTimetable {
  return new MemoryTimetable(clock, seededRandom(1))
}

async function open(): Promise<HintHarness> {
  const clock = new VirtualClock(START_MS)
  const table = new LateHintTable(LOOK_MS, async () => inProcess(clock))
  // The cases are about a table that is open.
  await table.nowMs()
  const advance = async (ms: number) => clock.moveTo(clock.monotonicNow() + ms)
  return { table, topic: 'contract', advance, close: () => table.close() }
}

hintTableContract('opened late', open)

/** A table whose first attempts to open fail. */
function lateTable(failures: number): { late: LateHintTable; opened: () => HintTable | null } {
  let left = failures
  let table: HintTable | null = null
  const late = new LateHintTable(LOOK_MS, async () => {
    if (left-- > 0) throw new TocsinError('timetable-unavailable', 'it is away')
    table = inProcess()
    return table
  })
  return { late, opened: () => table }
}

function watcherOf(wakes: number[]): Watcher {
  return { wake: (cell) => void wakes.push(cell), fence: () => {}, limit: () => {}, missed: () => {} }
}

it('every call tries to open it, and fails as long as that fails', async () => {
  const { late } = lateTable(2)
  const away = { code: 'timetable-unavailable' }
  await expect(late.nowMs()).rejects.toMatchObject(away)
  await expect(late.put('t', [hint('a', START_MS + 1_000)], 'set')).rejects.toMatchObject(away)
  expect(await late.put('t', [hint('a', START_MS + 1_000)], 'set')).toBe(1)
  await late.close()
})

it('calls at the same time share one attempt', async () => {
  let attempts = 0
  const late = new LateHintTable(LOOK_MS, async () => {
    attempts++
    return inProcess()
  })
  await Promise.all([late.nowMs(), late.extent('t'), late.filling('t')])
  expect(attempts).toBe(1)
  await late.close()
})

it('a watch that began before it was open gets its wakes, and none after its end', async () => {
  const { late, opened } = lateTable(1)
  const [kept, ended]: [number[], number[]] = [[], []]
  late.watch('t', watcherOf(kept))
  const end = late.watch('t', watcherOf(ended))
  await late.nowMs().catch(() => {})
  end()
  await late.put('t', [hint('a', START_MS + 1_000)], 'set')
  expect(opened()).not.toBeNull()
  expect([kept.length, ended.length]).toEqual([1, 0])
  await late.close()
})

it('closed while it is being opened, it closes what was opened, and opens nothing again', async () => {
  const { passed, open: goOn } = gate()
  let closed = 0
  const late = new LateHintTable(LOOK_MS, async () => {
    await passed
    const table = inProcess()
    return Object.assign(table, { close: async () => void closed++ })
  })
  const calling = late.nowMs().catch(() => null)
  const closing = late.close()
  goOn()
  await Promise.all([calling, closing])
  expect(closed).toBe(1)
  await expect(late.nowMs()).rejects.toMatchObject({ code: 'closed' })
})
