/** Opens the store that the options of `Tocsin.open` describe. */
import type { Board } from '../board.ts'
import type { Clock } from '../clock.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import type { Ledger } from '../ledger.ts'
import type { PostgresConfig, PostgresOptions } from '../ledgers/postgres/options.ts'
import type { SqliteConfig, SqliteDatabase, SqliteOptions } from '../ledgers/sqlite/options.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Meter } from '../telemetry/meter.ts'
import { badOption, wholeNumber, withoutSecret } from '../values/options.ts'
import { checkPrefix, DEFAULT_PREFIX } from '../values/prefix.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import { ledgerClock } from '../store/ledger-clock.ts'
import { LedgerStore } from '../store/ledger-store.ts'
import { MemoryTimetable } from '../timetables/memory/timetable.ts'
import type { RedisConfig, RedisOptions } from '../timetables/redis/options.ts'

export interface StoreOptions {
  /**
   * Where timers wait. 'memory:' keeps timers in this process; without a ledger, timers are lost when the process ends.
   * 'redis://…' or 'rediss://…' shares timers among processes, 'redis+sentinel://host:port,host:port/name' finds the
   * primary through Sentinel, 'redis+cluster://host:port,host:port' spreads each topic over the masters of a Redis
   * Cluster. `redis(options)` of 'tocsin/redis' takes options that a URL cannot express.
   */
  readonly timetable?: 'memory:' | (string & {}) | RedisConfig | undefined
  /**
   * The database that stores tasks durably: 'sqlite:./data/tocsin.db' for one process, or
   * 'postgres://user@host/database' for many processes. `sqlite({ database })` of 'tocsin/sqlite' and
   * `postgres({ pool })` of 'tocsin/postgres' take options that a URL cannot express. [url, url] shards the tasks over
   * several PostgreSQL databases. If no timetable is given either, the default is 'sqlite:./.tocsin/tocsin.db'.
   */
  readonly ledger?: OneLedger | readonly (string | PostgresConfig)[] | undefined
  /**
   * Separates Tocsins that share servers. The prefix of all Redis keys, and the name of the schema in PostgreSQL:
   * 'tocsin' for the default prefix 'toc', 'tocsin_<prefix>' for any other. Not for SQLite: use another file.
   */
  readonly prefix?: string | undefined
  /** Timeout of a call to Redis or to the ledger. 5 s by default. */
  readonly callTimeout?: Duration | undefined
  /** Number of Redis replicas that must acknowledge a write before the call resolves. 0 by default. */
  readonly waitReplicas?: number | undefined
}

type OneLedger = `sqlite:${string}` | (string & {}) | SqliteConfig | PostgresConfig

interface Surroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly meter?: Meter | undefined
}

export const STORE_FIELDS: readonly string[] = [
  'timetable',
  'ledger',
  'prefix',
  'callTimeout',
  'waitReplicas',
]

/** Maximum number of hints per topic in a timetable that is filled by polling the ledger. */
const POLLED_MAX = 50_000

const DEFAULT_LEDGER = './.tocsin/tocsin.db'
const CALL_TIMEOUT = '5s'
const CALL_TIMEOUT_MS_MIN = 10
const WAIT_REPLICAS_MAX = 100
/** Matches the address of a Redis, of a Redis Cluster, or of Sentinels. */
const REDIS_URL = /^rediss?(\+cluster|\+sentinel)?:/i
/** Matches an address without a scheme, such as 'localhost:6379'. */
const HOST_AND_PORT = /^(.*@)?[\w.-]+:\d+$/

/** A store, and the cluster's board in the same database. A store in memory has no board and joins no cluster. */
export interface OpenedStore {
  readonly store: TaskStore
  readonly board?: Board
}

export async function openStore(options: StoreOptions, surroundings: Surroundings): Promise<OpenedStore> {
  const { timetable, ledger: given } = options
  const redis = redisOptions(timetable)
  const postgres = postgresOptions(given)
  if (redis !== null) {
    if (postgres !== null) return openCenter(redis, postgres, options, surroundings)
    if (given !== undefined) throw notTogether(given)
    return openRedisStore(redis, options, surroundings)
  }
  if (timetable !== undefined && timetable !== 'memory:') throw unknownTimetable(timetable)
  const isDurable = given !== undefined || timetable === undefined
  refuseUnused(options, isDurable ? ['waitReplicas'] : ['waitReplicas', 'callTimeout'])
  const prefix = checkPrefix(options.prefix)
  const { clock, random, logger } = surroundings
  if (postgres !== null) {
    const ledger = await openPostgresLedger(postgres, options, surroundings, true)
    const store = new LedgerStore({ ...surroundings, table: polledTable(ledger, surroundings), ledger })
    return { store, board: ledger.board }
  }
  const table = new MemoryTimetable(clock, random)
  // No other Tocsin can reach this table, whatever its prefix is.
  if (!isDurable) return { store: table }
  if (prefix !== DEFAULT_PREFIX) throw prefixOfFile(prefix)
  const file = await sqliteFile(given)
  const callTimeoutMs = checkCallTimeout(options.callTimeout)
  // Use a dynamic import: better-sqlite3 is a native module that only this kind of store needs.
  const { openSqlite } = await import('../ledgers/sqlite/open.ts')
  const ledger = openSqlite({ ...file, callTimeoutMs }, clock, logger)
  return { store: new LedgerStore({ ...surroundings, table, ledger }), board: ledger.board }
}

/** Opens a Redis timetable with a PostgreSQL ledger: Redis knows when tasks ring, PostgreSQL decides every claim. */
async function openCenter(
  redis: RedisOptions,
  postgres: readonly PostgresOptions[],
  options: StoreOptions,
  surroundings: Surroundings,
): Promise<OpenedStore> {
  if (options.waitReplicas !== undefined)
    throw badOption('waitReplicas', 'leave it out: the ledger is durable, also if Redis loses data')
  const settings = redisSettings(options)
  const ledger = await openPostgresLedger(postgres, options, surroundings, false)
  try {
    const { openRedisHintsOrLate } = await import('../timetables/redis/open.ts')
    // Add the id of the ledger to the prefix: one Redis may serve several ledgers, and Tocsins without a ledger.
    const prefix = `${settings.prefix}:${ledger.id}`
    const { table, outage } = await openRedisHintsOrLate(redis, { ...settings, prefix }, surroundings)
    const makeSpare = () => polledTable(ledger, surroundings)
    const store = new LedgerStore({ ...surroundings, table, ledger, makeSpare, outage })
    return { store, board: ledger.board }
  } catch (error) {
    await ledger.close()
    throw error
  }
}

/** Returns a timetable in this process that uses the ledger's clock. */
function polledTable(ledger: Ledger, { clock, random }: Surroundings): MemoryTimetable {
  return new MemoryTimetable(ledgerClock(ledger, clock), random, undefined, POLLED_MAX)
}

async function openPostgresLedger(
  given: readonly PostgresOptions[],
  { callTimeout, prefix }: StoreOptions,
  surroundings: Surroundings,
  /**
   * True if there is no Redis timetable. Then every process polls the ledger, and PostgreSQL notifies the processes of
   * tasks that ring before their next poll.
   */
  isAlone: boolean,
): Promise<Ledger & { readonly id: string; readonly board: Board }> {
  const callTimeoutMs = checkCallTimeout(callTimeout)
  // Use dynamic imports: the driver need not be installed unless PostgreSQL is used.
  const { checkPostgresOptions } = await import('../ledgers/postgres/options.ts')
  const { openPostgres } = await import('../ledgers/postgres/open.ts')
  const { NOTIFY_WITHIN_MS } = await import('../ledgers/postgres/statement-runner.ts')
  const notifyWithinMs = isAlone ? NOTIFY_WITHIN_MS : 0
  const checked = given.map((one) => checkPostgresOptions(one, checkPrefix(prefix)))
  const opening: ReturnType<typeof openPostgres>[] = []
  for (const [i, one] of checked.entries()) {
    const settings = { callTimeoutMs, notifyWithinMs, shard: `${i + 1} of ${checked.length}` }
    // The board is in the first database.
    const ofBoard =
      i === 0 ? {} : { readsBatches: async () => (await opening[0])?.board.readsBatches() ?? false }
    opening.push(openPostgres(one, { ...settings, ...ofBoard }, surroundings))
  }
  const opened = await Promise.allSettled(opening)
  const failed = opened.find((one) => one.status === 'rejected')
  const ledgers = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  if (failed !== undefined) {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    throw failed.reason
  }
  const [first] = ledgers
  if (first === undefined) throw badOption('ledger', 'expected at least one database')
  if (ledgers.length === 1) return first
  if (new Set(ledgers.map(({ id }) => id)).size < ledgers.length) {
    await Promise.all(ledgers.map((ledger) => ledger.close()))
    throw badOption('ledger', 'the same database is listed twice')
  }
  const { ShardedLedger } = await import('../ledgers/sharded.ts')
  return Object.assign(new ShardedLedger(ledgers), { id: first.id, board: first.board })
}

async function openRedisStore(
  redis: RedisOptions,
  options: StoreOptions,
  surroundings: Surroundings,
): Promise<OpenedStore> {
  const settings = redisSettings(options)
  // Use a dynamic import: loading the Redis client takes a quarter of a second.
  const { openRedis } = await import('../timetables/redis/open.ts')
  const store = await openRedis(redis, settings, surroundings)
  return { store, board: store.board }
}

function redisSettings({ prefix, callTimeout, waitReplicas }: StoreOptions): {
  prefix: string
  callTimeoutMs: number
  waitReplicas: number
} {
  return {
    prefix: checkPrefix(prefix),
    callTimeoutMs: checkCallTimeout(callTimeout),
    waitReplicas: wholeNumber(waitReplicas ?? 0, 0, WAIT_REPLICAS_MAX, 'waitReplicas'),
  }
}

function redisOptions(timetable: unknown): RedisOptions | null {
  if (typeof timetable === 'string') return REDIS_URL.test(timetable) ? { url: timetable } : null
  // Check `kind` instead of `instanceof`: `instanceof` fails if a process has two copies of the package.
  const config = timetable as RedisConfig | null | undefined
  return config?.kind === 'redis' ? config.options : null
}

/** Returns null if the ledger is not PostgreSQL. */
function postgresOptions(ledger: unknown): PostgresOptions[] | null {
  if (Array.isArray(ledger)) {
    const all = ledger.map((one) => postgresOptions(one)?.[0])
    if (all.every((one) => one !== undefined)) return all
    throw badOption('ledger', 'an array of databases must have PostgreSQL databases only')
  }
  if (typeof ledger === 'string') return /^postgres(ql)?:/i.test(ledger) ? [{ url: ledger }] : null
  const config = ledger as PostgresConfig | null | undefined
  return config?.kind === 'postgres' ? [config.options] : null
}

async function sqliteFile(ledger: unknown): Promise<{ path: string; database?: SqliteDatabase | undefined }> {
  if (ledger === undefined) return { path: DEFAULT_LEDGER }
  const config = ledger as SqliteConfig | null
  const isText = typeof ledger === 'string'
  if (isText ? !/^sqlite:/i.test(ledger) : config?.kind !== 'sqlite') throw unknownLedger(ledger)
  if (isText && /\?\w+=/.test(ledger)) throw parametersOfFile(ledger)
  const given: SqliteOptions = isText
    ? { path: ledger.replace(/^sqlite:(\/\/(?=\/))?/i, '') }
    : (config as SqliteConfig).options
  const { pathOf } = await import('../ledgers/sqlite/options.ts')
  return { path: pathOf(given), database: given.database }
}

function checkCallTimeout(callTimeout: Duration | undefined): number {
  const ms = durationMs(callTimeout ?? CALL_TIMEOUT, 'callTimeout')
  if (ms >= CALL_TIMEOUT_MS_MIN) return ms
  throw badOption('callTimeout', `expected at least ${CALL_TIMEOUT_MS_MIN}ms, got ${ms}ms`)
}

function refuseUnused(options: StoreOptions, names: readonly (keyof StoreOptions)[]): void {
  const unused = names.find((name) => options[name] !== undefined)
  if (unused === undefined) return
  throw badOption(unused, "applies to a Redis timetable only, not to 'memory:'")
}

function prefixOfFile(prefix: string): TocsinError {
  return badOption(
    'prefix',
    `a SQLite file is used by one Tocsin alone; leave the prefix out and name another file as the ledger: 'sqlite:./${prefix}.db'`,
  )
}

function parametersOfFile(ledger: string): TocsinError {
  const parameters = ledger.slice(ledger.indexOf('?'))
  return badOption(
    'ledger',
    `a SQLite file takes no parameters, such as ${describeValue(parameters)}. To separate tasks, name another file. If this is the name of the file, write sqlite({ path })`,
  )
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
    return badOption('ledger', "got a database object; write sqlite({ database }), from 'tocsin/sqlite'")
  if (ledger === 'memory:')
    return badOption('ledger', "'memory:' is a timetable and is not durable; write { timetable: 'memory:' }")
  return unsupported(`ledger ${withoutSecret(ledger)}`, 'ledger')
}

function notTogether(ledger: unknown): TocsinError {
  const what =
    typeof ledger === 'string' && !/^sqlite:/i.test(ledger) ? withoutSecret(ledger) : 'a SQLite file'
  return unsupported(`a Redis timetable with ${what} as its ledger`, 'ledger')
}

function unsupported(what: string, field: string): TocsinError {
  return new TocsinError(
    'unsupported',
    `${what} is not available in this version. What works: Tocsin.open(), which keeps tasks in ./.tocsin/tocsin.db; Tocsin.open({ ledger: 'sqlite:./my.db' }); Tocsin.open({ timetable: 'redis://localhost:6379' }); Tocsin.open({ ledger: 'postgres://localhost/db' }), with a Redis timetable or without; and Tocsin.open({ timetable: 'memory:' }), which loses them when the process ends`,
    { field },
  )
}
