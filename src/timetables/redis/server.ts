/**
 * Checks whether a Redis server can keep timers: version, role, permissions, eviction policy. Runs when Redis is
 * opened.
 */
import { TocsinError } from '../../errors.ts'
import type { Caller } from './caller.ts'
import type { Client } from './connection.ts'
import type { Keys } from './keys.ts'
import { refusedError, sentinelError, unavailableError } from './driver-errors.ts'
import type { Server, Servers } from './servers.ts'

const OLDEST_MAJOR = 7

export interface ServerCheck {
  readonly caller: Caller
  readonly keys: Keys
  readonly servers: Servers
  readonly assumeNoEviction: boolean
  /** True if the options say that the server is a node of a Redis Cluster. */
  readonly isCluster: boolean
}

/** Throws an error if the server cannot be used. The message contains the reason and what to do. */
export async function checkServer(check: ServerCheck, server: Server): Promise<void> {
  const { caller, assumeNoEviction, isCluster } = check
  const { where } = server
  const ask = (...args: string[]) => caller.ask(server, args, 'open')
  const hello = await askHello(ask)
  checkVersion(hello.get('version'), where)
  if (hello.get('mode') === 'sentinel') throw sentinelError(where)
  const isReplica = hello.get('role') === 'replica' || hello.get('role') === 'slave'
  // A master of a cluster may have become a replica since its address was asked for.
  if (isReplica && isCluster)
    throw unavailableError(`Redis at ${where} has become a replica: a failover is under way; try again`)
  if (isReplica) throw refusedError(`Redis at ${where} is a read-only replica; connect to its primary`)
  if (hello.get('mode') === 'cluster' && !isCluster)
    throw refusedError(
      `Redis at ${where} is a node of a Redis Cluster; write redis+cluster://host:port,host:port with some of its nodes`,
    )
  if (hello.get('mode') !== 'cluster' && isCluster)
    throw refusedError(`Redis at ${where} is not a node of a Redis Cluster; write redis://host:port`)
  await checkRights(check, server)
  const policy = (await reportedPolicy(ask)) ?? (await configuredPolicy(ask))
  if (policy === 'noeviction') return
  if (policy === null && assumeNoEviction) return
  if (policy === null)
    throw refusedError(
      `the eviction policy of Redis at ${where} cannot be read, and with any but 'noeviction' a full Redis drops timers in silence. Allow INFO to this user; or look yourself, then open with redis({ …, assumeNoEviction: true })`,
    )
  throw refusedError(
    `Redis at ${where} has maxmemory-policy '${policy}': when it is full it drops timers in silence. Set it with CONFIG SET maxmemory-policy noeviction, and in redis.conf`,
  )
}

/**
 * Checks a server for a hint table: runs `checkServer`, and checks that INFO reports the replication id. Without the
 * replication id, a data loss would go unnoticed, and a table that is recorded as filled could be empty.
 */
export async function checkHintServer(check: ServerCheck, server: Server): Promise<void> {
  await checkServer(check, server)
  const info = await check.caller.ask(server, ['INFO', 'replication'], 'open').catch(unlessRefused)
  if (!/^master_replid:\w+/m.test(String(info)))
    throw refusedError(
      `Redis at ${server.where} does not report its replication id, so a ledger could not detect a restart. Allow INFO to this user, with ACL SETUSER … +info`,
    )
}

/**
 * Runs a read-only script and SPUBLISH, so that a missing permission for the keys or the channels is reported when
 * Redis is opened. Later, a missing permission would abort a script half-way.
 */
async function checkRights({ caller, keys, servers }: ServerCheck, server: Server): Promise<void> {
  const { where } = server
  // Each node of a cluster has its own users.
  const cell = keys.ofTopic('tocsin').find((one) => servers.of(one) === server)
  if (cell === undefined) return
  await caller.run('counts', cell, [])
  try {
    await caller.command(cell, ['SPUBLISH', cell.channel, ''], 'open')
  } catch (error) {
    if (!TocsinError.is(error, 'timetable-refused')) throw error
    throw refusedError(
      `this user of Redis at ${where} may not use the channels '${keys.pattern}'; allow it with ACL SETUSER … &${keys.pattern} +@pubsub`,
      error,
    )
  }
}

function checkVersion(version: string | undefined, where: string): void {
  if (version === undefined)
    throw refusedError(`what answers at ${where} does not say which version of Redis it is`)
  // Valkey continued the version numbers from 7.2.
  if (Number(version.split('.')[0]) >= OLDEST_MAJOR) return
  throw refusedError(
    `Redis at ${where} is version ${version}; ${OLDEST_MAJOR}.0 or newer is needed, or Valkey: older ones lack script flags and sharded channels`,
  )
}

type Ask = (...args: string[]) => Promise<unknown>

/** Returns version, mode and role of the server. Every user that may connect may also run HELLO. */
async function askHello(ask: Ask): Promise<Map<string, string>> {
  return new Map(pairsOf(await ask('HELLO')).map(([name, value]) => [name, String(value)]))
}

/** Returns the role of the server of a connection: 'master' or 'replica'. ROLE would need a permission. */
export async function roleOf(client: Client): Promise<string | undefined> {
  return (await askHello((...args) => client.sendCommand(args))).get('role')
}

/** Returns the eviction policy from INFO. Null if INFO does not contain it, or if this user may not run INFO. */
async function reportedPolicy(ask: Ask): Promise<string | null> {
  const info = await ask('INFO', 'memory').catch(unlessRefused)
  return /^maxmemory_policy:(\S+)/m.exec(String(info))?.[1] ?? null
}

/** Returns the eviction policy from CONFIG GET. Null if this user may not run CONFIG GET. */
async function configuredPolicy(ask: Ask): Promise<string | null> {
  const reply = await ask('CONFIG', 'GET', 'maxmemory-policy').catch(unlessRefused)
  const [, policy] = pairsOf(reply)[0] ?? []
  return typeof policy === 'string' ? policy : null
}

/** Returns null for an error reply, for example a missing permission. Throws if the server cannot be reached. */
function unlessRefused(error: unknown): null {
  if (TocsinError.is(error, 'timetable-unavailable') && error.details.redis === undefined) throw error
  return null
}

/** Returns the entries of a map reply. The reply is a flat list in RESP2, and a Map or an object in RESP3. */
export function pairsOf(reply: unknown): [string, unknown][] {
  if (reply instanceof Map) return [...reply].map(([name, value]) => [String(name), value])
  if (Array.isArray(reply))
    return Array.from({ length: Math.floor(reply.length / 2) }, (_, i) => [
      String(reply[2 * i]),
      reply[2 * i + 1],
    ])
  return reply !== null && typeof reply === 'object' ? Object.entries(reply) : []
}
