/** The options of a Redis Cluster: the addresses of some nodes, from which the others are learned. */
import { describeValue } from '../../../errors.ts'
import { badOption, checkOptions } from '../../../values/options.ts'
import type { RedisOptions } from '../options.ts'
import { addressOf } from '../address.ts'

export interface RedisClusterOptions {
  /** 'host:port' of some nodes, at least one of which has to be there when Tocsin opens. */
  readonly nodes: readonly string[]
}

const SCHEME = /^(rediss?)\+cluster:\/\//i
const DEFAULT_PORT = 6379

/** Splits 'redis+cluster://user:password@host:port,host:port' into scheme, user information, nodes and the rest. */
const PARTS = /^(rediss?)\+cluster:\/\/((?:.*@)?)([^/?#]*)(.*)$/is

/** Returns true for 'redis+cluster://…' and 'rediss+cluster://…'. */
export function isClusterUrl(text: unknown): boolean {
  return typeof text === 'string' && SCHEME.test(text)
}

/**
 * Returns the nodes of a cluster, and the same options for its first node alone. Returns null if the options are for a
 * single Redis.
 */
export function clusterOf(
  given: RedisOptions,
): { readonly nodes: readonly string[]; readonly first: RedisOptions } | null {
  const { cluster, url, ...others } = given
  if (cluster === undefined && !isClusterUrl(url)) return null
  if (cluster !== undefined && url !== undefined)
    throw badOption('url', 'is given together with cluster; leave one of them out')
  if (given.database !== undefined && given.database !== 0)
    throw badOption('database', 'a Redis Cluster has database 0 only; leave it out')
  if (cluster !== undefined) {
    checkOptions(cluster, ['nodes'], 'redis.cluster')
    const nodes = checkedNodes(cluster.nodes, 'cluster.nodes')
    const scheme = given.tls === undefined ? 'redis' : 'rediss'
    return { nodes, first: { ...others, url: `${scheme}://${nodes[0]}` } }
  }
  const [, scheme = '', user = '', hosts = '', rest = ''] = PARTS.exec(url as string) ?? []
  if (rest !== '' && rest !== '/')
    throw badOption(
      'url',
      'a Redis Cluster has no databases: nothing may follow the nodes; write redis+cluster://host:port,host:port',
    )
  const nodes = checkedNodes(hosts.split(','), 'url')
  return { nodes, first: { ...others, url: `${scheme.toLowerCase()}://${user}${nodes[0]}` } }
}

function checkedNodes(nodes: unknown, field: string): string[] {
  if (!Array.isArray(nodes) || nodes.length === 0)
    throw badOption(field, `expected ['host:port', …], got ${describeValue(nodes)}`)
  return nodes.map((node) => {
    const url =
      typeof node === 'string' && URL.canParse(`redis://${node}`) ? new URL(`redis://${node}`) : null
    if (url === null || url.hostname === '' || url.username !== '' || url.pathname.length > 1)
      // The message does not contain the node: in a URL it may be a part of the password.
      throw badOption(
        field,
        "a node is no 'host:port'; write 'host:port', several separated by commas in a URL",
      )
    return addressOf(url.hostname, url.port === '' ? DEFAULT_PORT : Number(url.port))
  })
}
