/** The books of a topic, read past everything that is under test but the storage itself. */
import { systemClock } from '../../../src/clock.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { systemRandom } from '../../../src/random.ts'
import type { Books } from '../../../src/timetable.ts'
import { openRedis } from '../../../src/timetables/redis/open.ts'

export async function booksOf(server: { readonly url: string }, topic: string): Promise<Books> {
  const settings = { prefix: 'toc', callTimeoutMs: 5_000, waitReplicas: 0 }
  const surroundings = { clock: systemClock, random: systemRandom, logger: silentLogger }
  const timetable = await openRedis({ url: server.url }, settings, surroundings)
  try {
    return await timetable.books(topic)
  } finally {
    await timetable.close()
  }
}

/** 0 when they balance: every task that was accepted is somewhere, once. */
export function imbalance({ scheduled, ...rest }: Books): number {
  const { pending, claimed, dead, done, cancelled, obsolete, purged } = rest
  return scheduled - pending - claimed - dead - done - cancelled - obsolete - purged
}
