/** Timetables on a virtual clock, which only the commands of a sequence advance. */
import type { Random } from '../../src/random.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { Timetable } from '../../src/timetable.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { START_MS } from '../contract/memory-harness.ts'
import { openOnVirtualClock } from '../contract/redis-harness.ts'
import type { RedisServer } from '../real-servers/redis-server.ts'
import type { Source } from './sequences.ts'

/** Chance that begins anew with each sequence, so that a failure can be shown again. 0: a rescued task is due at once. */
class Spreads implements Random {
  #drawn = 0

  begin(): void {
    this.#drawn = 0
  }

  fraction(): number {
    return [0.37, 0, 0.93, 0.06, 0.999][this.#drawn++ % 5] as number
  }

  uniqueId(): string {
    return `id-${++this.#drawn}`
  }
}

export type Plant = (sound: Timetable) => Timetable

export async function openMemorySource(plant: Plant = (sound) => sound): Promise<Source<Timetable>> {
  return {
    async next() {
      const clock = new VirtualClock(START_MS)
      return {
        port: plant(new MemoryTimetable(clock, new Spreads())),
        topic: 'model',
        startMs: START_MS,
        rescues: true,
        pass: async (ms) => clock.moveTo(clock.monotonicNow() + ms),
        stepWall: (ms) => clock.stepWall(ms),
      }
    },
    async close() {},
  }
}

/** Each sequence has a topic of its own; the clock is never set back. */
export async function openRedisSource(server: RedisServer): Promise<Source<Timetable>> {
  const random = new Spreads()
  const harness = await openOnVirtualClock(server, { random })
  const { timetable, clock } = harness
  let begun = 0
  return {
    async next() {
      random.begin()
      const place = { port: timetable, topic: `model-${++begun}`, startMs: clock.now() }
      return { ...place, rescues: true, isDearToCount: true, pass: (ms) => harness.advance(ms) }
    },
    close: () => harness.close(),
  }
}
