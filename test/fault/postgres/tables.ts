/** The tables of a ledger and the hints of a Redis, read past everything that is under test. */
import { CELLS } from '../../../src/values/cell.ts'
import { sql } from '../../real-servers/postgres-server.ts'
import type { RedisServer } from '../../real-servers/redis-server.ts'
import { ask } from '../../real-servers/resp.ts'

const ANSWER_WITHIN_MS = 20_000
const LANES = ['high', 'normal', 'low', 'suspects']
const DIFFERENCES_SHOWN = 5

export interface LiveRow {
  readonly ringMs: number
  /** Null if it is not claimed. */
  readonly leaseMs: number | null
}

/** What waits or is claimed, by key. */
export async function liveRows(url: string, topic: string): Promise<Map<string, LiveRow>> {
  const rows = await sql<{ key: string; ring: string; lease: string | null }>(
    url,
    `SELECT key, ring_ms AS ring, CASE WHEN session IS NULL THEN NULL ELSE lease_ms END AS lease
     FROM tocsin.live WHERE topic = (SELECT id FROM tocsin.topic WHERE name = $1)`,
    [topic],
  )
  return new Map(
    rows.map(({ key, ring, lease }) => [
      key,
      { ringMs: Number(ring), leaseMs: lease === null ? null : Number(lease) },
    ]),
  )
}

/** How many of all topics wait or are claimed. */
export async function liveCount(url: string): Promise<number> {
  const [row] = await sql<{ count: string }>(url, 'SELECT count(*) AS count FROM tocsin.live')
  return Number(row!.count)
}

/** Under this the hints of a ledger lie in Redis. */
export async function hintPrefix(url: string): Promise<string> {
  const [row] = await sql<{ value: string }>(url, "SELECT value FROM tocsin.meta WHERE name = 'id'")
  return `toc:${row!.value}`
}

export interface Hints {
  /** By key, when it rings. */
  readonly waiting: Map<string, number>
  readonly held: Set<string>
}

export async function hintsIn(redis: RedisServer, prefix: string, topic: string): Promise<Hints> {
  const cells = Array.from({ length: CELLS }, (_, cell) => `${prefix}:{${topic}:${cell}}`)
  const names = cells.flatMap((cell) => [...LANES.map((lane) => `${cell}:${lane}`), `${cell}:prepare`])
  const replies = await ask(
    { path: redis.socket },
    names.map((name) => ['ZRANGE', name, '0', '-1', 'WITHSCORES']),
    ANSWER_WITHIN_MS,
  )
  const waiting = new Map<string, number>()
  const held = new Set<string>()
  for (const [i, reply] of replies.entries()) {
    if (!Array.isArray(reply)) throw new Error(`ZRANGE ${names[i]}: ${String(reply)}`)
    for (let at = 0; at < reply.length; at += 2) {
      const key = String(reply[at])
      // The last three digits count failures.
      if (names[i]!.endsWith(':prepare')) held.add(key)
      else waiting.set(key, Math.floor(Number(reply[at + 1]) / 1_000))
    }
  }
  for (const key of await keysInRecords(redis, cells)) held.add(key)
  return { waiting, held }
}

/** The keys that claims hold as records: the fields 'k<stamp>' have them, each followed by a line end. */
async function keysInRecords(redis: RedisServer, cells: readonly string[]): Promise<string[]> {
  const replies = await ask(
    { path: redis.socket },
    cells.map((cell) => ['HGETALL', `${cell}:claims`]),
    ANSWER_WITHIN_MS,
  )
  return replies.flatMap((reply) => {
    if (!Array.isArray(reply)) throw new Error(`HGETALL: ${String(reply)}`)
    const texts = reply.filter((_, i) => i % 2 === 1 && /^k\d+$/.test(String(reply[i - 1])))
    return texts.flatMap((text) =>
      String(text)
        .split('\n')
        .filter((key) => key !== ''),
    )
  })
}

/** What the timetable has and the ledger has not, or the other way, task by task. Empty: they are the same. */
export function differences(rows: ReadonlyMap<string, LiveRow>, { waiting, held }: Hints): string[] {
  const found: string[] = []
  for (const [key, { ringMs, leaseMs }] of rows) {
    const hintMs = waiting.get(key)
    if (leaseMs === null) {
      if (hintMs !== ringMs) found.push(`${key} rings at ${ringMs}, by its hint at ${hintMs}`)
      if (held.has(key)) found.push(`${key} waits, and its hint is held`)
    } else if (held.has(key) ? hintMs !== undefined : hintMs === undefined || hintMs > leaseMs) {
      // It may ring before its lease is over, in vain; but not after.
      found.push(`${key} is claimed until ${leaseMs}, and its hint rings at ${hintMs}`)
    }
  }
  for (const key of [...waiting.keys(), ...held])
    if (!rows.has(key)) found.push(`${key} is not in the ledger`)
  return found
}

export function shown(found: readonly string[]): string {
  return [...found.slice(0, DIFFERENCES_SHOWN), `${found.length} in all`].join('\n')
}
