/**
 * Checks whether a Redis server can keep timers: version, role, permissions, eviction policy. Runs when Redis is
 * opened.
 */
import { TocsinError } from '../../errors.ts'
import type { Caller } from './caller.ts'
import type { Keys } from './keys.ts'
import { refusedError } from './driver-errors.ts'

const OLDEST_MAJOR = 7

/** Throws an error if the server cannot be used. The message contains the reason and what to do. */
export async function checkServer(
  caller: Caller,
  keys: Keys,
  where: string,
  assumeNoEviction: boolean,
): Promise<void> {
  const hello = await askHello(caller)
  checkVersion(hello.get('version'), where)
  if (hello.get('role') === 'replica' || hello.get('role') === 'slave')
    throw refusedError(`Redis at ${where} is a read-only replica; connect to its primary`)
  if (hello.get('mode') === 'cluster')
    throw refusedError(
      `Redis at ${where} is a node of a Redis Cluster, which this version does not support; use a standalone Redis`,
    )
  await checkRights(caller, keys, where)
  const policy = (await reportedPolicy(caller)) ?? (await configuredPolicy(caller))
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
export async function checkHintServer(
  caller: Caller,
  keys: Keys,
  where: string,
  assumeNoEviction: boolean,
): Promise<void> {
  await checkServer(caller, keys, where, assumeNoEviction)
  const info = await caller.command(['INFO', 'replication'], 'open').catch(unlessRefused)
  if (!/^master_replid:\w+/m.test(String(info)))
    throw refusedError(
      `Redis at ${where} does not report its replication id, so a ledger could not detect a restart. Allow INFO to this user, with ACL SETUSER … +info`,
    )
}

/**
 * Runs a read-only script and SPUBLISH, so that a missing permission for the keys or the channels is reported when
 * Redis is opened. Later, a missing permission would abort a script half-way.
 */
async function checkRights(caller: Caller, keys: Keys, where: string): Promise<void> {
  const cell = keys.of('tocsin', 0)
  await caller.run('counts', cell, [])
  try {
    await caller.command(['SPUBLISH', cell.channel, ''], 'open')
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

/** Returns version, mode and role of the server. Every user that may connect may also run HELLO. */
async function askHello(caller: Caller): Promise<Map<string, string>> {
  return new Map(
    pairsOf(await caller.command(['HELLO'], 'open')).map(([name, value]) => [name, String(value)]),
  )
}

/** Returns the eviction policy from INFO. Null if INFO does not contain it, or if this user may not run INFO. */
async function reportedPolicy(caller: Caller): Promise<string | null> {
  const info = await caller.command(['INFO', 'memory'], 'open').catch(unlessRefused)
  return /^maxmemory_policy:(\S+)/m.exec(String(info))?.[1] ?? null
}

/** Returns the eviction policy from CONFIG GET. Null if this user may not run CONFIG GET. */
async function configuredPolicy(caller: Caller): Promise<string | null> {
  const reply = await caller.command(['CONFIG', 'GET', 'maxmemory-policy'], 'open').catch(unlessRefused)
  const [, policy] = pairsOf(reply)[0] ?? []
  return typeof policy === 'string' ? policy : null
}

/** Returns null for an error reply, for example a missing permission. Throws if the server cannot be reached. */
function unlessRefused(error: unknown): null {
  if (TocsinError.is(error, 'timetable-unavailable') && error.details.redis === undefined) throw error
  return null
}

/** Returns the entries of a map reply. The reply is a flat list in RESP2, and a Map or an object in RESP3. */
function pairsOf(reply: unknown): [string, unknown][] {
  if (reply instanceof Map) return [...reply].map(([name, value]) => [String(name), value])
  if (Array.isArray(reply))
    return Array.from({ length: Math.floor(reply.length / 2) }, (_, i) => [
      String(reply[2 * i]),
      reply[2 * i + 1],
    ])
  return reply !== null && typeof reply === 'object' ? Object.entries(reply) : []
}
