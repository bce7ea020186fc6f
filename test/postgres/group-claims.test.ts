/** The statement that claims whole calls, beside transactions that change its rows meanwhile. */
import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Ledger } from '../../src/ledger.ts'
import { WRITES } from '../../src/ledgers/postgres/statements/writes.ts'
import { entry, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { untilLockWaiters } from './lock-waiters.ts'
import { openLedger } from './open-ledger.ts'

const TOPIC = 'groups'
const KEYS = keysOfOneCell(3)
const [A = '', B = '', C = ''] = KEYS
const LEASE_MS = 60_000
const STAMP = 7

let server: PostgresServer
let url: string
let ledger: Ledger
beforeAll(async () => {
  server = await startPostgres()
  url = await server.createDatabase()
  ledger = await openLedger(url)
}, 60_000)
afterAll(async () => {
  await ledger.close()
  await server.stop()
}, 60_000)
beforeEach(async () => {
  await ledger.schedule(
    TOPIC,
    KEYS.map((key) => entry(key)),
    0,
  )
  await sql(url, 'UPDATE tocsin.live SET session = NULL, stamp = NULL, lease_ms = NULL, ring_ms = due_ms')
})

/** Sends the statement for all keys, and returns the claimed ones. It may wait for long: the tests are about what follows. */
async function claimOn(client: pg.Client, text: string): Promise<string[]> {
  const [topic] = await sql<{ id: number }>(url, 'SELECT id FROM tocsin.topic WHERE name = $1', [TOPIC])
  const nowMs = await ledger.nowMs()
  const keys = KEYS.join('\x1e')
  const values = [topic?.id, [place(A).cell], [keys], [STAMP], [LEASE_MS], [nowMs], 1, 10_000, false]
  const { rows } = await client.query<{ keys: string }>(text, values)
  return rows.flatMap((row) => row.keys.split('\x1e'))
}

/** Claims while another transaction has changed A, and commits that transaction once the claim waits. */
async function claimBeside(change: string): Promise<string[]> {
  await using other = await connected(url)
  await using client = await connected(url)
  await other.query('BEGIN')
  await other.query(change, [A])
  const claimed = claimOn(client, CLAIM)
  await untilLockWaiters(url, 1)
  await other.query('COMMIT')
  return await claimed
}

const CLAIM = WRITES.claimGroups.text
const MOVED = 'UPDATE tocsin.live SET ring_ms = ring_ms + 3600000 WHERE key = $1'
const TAKEN = 'UPDATE tocsin.live SET session = 99, stamp = 1, lease_ms = 9000000000000 WHERE key = $1'
const SUSPECT = 'UPDATE tocsin.live SET lost = 2 WHERE key = $1'
const REMOVED = 'DELETE FROM tocsin.live WHERE key = $1'

describe('a row that another transaction changed while the claim waited for it', () => {
  test.each([
    ['its time was moved', MOVED],
    ['another process claimed it', TAKEN],
    ['it became a suspect', SUSPECT],
    ['it was cancelled', REMOVED],
  ])('%s: it is not claimed, the others are', async (_, change) => {
    expect((await claimBeside(change)).toSorted()).toEqual([B, C].toSorted())
  })
})

describe('a row that had changed before the claim', () => {
  const changes = [
    ['its time was moved', MOVED, ' AND l.ring_ms + 0 <= i.rang_ms'],
    ['another process claimed it', TAKEN, ' AND l.session IS NULL'],
    ['it became a suspect', SUSPECT, ' AND l.lost < 2'],
  ] as const

  test.each(changes)('%s: it is not claimed', async (_, change) => {
    await sql(url, change, [A])
    await using client = await connected(url)
    expect((await claimOn(client, CLAIM)).toSorted()).toEqual([B, C].toSorted())
  })

  test.each(changes)(
    '%s: a planted bug is seen, a statement without the condition',
    async (_, change, condition) => {
      const planted = CLAIM.replace(condition, '')
      expect(planted).not.toBe(CLAIM)
      await sql(url, change, [A])
      await using client = await connected(url)
      expect(await claimOn(client, planted)).toContain(A)
    },
  )
})

test('a row that stays locked is answered as held, and its neighbours are claimed', async () => {
  await using other = await connected(url)
  await other.query('BEGIN')
  await other.query('SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE', [A])
  const request = { stamp: STAMP, leaseMs: LEASE_MS, nowMs: await ledger.nowMs(), alone: false }
  const verdicts = await ledger.claim(
    TOPIC,
    request,
    KEYS.map((key) => place(key)),
  )
  expect(verdicts.map(({ kind }) => kind)).toEqual(['held', 'ours', 'ours'])
  await other.query('ROLLBACK')
  const again = await ledger.claim(
    TOPIC,
    request,
    KEYS.map((key) => place(key)),
  )
  expect(again.map(({ kind }) => kind)).toEqual(['ours', 'ours', 'ours'])
})

test('payloads that are too large for one answer: nothing is claimed by the statement', async () => {
  await sql(url, `UPDATE tocsin.live SET body = '"' || repeat('x', 600000) || '"'`)
  await using client = await connected(url)
  const error = await claimOn(client, CLAIM).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'TC012' })
  expect(await sql(url, 'SELECT key FROM tocsin.live WHERE session IS NOT NULL')).toEqual([])
  const request = { stamp: STAMP, leaseMs: LEASE_MS, nowMs: await ledger.nowMs(), alone: false }
  const verdicts = await ledger.claim(
    TOPIC,
    request,
    KEYS.map((key) => place(key)),
  )
  expect(verdicts.map(({ kind }) => kind)).toEqual(['ours', 'ours', 'full'])
})
