import { clearTimeout, setImmediate, setTimeout } from 'node:timers'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { type Clock, systemClock } from '../../src/clock.ts'
import { silentLogger } from '../../src/logger.ts'
import type { Random } from '../../src/random.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { openRedis } from '../../src/timetables/redis/open.ts'
import { loadScripts, readLua } from '../../src/timetables/redis/scripts.ts'
import type { RedisServer } from '../servers/redis-server.ts'
import { wrap } from './planted-bugs.ts'
import { seededFraction, type TimetableHarness } from './timetable/helpers.ts'

const SETTINGS = { callTimeoutMs: 5_000, waitReplicas: 0 }
const START_MS = Date.UTC(2026, 0, 1)
let opened = 0

/**
 * Timers that the leak check does not see. It takes a stack for each of them, and with one or two for every call to
 * Redis that would be most of what the machine does.
 */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const unwatchedClock: Clock = {
  ...systemClock,
  after(delayMs, ring) {
    const timer = setTimeout(ring, Math.ceil(delayMs))
    return () => clearTimeout(timer)
  },
  turn,
}

class UnwatchedVirtualClock extends VirtualClock {
  override turn(): Promise<void> {
    return turn()
  }
}

/** A Redis timetable on Redis's own clock, which has to be waited for. */
export async function openOnRealClock(server: RedisServer): Promise<TimetableHarness> {
  const timetable = await openRedis(
    { url: server.url },
    { ...SETTINGS, prefix: `real-${++opened}` },
    { clock: unwatchedClock, random: seededRandom(opened), logger: silentLogger },
  )
  return { timetable, topic: 'contract', advance: (ms) => wait(ms), close: () => timetable.close() }
}

export interface VirtualOptions {
  readonly random?: Random
  /** Gives the text of a Lua file by its name: for those who want to change it. */
  readonly read?: (name: string) => string
}

/**
 * The same scripts, byte for byte but for one line: they ask a key for the time instead of Redis's clock. So years
 * pass in a test, on a real Redis.
 */
export async function openOnVirtualClock(
  server: RedisServer,
  { random = seededRandom(1), read = readLua }: VirtualOptions = {},
): Promise<VirtualHarness> {
  const prefix = `virtual-${++opened}`
  const clockKey = `${prefix}:clock`
  const scripts = loadScripts((name) =>
    read(name).replace("redis.call('TIME')", `redis.call('LRANGE', '${clockKey}', 0, -1)`),
  )
  const clock = new UnwatchedVirtualClock(START_MS)
  const hand = createClient({ url: server.url })
  // Whoever waits for it is told; nobody else has to hear of it.
  hand.on('error', () => {})
  await hand.connect()
  const setClock = async () => {
    const nowMs = clock.now()
    const micros = (nowMs % 1000) * 1000
    const time = [String(Math.floor(nowMs / 1000)), String(micros)]
    await hand.eval(SET_CLOCK, { keys: [clockKey], arguments: time })
  }
  await setClock()
  const surroundings = { clock, random, logger: silentLogger, scripts }
  const redis = await openRedis({ url: server.url }, { ...SETTINGS, prefix }, surroundings)
  // What Redis's clock says is heard with every answer of a script: let the first be of this one.
  const hearClock = () => redis.get('contract', { key: 'nobody', cell: 0 })
  await hearClock()
  return {
    timetable: wrap(redis, {
      nowMs: async () => clock.now(),
      async look(at) {
        // What it has not heard of for a while it asks, and would be told of Redis's own clock.
        await hearClock()
        return redis.look(at)
      },
    }),
    topic: 'contract',
    clock,
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
      await setClock()
    },
    async close() {
      await redis.close()
      hand.destroy()
    },
  }
}

export interface VirtualHarness extends TimetableHarness {
  readonly clock: VirtualClock
}

const SET_CLOCK = "redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])"

function seededRandom(seed: number): Random {
  const fraction = seededFraction(seed)
  let made = 0
  return { fraction, uniqueId: () => `id-${seed}-${++made}` }
}
