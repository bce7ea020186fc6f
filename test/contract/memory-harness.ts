import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { Random } from '../../src/random.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { seededFraction, type TimetableHarness } from './timetable/helpers.ts'

export const START_MS = Date.UTC(2026, 0, 1)

export interface MemoryHarness extends TimetableHarness {
  readonly clock: VirtualClock
}

/** The in-process timetable on a clock that stands still until it is told to move. */
export async function openMemory(seed = 1): Promise<MemoryHarness> {
  const clock = new VirtualClock(START_MS)
  const timetable = new MemoryTimetable(clock, seededRandom(seed))
  return {
    timetable,
    clock,
    topic: 'contract',
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
    },
    close: () => timetable.close(),
  }
}

export function seededRandom(seed: number): Random {
  const fraction = seededFraction(seed)
  let made = 0
  return { fraction, uniqueId: () => `id-${seed}-${++made}` }
}
