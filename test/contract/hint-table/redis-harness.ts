import { setImmediate } from 'node:timers'
import { createClient } from '@redis/client'
import { silentLogger } from '../../../src/logger.ts'
import type { Random } from '../../../src/random.ts'
import { VirtualClock } from '../../../src/testing/virtual-clock.ts'
import type { HintTable } from '../../../src/timetable.ts'
import { openRedisHints } from '../../../src/timetables/redis/open.ts'
import { loadScripts, readLua } from '../../../src/timetables/redis/scripts.ts'
import type { RedisServer } from '../../servers/redis-server.ts'
import { seededFraction } from '../timetable/helpers.ts'
import { type HintHarness, wrap } from './helpers.ts'

const START_MS = Date.UTC(2026, 0, 1)
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

/** Its turns are not watched by the leak check, which takes a stack for each: see ../redis-harness.ts. */
class UnwatchedVirtualClock extends VirtualClock {
  override turn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve))
  }
}

export interface RedisHintOptions {
  /** By default each table has chances of its own. */
  readonly random?: Random
  /** Gives the text of a Lua file by its name: for those who want to change it. */
  readonly read?: (name: string) => string
}

/** As openOnVirtualClock of ../redis-harness.ts: the same scripts, but they ask a key for the time. */
export async function openRedisHintTable(
  server: RedisServer,
  { read = readLua, random }: RedisHintOptions = {},
): Promise<RedisHintHarness> {
  const prefix = `hints-${++opened}`
  const clockKey = `${prefix}:clock`
  const scripts = loadScripts((name) =>
    read(name).replace("redis.call('TIME')", `redis.call('LRANGE', '${clockKey}', 0, -1)`),
  )
  const clock = new UnwatchedVirtualClock(START_MS)
  const hand = createClient({ url: server.url })
  hand.on('error', () => {})
  await hand.connect()
  const setClock = async () => {
    const nowMs = clock.now()
    const time = [String(Math.floor(nowMs / 1000)), String((nowMs % 1000) * 1000)]
    await hand.eval(SET_CLOCK, { keys: [clockKey], arguments: time })
  }
  await setClock()
  const tables = new Set<HintTable>()
  const open = async (url: string): Promise<HintTable> => {
    const chance = random ?? seededRandom(++opened)
    const surroundings = { clock, random: chance, logger: silentLogger, scripts }
    const redis = await openRedisHints({ url }, { prefix, callTimeoutMs: 5_000 }, surroundings)
    tables.add(redis)
    return wrap(redis, {
      nowMs: async () => clock.now(),
      async look(at) {
        // What it has not heard of for a while it asks, and would be told of Redis's own clock.
        await redis.has(at.topic, [{ key: 'nobody', cell: at.cell }])
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
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
      await setClock()
    },
    async close() {
      await Promise.all([...tables].map((table) => table.close()))
      hand.destroy()
    },
  }
}

const SET_CLOCK = "redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])"

/** Another seed for every table: no two processes make the same names. */
function seededRandom(seed: number): Random {
  let made = 0
  return { fraction: seededFraction(seed), uniqueId: () => `id-${seed}-${++made}` }
}
