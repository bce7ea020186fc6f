/** What the Redis at the other end is, and whether timers can be entrusted to it. */
import type { Caller } from './caller.ts'
import { refusal } from './trouble.ts'

const OLDEST_MAJOR = 7

/** Throws what is wrong with it and what to do. */
export async function checkServer(caller: Caller, where: string, assumeNoEviction: boolean): Promise<void> {
  const info = await readInfo(caller)
  checkVersion(info, where)
  if (info.get('role') === 'slave')
    throw refusal(
      `Redis at ${where} is a read-only replica of ${info.get('master_host') ?? 'another'}:${info.get('master_port') ?? ''}; connect to the primary`,
    )
  if (info.get('cluster_enabled') === '1')
    throw refusal(
      `Redis at ${where} is a node of a Redis Cluster, which this version does not speak to; use a standalone Redis`,
    )
  const policy = info.get('maxmemory_policy') ?? (await configuredPolicy(caller))
  if (policy === 'noeviction') return
  if (policy === null && assumeNoEviction) return
  if (policy === null)
    throw refusal(
      `the eviction policy of Redis at ${where} cannot be read, and with any but 'noeviction' a full Redis drops timers in silence. Check it, then open with redis({ …, assumeNoEviction: true })`,
    )
  throw refusal(
    `Redis at ${where} has maxmemory-policy '${policy}': when it is full it drops timers in silence. Set it with CONFIG SET maxmemory-policy noeviction, and in redis.conf`,
  )
}

function checkVersion(info: ReadonlyMap<string, string>, where: string): void {
  // Valkey tells its own version beside the Redis version it is compatible with.
  if (info.has('valkey_version')) return
  const version = info.get('redis_version')
  const major = Number(version?.split('.')[0])
  if (version === undefined)
    throw refusal(`what answers at ${where} does not say which version of Redis it is (INFO server)`)
  if (!(major >= OLDEST_MAJOR))
    throw refusal(
      `Redis at ${where} is version ${version}; ${OLDEST_MAJOR}.0 or newer is needed, or Valkey: older ones lack script flags and sharded channels`,
    )
}

async function readInfo(caller: Caller): Promise<Map<string, string>> {
  const text = String(await caller.command(['INFO'], 'open'))
  const lines = text.split(/\r?\n/).filter((line) => line.includes(':'))
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]))
}

/** Null where it may not be asked. */
async function configuredPolicy(caller: Caller): Promise<string | null> {
  try {
    const reply = await caller.command(['CONFIG', 'GET', 'maxmemory-policy'], 'open')
    if (Array.isArray(reply)) return typeof reply[1] === 'string' ? reply[1] : null
    if (reply instanceof Map) return String(reply.get('maxmemory-policy') ?? '') || null
    const policy = (reply as Record<string, unknown> | null)?.['maxmemory-policy']
    return typeof policy === 'string' ? policy : null
  } catch {
    return null
  }
}
