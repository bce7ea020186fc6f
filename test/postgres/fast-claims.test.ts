/** Which commits of a topic with `fastClaims` wait for the disk. The WAL writer of this server writes every ten seconds. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Ledger } from '../../src/ledger.ts'
import { WRITES } from '../../src/ledgers/postgres/statements/writes.ts'
import { entry, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { openLedger } from './open-ledger.ts'

const TOPIC = 'fast'
const OTHER = 'other'
const [A = '', B = ''] = keysOfOneCell(2)
const LEASE_MS = 60_000

let server: PostgresServer
let url: string
let ledger: Ledger
let isFast = true
let stamp = 0
beforeAll(async () => {
  server = await startPostgres({ config: { wal_writer_delay: '10s', autovacuum: 'off' } })
  url = await server.createDatabase()
  // Calls one after another use one connection: what a statement sets beyond its own transaction reaches the next one.
  ledger = await openLedger(url, { connections: 2 })
  ledger.configure(
    TOPIC,
    () => ({ slotBy: 'key', mergeMs: 0, keepsEnded: true, fastClaims: isFast }),
    () => null,
  )
}, 60_000)
afterAll(async () => {
  await ledger.close()
  await server.stop()
}, 60_000)
beforeEach(async () => {
  isFast = true
  for (const topic of [TOPIC, OTHER]) await ledger.schedule(topic, [entry(A), entry(B)], 0)
})

/** Returns true if all that was written is in the file of the log: the last commit waited for it. */
async function isFlushed(): Promise<boolean> {
  const [row] = await sql<{ flushed: boolean }>(
    url,
    'SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn() AS flushed',
  )
  return row?.flushed === true
}

async function claim(topic: string, keys: readonly string[], leaseMs = LEASE_MS): Promise<string[]> {
  const nowMs = await ledger.nowMs()
  const request = { stamp: ++stamp, leaseMs, nowMs, alone: false }
  const verdicts = await ledger.claim(
    topic,
    request,
    keys.map((key) => place(key)),
  )
  return verdicts.map(({ kind }) => kind)
}

test('a claim does not wait, and the writes after it on the same connection do', async () => {
  expect(await isFlushed()).toBe(true)
  expect(await claim(TOPIC, [A])).toEqual(['ours'])
  expect(await isFlushed()).toBe(false)
  await ledger.settle(TOPIC, [{ ...place(A), stamp, outcome: { kind: 'done' } }])
  expect(await isFlushed()).toBe(true)
  expect(await claim(TOPIC, [B])).toEqual(['ours'])
  expect(await isFlushed()).toBe(false)
  await ledger.extend(TOPIC, [place(B)], stamp, LEASE_MS)
  expect(await isFlushed()).toBe(true)
})

test.each<[string, () => Promise<unknown>]>([
  ['schedule', () => ledger.schedule(TOPIC, [entry(A)], 0)],
  ['cancel', () => ledger.cancel(TOPIC, [place(B)])],
  ['reschedule', () => ledger.reschedule(TOPIC, [place(B)], { kind: 'delay', ms: 0 }, 0)],
])('a %s after a claim waits', async (_, write) => {
  await claim(TOPIC, [A])
  expect(await isFlushed()).toBe(false)
  await write()
  expect(await isFlushed()).toBe(true)
})

test('a claim of a topic without the setting waits', async () => {
  expect(await claim(OTHER, [A])).toEqual(['ours'])
  expect(await isFlushed()).toBe(true)
  isFast = false
  expect(await claim(TOPIC, [A])).toEqual(['ours'])
  expect(await isFlushed()).toBe(true)
})

test('a claim beside a locked row does not wait, either', async () => {
  await using other = await connected(url)
  await other.query('BEGIN')
  await other.query('SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE', [A])
  expect(await claim(TOPIC, [A, B])).toEqual(['held', 'ours'])
  expect(await isFlushed()).toBe(false)
  await other.query('ROLLBACK')
})

test('a claim that counts a lost lease waits', async () => {
  await claim(TOPIC, [A], 1)
  await sql(url, 'SELECT pg_sleep(0.01)')
  expect(await claim(TOPIC, [A])).toEqual(['ours'])
  expect(await isFlushed()).toBe(true)
})

test('no other statement leaves out the wait', () => {
  const fast = Object.entries(WRITES).filter(([, { text }]) => text.includes('synchronous_commit'))
  expect(fast.map(([name]) => name).toSorted()).toEqual(['claim', 'claimGroups'])
})
