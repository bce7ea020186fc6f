/**
 * Parses URLs with the scheme redis+sentinel:// or rediss+sentinel://. They may name several hosts, so the class URL
 * cannot parse them. Error messages never contain a part of the URL, because any part may be the rest of a password
 * with an unescaped character.
 */
import type { Endpoint } from './address.ts'
import { badOption } from '../../values/options.ts'
import { decoded } from './login.ts'

const SCHEME = /^rediss?\+sentinel:/i
const PARTS =
  /^(rediss?)\+sentinel:\/\/([^/?#]*@)?([^/?#@]*)(?:\/([^/?#]*))?(?:\/([^/?#]*))?\/?(?:\?([^#]*))?$/i
const NODE = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i
/** The characters that Sentinel allows in a name. */
const NAME = /^[\w.-]+$/
const PARAMETERS = ['sentinelUsername', 'sentinelPassword'] as const
const SENTINEL_PORT = 26_379
const PORT_MAX = 65_535
const ESCAPES = 'in a password write / as %2F, ? as %3F, @ as %40'
const EXAMPLE = 'redis+sentinel://user:password@host:26379,host2:26379/name/database'

export interface SentinelUrl {
  readonly nodes: readonly Endpoint[]
  /** The name of the primary. */
  readonly name: string
  readonly isEncrypted: boolean
  /** A URL of a standalone Redis with the same login, database and scheme. Its host means nothing. */
  readonly ofRedis: string
  /** Decoded; '' if there is none. */
  readonly sentinelUsername: string
  readonly sentinelPassword: string
}

export function isSentinelUrl(url: unknown): url is string {
  return typeof url === 'string' && SCHEME.test(url)
}

export function parseSentinelUrl(text: string): SentinelUrl {
  if (text.includes('#'))
    throw badOption('url', "it has a '#', which means nothing here; in a password write %23")
  const [, scheme = '', login = '', hosts = '', name = '', database = '', query = ''] = PARTS.exec(text) ?? []
  const nodes = hosts.split(',').flatMap((host) => nodeOf(host) ?? [])
  const ofRedis = `${scheme.toLowerCase()}://${login}sentinel/${database}`
  if (nodes.length < hosts.split(',').length || !URL.canParse(ofRedis))
    throw badOption('url', `expected ${EXAMPLE}; ${ESCAPES}`)
  if (!isName(name))
    throw badOption(
      'url',
      `after the hosts, write the name of the primary, as in 'sentinel monitor' of sentinel.conf: ${EXAMPLE}; ${ESCAPES}`,
    )
  return {
    nodes,
    name,
    isEncrypted: scheme.toLowerCase() === 'rediss',
    ofRedis,
    ...parametersOf(query),
  }
}

/** Parses 'host:port' or 'host'. Null if the text is neither. */
export function nodeOf(text: string): Endpoint | null {
  const [all, ipv6, host = ipv6, port = SENTINEL_PORT] = NODE.exec(text) ?? []
  if (all === undefined || host === undefined || Number(port) < 1 || Number(port) > PORT_MAX) return null
  return { host, port: Number(port) }
}

/** Returns whether Sentinel may have a primary of this name. */
export function isName(name: unknown): name is string {
  return typeof name === 'string' && NAME.test(name)
}

function parametersOf(query: string): { sentinelUsername: string; sentinelPassword: string } {
  const found = { sentinelUsername: '', sentinelPassword: '' }
  for (const part of query.split('&').filter(Boolean)) {
    // Not URLSearchParams, which reads a plus sign in a password as a space.
    const equals = part.includes('=') ? part.indexOf('=') : part.length
    const name = PARAMETERS.find((one) => one === part.slice(0, equals))
    if (name === undefined || found[name] !== '')
      throw badOption(
        'url',
        `after '?' it may have ${PARAMETERS.join(' and ')}, once each; in a password write ? as %3F, & as %26`,
      )
    found[name] = decoded(part.slice(equals + 1))
  }
  return found
}
