import { setImmediate } from 'node:timers'
import { createClient } from '@redis/client'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { loadScripts, readLua, type Scripts } from '../../src/timetables/redis/scripts.ts'
import type { RedisServer } from '../real-servers/redis-server.ts'
import { START_MS } from './memory-harness.ts'

/**
 * A turn that the leak check does not see. It takes a stack for each timer, and with one or two for every call to Redis
 * that would be most of what the machine does.
 */
export const unwatchedTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

class UnwatchedVirtualClock extends VirtualClock {
  override turn(): Promise<void> {
    return unwatchedTurn()
  }
}

type Hand = ReturnType<typeof createClient>

/**
 * A client per server that is never connected, to be duplicated. `createClient` builds a class with all commands of Redis
 * and caches only the last one: in turns with the clients of the library that would take most of the time of a case.
 */
const templates = new Map<string, Hand>()

function connectByHand(url: string): Hand {
  const template = templates.get(url) ?? createClient({ url })
  templates.set(url, template)
  return template.duplicate()
}

export interface RedisOnVirtualClock {
  readonly clock: VirtualClock
  readonly scripts: Scripts
  /** A client for whatever a case wants to do by hand. */
  readonly hand: Hand
  /** The key that has the time says what the clock says: after it moved, and after it was wiped. */
  readonly setClock: () => Promise<void>
  readonly advance: (ms: number) => Promise<void>
}

/** Reads the time from the key `<prefix>:clock`. The text is the same for all prefixes: Redis compiles it once. */
const READ_CLOCK = "redis.call('LRANGE', string.match(KEYS[1], '^[^:]+') .. ':clock', 0, -1)"

const onVirtualClock = (read: (name: string) => string): Scripts =>
  loadScripts((name) => read(name).replace("redis.call('TIME')", () => READ_CLOCK))
const unchangedScripts = onVirtualClock(readLua)

/**
 * The same scripts, byte for byte but for one line: they ask a key for the time instead of Redis's clock. So years
 * pass in a test, on a real Redis.
 */
export async function redisOnVirtualClock(
  server: RedisServer,
  prefix: string,
  /** Gives the text of a Lua file by its name: for those who want to change it. */
  read?: (name: string) => string,
): Promise<RedisOnVirtualClock> {
  const clockKey = `${prefix}:clock`
  const scripts = read === undefined ? unchangedScripts : onVirtualClock(read)
  const clock = new UnwatchedVirtualClock(START_MS)
  const hand = connectByHand(server.url)
  // A failed command rejects for its caller. Without a listener the event would end the process.
  hand.on('error', () => {})
  await hand.connect()
  const setClock = async () => {
    const nowMs = clock.now()
    const time = [String(Math.floor(nowMs / 1000)), String((nowMs % 1000) * 1000)]
    await hand.eval(SET_CLOCK, { keys: [clockKey], arguments: time })
  }
  await setClock()
  return {
    clock,
    scripts,
    hand,
    setClock,
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
      await setClock()
    },
  }
}

const SET_CLOCK = "redis.call('DEL', KEYS[1]) return redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2])"
