/** From what a user says about where tasks live to a store that works. */
import type { Clock } from './clock.ts'
import { type Duration, durationMs } from './duration.ts'
import { describeValue, TocsinError } from './errors.ts'
import type { SqliteConfig, SqliteDatabase, SqliteOptions } from './ledgers/sqlite/options.ts'
import type { Logger } from './logger.ts'
import { badOption, wholeNumber } from './options.ts'
import type { Random } from './random.ts'
import type { TaskStore } from './store.ts'
import { LedgerStore } from './store/ledger-store.ts'
import { MemoryTimetable } from './timetables/memory/timetable.ts'
import type { RedisConfig, RedisOptions } from './timetables/redis/options.ts'

export interface StoreOptions {
  /**
   * Where timers wait. 'memory:' keeps them in this process, and nothing outlives it, unless there is a ledger;
   * 'redis://…' or 'rediss://…' shares them among processes; `redis(options)` of 'tocsin/redis' says more about a
   * Redis than a URL can.
   */
  readonly timetable?: 'memory:' | (string & {}) | RedisConfig | undefined
  /**
   * Where tasks are kept, so that they outlive this process: 'sqlite:./data/tocsin.db', or `sqlite({ database })` of
   * 'tocsin/sqlite'. Without a timetable and without this: 'sqlite:./.tocsin/tocsin.db'.
   */
  readonly ledger?: `sqlite:${string}` | (string & {}) | SqliteConfig | undefined
  /** What every Redis key begins with, so that several Tocsins can share one Redis. 'toc' by default. */
  readonly prefix?: string | undefined
  /** How long a call to Redis, or to the ledger, may take before it is given up. 5 s by default. */
  readonly callTimeout?: Duration | undefined
  /** How many Redis replicas must have a write before it counts as accepted. 0 by default. */
  readonly waitReplicas?: number | undefined
}

interface Surroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** Known names whose work is not built yet: not a typo, and not silently ignored. */
const LATER_FIELDS = ['node']
export const STORE_FIELDS: readonly string[] = [
  'timetable',
  'ledger',
  'prefix',
  'callTimeout',
  'waitReplicas',
  ...LATER_FIELDS,
]

const DEFAULT_LEDGER = './.tocsin/tocsin.db'
const CALL_TIMEOUT = '5s'
const CALL_TIMEOUT_MS_MIN = 10
const WAIT_REPLICAS_MAX = 100
/** An address without its scheme. */
const HOST_AND_PORT = /^(.*@)?[\w.-]+:\d+$/
const PREFIX = /^[A-Za-z0-9._-]{1,64}$/

export async function openStore(options: StoreOptions, surroundings: Surroundings): Promise<TaskStore> {
  const later = LATER_FIELDS.find((name) => (options as Record<string, unknown>)[name] !== undefined)
  if (later !== undefined) throw unsupported(`open({ ${later} })`, later)
  const { timetable, ledger: given } = options
  const redis = redisOptions(timetable)
  if (redis !== null) {
    if (given !== undefined) throw notTogether(given)
    return openRedisStore(redis, options, surroundings)
  }
  if (timetable !== undefined && timetable !== 'memory:') throw unknownTimetable(timetable)
  const isDurable = given !== undefined || timetable === undefined
  refuseIdle(options, isDurable ? ['prefix', 'waitReplicas'] : ['prefix', 'waitReplicas', 'callTimeout'])
  const { clock, random } = surroundings
  const table = new MemoryTimetable(clock, random)
  if (!isDurable) return table
  const file = await sqliteFile(given)
  const callTimeoutMs = checkCallTimeout(options.callTimeout)
  // Here, not above: whoever has no SQLite need not load its binary.
  const { openSqlite } = await import('./ledgers/sqlite/open.ts')
  const ledger = openSqlite({ ...file, callTimeoutMs }, clock, surroundings.logger)
  return new LedgerStore({ ...surroundings, table, ledger })
}

async function openRedisStore(
  redis: RedisOptions,
  { prefix = 'toc', callTimeout, waitReplicas }: StoreOptions,
  surroundings: Surroundings,
): Promise<TaskStore> {
  // A brace would steer where Redis Cluster puts the keys.
  if (typeof prefix !== 'string' || !PREFIX.test(prefix))
    throw badOption(
      'prefix',
      `expected 1 to 64 letters, digits, '.', '_' or '-', got ${describeValue(prefix)}`,
    )
  const settings = {
    prefix,
    callTimeoutMs: checkCallTimeout(callTimeout),
    waitReplicas: wholeNumber(waitReplicas ?? 0, 0, WAIT_REPLICAS_MAX, 'waitReplicas'),
  }
  // Here, not above: whoever has no Redis need not load its client, which takes a quarter of a second.
  const { openRedis } = await import('./timetables/redis/open.ts')
  return openRedis(redis, settings, surroundings)
}

function redisOptions(timetable: unknown): RedisOptions | null {
  if (typeof timetable === 'string') return /^rediss?:/i.test(timetable) ? { url: timetable } : null
  // By its mark, not by `instanceof`: two copies of the package in one process still understand each other.
  const config = timetable as RedisConfig | null | undefined
  return config?.kind === 'redis' ? config.options : null
}

async function sqliteFile(ledger: unknown): Promise<{ path: string; database?: SqliteDatabase | undefined }> {
  if (ledger === undefined) return { path: DEFAULT_LEDGER }
  const config = ledger as SqliteConfig | null
  const isText = typeof ledger === 'string'
  if (isText ? !/^sqlite:/i.test(ledger) : config?.kind !== 'sqlite') throw unknownLedger(ledger)
  const given: SqliteOptions = isText
    ? { path: ledger.replace(/^sqlite:(\/\/(?=\/))?/i, '') }
    : (config as SqliteConfig).options
  const { pathOf } = await import('./ledgers/sqlite/options.ts')
  return { path: pathOf(given), database: given.database }
}

function checkCallTimeout(callTimeout: Duration | undefined): number {
  const ms = durationMs(callTimeout ?? CALL_TIMEOUT, 'callTimeout')
  if (ms >= CALL_TIMEOUT_MS_MIN) return ms
  throw badOption('callTimeout', `expected at least ${CALL_TIMEOUT_MS_MIN}ms, got ${ms}ms`)
}

function refuseIdle(options: StoreOptions, names: readonly (keyof StoreOptions)[]): void {
  const idle = names.find((name) => options[name] !== undefined)
  if (idle === undefined) return
  throw badOption(idle, "means something for a Redis timetable only, not for 'memory:'")
}

function unknownTimetable(timetable: unknown): TocsinError {
  if (typeof timetable === 'string' && /^sqlite:/i.test(timetable))
    return badOption('timetable', `a file is a ledger; write { ledger: ${describeValue(timetable)} }`)
  if (typeof timetable === 'string' && HOST_AND_PORT.test(timetable))
    return badOption('timetable', `${withoutSecret(timetable)} has no scheme; write 'redis://host:port'`)
  return unsupported(`timetable ${withoutSecret(timetable)}`, 'timetable')
}

function unknownLedger(ledger: unknown): TocsinError {
  if (typeof ledger === 'string' && /^[^:]*\.(db|sqlite3?)$/i.test(ledger))
    return badOption('ledger', `${describeValue(ledger)} has no scheme; write 'sqlite:${ledger}'`)
  if (typeof (ledger as { inTransaction?: unknown } | null)?.inTransaction === 'boolean')
    return badOption(
      'ledger',
      "a database is given as it is; write sqlite({ database }), from 'tocsin/sqlite'",
    )
  if (ledger === 'memory:')
    return badOption('ledger', "memory is a timetable, and keeps nothing; write { timetable: 'memory:' }")
  return unsupported(`ledger ${withoutSecret(ledger)}`, 'ledger')
}

function notTogether(ledger: unknown): TocsinError {
  const what =
    typeof ledger === 'string' && !/^sqlite:/i.test(ledger) ? withoutSecret(ledger) : 'a SQLite file'
  return unsupported(`a Redis timetable with ${what} as its ledger`, 'ledger')
}

/** Other stores' URLs may hold a password, too. */
function withoutSecret(value: unknown): string {
  if (typeof value !== 'string') return describeValue(value)
  const shown = value.slice(value.lastIndexOf('@') + 1)
  return describeValue(shown === value ? value : `…@${shown}`)
}

function unsupported(what: string, field: string): TocsinError {
  return new TocsinError(
    'unsupported',
    `${what} is not available in this version. What works: Tocsin.open(), which keeps tasks in ./.tocsin/tocsin.db; Tocsin.open({ ledger: 'sqlite:./my.db' }); Tocsin.open({ timetable: 'redis://localhost:6379' }); and Tocsin.open({ timetable: 'memory:' }), which loses them when the process ends`,
    { field },
  )
}
