/** The options of `redis()` that are about Sentinel, and the function that checks them. */
import type { RedisClientOptions } from '@redis/client'
import { describeValue } from '../../errors.ts'
import { badOption, checkOptions } from '../../values/options.ts'
import { addressOf, type Endpoint } from './address.ts'
import { checkTls, encrypted, loginOf, text } from './login.ts'
import type { RedisOptions, RedisTls } from './options.ts'
import { isName, isSentinelUrl, nodeOf, parseSentinelUrl, type SentinelUrl } from './sentinel-url.ts'

/** How to find the primary through Sentinel. */
export interface SentinelOptions {
  /** The Sentinels, as 'host:port' or 'host'; port 26379 by default. Leave it out if the URL has the hosts. */
  readonly nodes?: readonly string[] | undefined
  /** The name of the primary, as in 'sentinel monitor' of sentinel.conf. Leave it out if the URL has the name. */
  readonly name?: string | undefined
  /** The user of the Sentinels, which have users and passwords of their own. */
  readonly username?: string | undefined
  readonly password?: string | undefined
  /** TLS to the Sentinels: by default as to Redis. `false` for Sentinels without TLS. */
  readonly tls?: RedisTls | false | undefined
}

export interface CheckedSentinel {
  readonly nodes: readonly Endpoint[]
  readonly name: string
  /** The options of the connections to the Sentinels, except for host and port. */
  readonly client: RedisClientOptions
}

const FIELDS = ['nodes', 'name', 'username', 'password', 'tls']

/**
 * Returns the Sentinels, their description for messages, and options of a standalone Redis with the same login, database
 * and TLS, whose host means nothing. Returns null if the options do not name Sentinels.
 */
export function sentinelOf(
  given: RedisOptions,
): { readonly sentinel: CheckedSentinel; readonly where: string; readonly ofRedis: RedisOptions } | null {
  const { sentinel, tls, url, ...others } = given
  if (sentinel === undefined && !isSentinelUrl(url)) return null
  if (sentinel !== undefined) checkOptions(sentinel, FIELDS, 'redis.sentinel')
  if (tls !== undefined) checkTls(tls, 'redis.tls')
  const parts = partsOf(given, sentinel ?? {})
  const { nodes, name } = parts
  return {
    sentinel: { nodes, name, client: clientOf(parts, sentinel ?? {}, tls) },
    where: `${name} through Sentinel at ${nodes.map(({ host, port }) => addressOf(host, port)).join(', ')}`,
    ofRedis: { ...others, tls, url: parts.ofRedis },
  }
}

/** Returns the options of the connections to the Sentinels. */
function clientOf(parts: SentinelUrl, given: SentinelOptions, tls: RedisTls | undefined): RedisClientOptions {
  const username = oneOf(given.username, parts.sentinelUsername, 'sentinel.username')
  const password = oneOf(given.password, parts.sentinelPassword, 'sentinel.password')
  if (given.tls !== undefined && given.tls !== false) checkTls(given.tls, 'redis.sentinel.tls')
  const isEncrypted = given.tls === undefined ? parts.isEncrypted : given.tls !== false
  const socket = isEncrypted ? encrypted(given.tls === undefined ? tls : given.tls || {}) : {}
  return { ...loginOf(username, password), clientInfoTag: 'tocsin', socket } as RedisClientOptions
}

function partsOf({ url, tls }: RedisOptions, { nodes, name }: SentinelOptions): SentinelUrl {
  if (isSentinelUrl(url)) {
    for (const [field, value] of Object.entries({ nodes, name }))
      if (value !== undefined) throw givenTwice(`sentinel.${field}`)
    return parseSentinelUrl(url)
  }
  if (url !== undefined)
    throw badOption(
      'sentinel',
      'needs a URL that starts with redis+sentinel:// or rediss+sentinel://, or nodes and name instead of a URL',
    )
  const isEncrypted = tls !== undefined
  return {
    nodes: checkNodes(nodes),
    name: checkName(name),
    isEncrypted,
    ofRedis: isEncrypted ? 'rediss://sentinel' : 'redis://sentinel',
    sentinelUsername: '',
    sentinelPassword: '',
  }
}

function checkNodes(given: unknown): Endpoint[] {
  if (!Array.isArray(given) || given.length === 0)
    throw badOption('sentinel.nodes', "expected the Sentinels, like ['host:26379', 'host2:26379']")
  return given.map((one: unknown) => {
    const node = typeof one === 'string' ? nodeOf(one) : null
    // The message does not contain the value, which may be a URL with a password.
    if (node === null) throw badOption('sentinel.nodes', "expected 'host:port' or 'host' for each Sentinel")
    return node
  })
}

function checkName(given: unknown): string {
  if (isName(given)) return given
  throw badOption(
    'sentinel.name',
    `expected the name of the primary, as in 'sentinel monitor' of sentinel.conf, got ${describeValue(given)}`,
  )
}

/** Returns the text that is given, as an option or in the URL. '' if there is none. */
function oneOf(option: unknown, inUrl: string, field: string): string {
  if (option !== undefined && inUrl !== '') throw givenTwice(field)
  return text(option, field) ?? inUrl
}

function givenTwice(field: string): Error {
  return badOption(field, 'is given twice, in the URL and as an option; leave one out')
}
