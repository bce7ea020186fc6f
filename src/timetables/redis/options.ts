/** The options of `redis()` and the functions that check them. */
import type { RedisClientOptions } from '@redis/client'
import { type Duration, durationMs } from '../../values/duration.ts'
import { describeValue } from '../../errors.ts'
import { badOption, checkOptions, wholeNumber } from '../../values/options.ts'
import { clusterOf, type RedisClusterOptions } from './cluster/cluster-options.ts'
import { checkTls, decoded, encrypted, loginOf, text } from './login.ts'
import { type CheckedSentinel, sentinelOf, type SentinelOptions } from './sentinel-options.ts'

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
   * nodes of a Redis Cluster. redis+sentinel://user:password@host:26379,host:26379/name/0 names Sentinels and a primary;
   * user and password are those of Redis.
   */
  readonly url?: string | undefined
  /** A Redis Cluster, instead of `url`. It is used with TLS if `tls` is given. */
  readonly cluster?: RedisClusterOptions | undefined
  /** Sentinels, instead of `url` or in addition to it. Without `url`, TLS is used if `tls` is given. */
  readonly sentinel?: SentinelOptions | undefined
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
  /** Not null: the primary is found through Sentinel. Then `client` has no host and no port. */
  readonly sentinel: CheckedSentinel | null
  readonly isLocal: boolean
  readonly isEncrypted: boolean
  readonly assumeNoEviction: boolean
  readonly lookMs: number
}

const FIELDS = [
  'url',
  'cluster',
  'sentinel',
  'username',
  'password',
  'database',
  'tls',
  'assumeNoEviction',
  'safetyLook',
]
const SAFETY_LOOK = '10s'
const DATABASE_MAX = 1_000_000
const LOCAL_HOSTS = ['localhost', '127.0.0.1', '[::1]', '::1']

export function checkRedisOptions(all: RedisOptions, connectTimeoutMs: number): CheckedRedisOptions {
  checkOptions(all, FIELDS, 'redis')
  const cluster = clusterOf(all)
  if (cluster !== null && all.sentinel !== undefined)
    throw badOption('sentinel', 'is given together with a Redis Cluster; leave one of them out')
  const through = cluster === null ? sentinelOf(all) : null
  const given = cluster?.first ?? through?.ofRedis ?? all
  const url = redisUrl(given.url)
  const isEncrypted = url.protocol === 'rediss:'
  if (given.tls !== undefined) {
    checkTls(given.tls, 'redis.tls')
    if (!isEncrypted)
      throw badOption(
        'tls',
        'needs a URL that starts with rediss://, rediss+sentinel:// or rediss+cluster://',
      )
  }
  for (const name of ['username', 'password', 'database'] as const)
    if (given[name] !== undefined && URL_PARTS[name](url) !== '')
      throw badOption(name, 'is given twice, in the URL and as an option; leave one out')
  const database =
    given.database === undefined ? databaseOf(url) : wholeNumber(given.database, 0, DATABASE_MAX, 'database')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = url.port === '' ? 6379 : Number(url.port)
  const at = through === null ? { host, port } : {}
  const common = { ...at, connectTimeout: connectTimeoutMs }
  const username = text(given.username, 'username') ?? decoded(url.username)
  const password = text(given.password, 'password') ?? decoded(url.password)
  return {
    client: {
      ...loginOf(username, password),
      ...(database === 0 ? {} : { database }),
      clientInfoTag: 'tocsin',
      socket: isEncrypted ? { ...common, ...encrypted(given.tls) } : common,
    } as RedisClientOptions,
    database,
    where: cluster?.nodes.join(', ') ?? through?.where ?? `${url.hostname}:${port}`,
    clusterNodes: cluster?.nodes ?? null,
    sentinel: through?.sentinel ?? null,
    isLocal: isLocalHost(url.hostname),
    isEncrypted,
    assumeNoEviction: given.assumeNoEviction === true,
    lookMs: Math.max(1, durationMs(given.safetyLook ?? SAFETY_LOOK, 'safetyLook')),
  }
}

export function isLocalHost(host: string): boolean {
  return LOCAL_HOSTS.includes(host)
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
    throw badOption(
      'url',
      'expected redis://user:password@host:port/database, or rediss:// for TLS; through Sentinel, redis+sentinel://host:26379,host:26379/name',
    )
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
      'what comes after the host is no database; use a number, like redis://host:6379/1, and write / in a password as %2F. The name of a primary needs redis+sentinel://',
    )
  return database
}
