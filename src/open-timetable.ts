/** From what a user says about the timetable to a timetable that works. */
import type { Clock } from './clock.ts'
import { type Duration, durationMs } from './duration.ts'
import { describeValue, TocsinError } from './errors.ts'
import type { Logger } from './logger.ts'
import { badOption, wholeNumber } from './options.ts'
import type { Random } from './random.ts'
import type { Timetable } from './timetable.ts'
import { MemoryTimetable } from './timetables/memory/timetable.ts'
import type { RedisConfig, RedisOptions } from './timetables/redis/options.ts'

export interface TimetableOptions {
  /**
   * Where timers wait. 'memory:' keeps them in this process, and nothing outlives it; 'redis://…' or 'rediss://…'
   * shares them among processes; `redis(options)` of 'tocsin/redis' says more about a Redis than a URL can.
   */
  readonly timetable?: 'memory:' | (string & {}) | RedisConfig | undefined
  /** What every Redis key begins with, so that several Tocsins can share one Redis. 'toc' by default. */
  readonly prefix?: string | undefined
  /** How long a call to Redis may take before it is given up. 5 s by default. */
  readonly callTimeout?: Duration | undefined
  /** How many Redis replicas must have a write before it counts as accepted. 0 by default. */
  readonly waitReplicas?: number | undefined
}

/** Known names whose stores are not built yet: not a typo, and not silently ignored. */
const LATER_FIELDS = ['ledger', 'node']
const REDIS_FIELDS = ['prefix', 'callTimeout', 'waitReplicas'] as const
export const TIMETABLE_FIELDS: readonly string[] = ['timetable', ...REDIS_FIELDS, ...LATER_FIELDS]

const CALL_TIMEOUT = '5s'
const CALL_TIMEOUT_MS_MIN = 10
const WAIT_REPLICAS_MAX = 100
/** An address without its scheme. */
const HOST_AND_PORT = /^(.*@)?[\w.-]+:\d+$/
const PREFIX = /^[A-Za-z0-9._-]{1,64}$/

export async function openTimetable(
  options: TimetableOptions,
  surroundings: { readonly clock: Clock; readonly random: Random; readonly logger: Logger },
): Promise<Timetable> {
  const later = LATER_FIELDS.find((name) => (options as Record<string, unknown>)[name] !== undefined)
  if (later !== undefined) throw unsupported(`open({ ${later} })`)
  const { timetable } = options
  if (timetable === 'memory:') {
    const idle = REDIS_FIELDS.find((name) => options[name] !== undefined)
    if (idle !== undefined)
      throw badOption(idle, "means something for a Redis timetable only, not for 'memory:'")
    return new MemoryTimetable(surroundings.clock, surroundings.random)
  }
  const redis = redisOptions(timetable)
  if (redis !== null) {
    const settings = redisSettings(options)
    // Here, not above: whoever has no Redis need not load its client, which takes a quarter of a second.
    const { openRedis } = await import('./timetables/redis/open.ts')
    return openRedis(redis, settings, surroundings)
  }
  if (typeof timetable === 'string' && HOST_AND_PORT.test(timetable))
    throw badOption('timetable', `${describeTimetable(timetable)} has no scheme; write 'redis://host:port'`)
  throw unsupported(
    timetable === undefined ? 'open() without a timetable' : `timetable ${describeTimetable(timetable)}`,
  )
}

function redisOptions(timetable: unknown): RedisOptions | null {
  if (typeof timetable === 'string') return /^rediss?:/i.test(timetable) ? { url: timetable } : null
  // By its mark, not by `instanceof`: two copies of the package in one process still understand each other.
  const config = timetable as RedisConfig | null | undefined
  return config?.kind === 'redis' ? config.options : null
}

function redisSettings({ prefix = 'toc', callTimeout, waitReplicas }: TimetableOptions): {
  prefix: string
  callTimeoutMs: number
  waitReplicas: number
} {
  // A brace would steer where Redis Cluster puts the keys.
  if (typeof prefix !== 'string' || !PREFIX.test(prefix))
    throw badOption(
      'prefix',
      `expected 1 to 64 letters, digits, '.', '_' or '-', got ${describeValue(prefix)}`,
    )
  const callTimeoutMs = durationMs(callTimeout ?? CALL_TIMEOUT, 'callTimeout')
  if (callTimeoutMs < CALL_TIMEOUT_MS_MIN)
    throw badOption('callTimeout', `expected at least ${CALL_TIMEOUT_MS_MIN}ms, got ${callTimeoutMs}ms`)
  return {
    prefix,
    callTimeoutMs,
    waitReplicas: wholeNumber(waitReplicas ?? 0, 0, WAIT_REPLICAS_MAX, 'waitReplicas'),
  }
}

/** Other stores' URLs may hold a password, too. */
function describeTimetable(timetable: unknown): string {
  if (typeof timetable !== 'string') return describeValue(timetable)
  const shown = timetable.slice(timetable.lastIndexOf('@') + 1)
  return describeValue(shown === timetable ? timetable : `…@${shown}`)
}

function unsupported(what: string): TocsinError {
  return new TocsinError(
    'unsupported',
    `${what} is not available in this version. What works: Tocsin.open({ timetable: 'redis://localhost:6379' }) and Tocsin.open({ timetable: 'memory:' }), which keeps timers in this process and loses them when it ends`,
    { field: 'timetable' },
  )
}
