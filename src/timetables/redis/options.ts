/** The options of `redis()` and the functions that check them. */
import type { RedisClientOptions } from '@redis/client'
import { type Duration, durationMs } from '../../values/duration.ts'
import { describeValue } from '../../errors.ts'
import { badOption, checkOptions, wholeNumber } from '../../values/options.ts'
import { clusterOf, type RedisClusterOptions } from './cluster/cluster-options.ts'

/**
 * `ca` is the certificate authority to trust. `cert` and `key` are the client's own certificate, if the server requires
 * one. `servername` is the name in the server's certificate, if it differs from the host in the URL.
 */
export interface RedisTls {
  readonly ca?: string | Buffer | undefined
  readonly cert?: string | Buffer | undefined
  readonly key?: string | Buffer | undefined
  readonly servername?: string | undefined
}

export interface RedisOptions {
  /**
   * redis://user:password@host:6379/0, or rediss:// for TLS. redis+cluster://user:password@host:6379,host:6379 names some
   * nodes of a Redis Cluster.
   */
  readonly url?: string | undefined
  /** A Redis Cluster, instead of `url`. It is used with TLS if `tls` is given. */
  readonly cluster?: RedisClusterOptions | undefined
  readonly username?: string | undefined
  readonly password?: string | undefined
  readonly database?: number | undefined
  readonly tls?: RedisTls | undefined
  /**
   * Accepts a server whose eviction policy cannot be read. Set it after you have checked that the policy is
   * 'noeviction'.
   */
  readonly assumeNoEviction?: boolean | undefined
  /** How often idle cells are polled, in case a notification was lost. 10 s by default. */
  readonly safetyLook?: Duration | undefined
}

/** The result of `redis(options)`: pass it to `Tocsin.open` as `timetable`. */
export class RedisConfig {
  readonly kind = 'redis'
  readonly options: RedisOptions

  constructor(options: RedisOptions) {
    this.options = options
  }
}

export interface CheckedRedisOptions {
  readonly client: RedisClientOptions
  /** Host and port for messages, without the password. */
  readonly where: string
  readonly database: number
  /** The addresses of some nodes of a Redis Cluster; null for a single Redis. */
  readonly clusterNodes: readonly string[] | null
  readonly isLocal: boolean
  readonly isEncrypted: boolean
  readonly assumeNoEviction: boolean
  readonly lookMs: number
}

const FIELDS = ['url', 'cluster', 'username', 'password', 'database', 'tls', 'assumeNoEviction', 'safetyLook']
const TLS_FIELDS = ['ca', 'cert', 'key', 'servername']
const SAFETY_LOOK = '10s'
const DATABASE_MAX = 1_000_000
const LOCAL_HOSTS = ['localhost', '127.0.0.1', '[::1]', '::1']

export function checkRedisOptions(all: RedisOptions, connectTimeoutMs: number): CheckedRedisOptions {
  checkOptions(all, FIELDS, 'redis')
  const cluster = clusterOf(all)
  const given = cluster?.first ?? all
  const url = redisUrl(given.url)
  const isEncrypted = url.protocol === 'rediss:'
  if (given.tls !== undefined) {
    checkOptions(given.tls, TLS_FIELDS, 'redis.tls')
    if (!isEncrypted) throw badOption('tls', 'needs a URL that starts with rediss://')
  }
  for (const name of ['username', 'password', 'database'] as const)
    if (given[name] !== undefined && URL_PARTS[name](url) !== '')
      throw badOption(name, 'is given twice, in the URL and as an option; leave one out')
  const database =
    given.database === undefined ? databaseOf(url) : wholeNumber(given.database, 0, DATABASE_MAX, 'database')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port === '' ? 6379 : Number(url.port)
  const common = { host, port, connectTimeout: connectTimeoutMs }
  const username = text(given.username, 'username') ?? decoded(url.username)
  const password = text(given.password, 'password') ?? decoded(url.password)
  return {
    client: {
      ...(username === '' ? {} : { username }),
      ...(password === '' ? {} : { password }),
      ...(database === 0 ? {} : { database }),
      clientInfoTag: 'tocsin',
      socket: isEncrypted ? { ...common, tls: true, ...defined(given.tls ?? {}) } : common,
    } as RedisClientOptions,
    database,
    where: cluster?.nodes.join(', ') ?? `${url.hostname}:${port}`,
    clusterNodes: cluster?.nodes ?? null,
    isLocal: LOCAL_HOSTS.includes(url.hostname),
    isEncrypted,
    assumeNoEviction: given.assumeNoEviction === true,
    lookMs: Math.max(1, durationMs(given.safetyLook ?? SAFETY_LOOK, 'safetyLook')),
  }
}

const URL_PARTS = {
  username: (url: URL) => url.username,
  password: (url: URL) => url.password,
  database: (url: URL) => url.pathname.replace(/^\//, ''),
}

function redisUrl(text: unknown): URL {
  // Error messages never contain the URL, because it may contain a password.
  if (typeof text !== 'string')
    throw badOption('url', `expected redis://host:port, got ${describeValue(text)}`)
  const url = URL.canParse(text) ? new URL(text) : null
  if (url !== null && (url.search !== '' || url.hash !== ''))
    throw badOption(
      'url',
      "it has a part after '?' or '#', which means nothing here; in a password write # as %23, ? as %3F",
    )
  if (url === null || !['redis:', 'rediss:'].includes(url.protocol) || url.hostname === '')
    throw badOption('url', 'expected redis://user:password@host:port/database, or rediss:// for TLS')
  return url
}

function databaseOf(url: URL): number {
  const text = url.pathname.replace(/^\//, '')
  if (text === '') return 0
  const database = Number(text)
  // The message does not contain the path, which may be the rest of a password that contains a slash.
  if (!Number.isInteger(database) || database < 0)
    throw badOption(
      'url',
      'what comes after the host is no database; use a number, like redis://host:6379/1, and write / in a password as %2F',
    )
  return database
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw badOption(
      'url',
      'its user name or password is not percent-encoded; write % as %25, @ as %40, / as %2F',
    )
  }
}

/** Checks that a value is text. The error message does not contain the value, which may be a password. */
function text(value: unknown, field: string): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  throw badOption(field, 'expected text')
}

function defined(object: object): object {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}
