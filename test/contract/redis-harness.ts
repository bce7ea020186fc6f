import { clearTimeout, setTimeout } from 'node:timers'
import { setTimeout as wait } from 'node:timers/promises'
import { type Clock, systemClock } from '../../src/clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import type { Random } from '../../src/random.ts'
import type { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { openRedis } from '../../src/timetables/redis/open.ts'
import type { RedisServer } from '../real-servers/redis-server.ts'
import { seededRandom } from './memory-harness.ts'
import { wrap } from '../planted/timetable.ts'
import { card } from './board/helpers.ts'
import { redisOnVirtualClock, unwatchedTurn } from './redis-virtual-clock.ts'
import type { TimetableHarness } from './timetable/helpers.ts'

const SETTINGS = { callTimeoutMs: 5_000, waitReplicas: 0 }
let opened = 0

/** Its timers are not seen by the leak check, either. */
const unwatchedClock: Clock = {
  ...systemClock,
  after(delayMs, ring) {
    const timer = setTimeout(ring, Math.ceil(delayMs))
    return () => clearTimeout(timer)
  },
  turn: unwatchedTurn,
}

/**
 * How claims are stored: as one record each, as in a cell that only nodes of this version use, or task by task, as older
 * nodes read them. Until the first beat it is not known that there are no older nodes.
 */
export type Shape = 'record' | 'tasks'

/** A Redis timetable on Redis's own clock, which has to be waited for. */
export async function openOnRealClock(
  server: Pick<RedisServer, 'url'>,
  shape: Shape = 'record',
): Promise<TimetableHarness> {
  const timetable = await openRedis(
    { url: server.url },
    { ...SETTINGS, prefix: `real-${++opened}` },
    { clock: unwatchedClock, random: seededRandom(opened), logger: silentLogger },
  )
  if (shape === 'record') await timetable.board.beat(card('node'))
  return { timetable, topic: 'contract', advance: (ms) => wait(ms), close: () => timetable.close() }
}

export interface VirtualOptions {
  readonly random?: Random
  /** Returns the text of a Lua file by its name; a test may change it. */
  readonly read?: (name: string) => string
  readonly shape?: Shape
}

/** On a clock that stands still until it is told to move. */
export async function openOnVirtualClock(
  server: RedisServer,
  { random = seededRandom(1), read, shape = 'record' }: VirtualOptions = {},
): Promise<VirtualHarness> {
  const prefix = `virtual-${++opened}`
  const { clock, scripts, hand, advance } = await redisOnVirtualClock(server, prefix, read)
  const surroundings = { clock, random, logger: silentLogger, scripts }
  const redis = await openRedis({ url: server.url }, { ...SETTINGS, prefix }, surroundings)
  if (shape === 'record') await redis.board.beat(card('node'))
  // What Redis's clock says is heard with every answer of a script: let the first be of this one.
  const hearClock = () => redis.get('contract', { key: 'absent', cell: 0 })
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
    advance,
    async close() {
      await redis.close()
      hand.destroy()
    },
  }
}

export interface VirtualHarness extends TimetableHarness {
  readonly clock: VirtualClock
}
