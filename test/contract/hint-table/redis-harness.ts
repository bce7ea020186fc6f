import { silentLogger } from '../../../src/telemetry/logger.ts'
import type { Random } from '../../../src/random.ts'
import type { HintTable } from '../../../src/hint-table.ts'
import { openRedisHints } from '../../../src/timetables/redis/open.ts'
import type { RedisServer } from '../../real-servers/redis-server.ts'
import { seededRandom } from '../memory-harness.ts'
import { redisOnVirtualClock } from '../redis-virtual-clock.ts'
import { type HintHarness, wrap } from './helpers.ts'

let opened = 0

/** What cases about Redis itself want besides. */
export interface RedisHintHarness extends HintHarness {
  readonly server: RedisServer
  /** What its keys begin with. */
  readonly prefix: string
  /** The same hints, seen by another process; or from another server, if that has them. */
  another(url?: string): Promise<HintTable>
  /** All that Redis had is gone, but for the clock. */
  wipe(): Promise<void>
}

export interface RedisHintOptions {
  /** By default each table has chances of its own. */
  readonly random?: Random
  /** Returns the text of a Lua file by its name; a test may change it. */
  readonly read?: (name: string) => string
}

/** On a clock that stands still until it is told to move. */
export async function openRedisHintTable(
  server: RedisServer,
  { read, random }: RedisHintOptions = {},
): Promise<RedisHintHarness> {
  const prefix = `hints-${++opened}`
  const { clock, scripts, hand, setClock, advance } = await redisOnVirtualClock(server, prefix, read)
  const tables = new Set<HintTable>()
  const open = async (url: string): Promise<HintTable> => {
    // Another seed for every table: no two processes make the same names.
    const chance = random ?? seededRandom(++opened)
    const surroundings = { clock, random: chance, logger: silentLogger, scripts }
    const redis = await openRedisHints({ url }, { prefix, callTimeoutMs: 5_000 }, surroundings)
    tables.add(redis)
    return wrap(redis, {
      nowMs: async () => clock.now(),
      async look(at) {
        // What it has not heard of for a while it asks, and would be told of Redis's own clock.
        await redis.has(at.topic, [{ key: 'absent', cell: at.cell }])
        return redis.look(at)
      },
      async close() {
        tables.delete(redis)
        await redis.close()
      },
    })
  }
  return {
    table: await open(server.url),
    topic: 'contract',
    server,
    prefix,
    another: (url = server.url) => open(url),
    async wipe() {
      await hand.flushAll()
      await setClock()
    },
    advance,
    async close() {
      await Promise.all([...tables].map((table) => table.close()))
      hand.destroy()
    },
  }
}
