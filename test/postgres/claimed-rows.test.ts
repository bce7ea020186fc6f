/** Tasks end where their claim left their rows (ctid). What if another row is there by now, or none? */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Ledger } from '../../src/ledger.ts'
import { WRITES } from '../../src/ledgers/postgres/statements/writes.ts'
import { entry, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { openLedger } from './open-ledger.ts'

const KEYS = keysOfOneCell(3)
const [A = '', B = '', C = ''] = KEYS
const { cell } = place(A)
const LEASE_MS = 60_000
const STAMP = 7
const DONE = { kind: 'done' } as const

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

async function claim(topic: string, keys = KEYS): Promise<void> {
  await ledger.schedule(
    topic,
    keys.map((key) => entry(key)),
    0,
  )
  const asked = { stamp: STAMP, leaseMs: LEASE_MS, nowMs: await ledger.nowMs(), alone: false }
  const verdicts = await ledger.claim(
    topic,
    asked,
    keys.map((key) => place(key)),
  )
  expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map(() => 'ours'))
}

async function settle(topic: string, keys: readonly string[]): Promise<string[]> {
  const settlements = keys.map((key) => ({ key, cell, stamp: STAMP, outcome: DONE }))
  return (await ledger.settle(topic, settlements)).map(({ answer }) => answer)
}

const rowsOf = (topic: string) =>
  sql<{ key: string; ctid: string; topic: number }>(
    url,
    'SELECT key, ctid::text, topic FROM tocsin.live WHERE topic = (SELECT id FROM tocsin.topic WHERE name = $1) ORDER BY key',
    [topic],
  )
const keysLeft = async (topic: string) => (await rowsOf(topic)).map(({ key }) => key)

/** Sends the statement that ends tasks, with places of the test's choice. */
async function finishAt(
  topicId: number,
  key: string,
  ctid: string,
  { stamp = STAMP, session = ledger.sessionOf(cell) } = {},
): Promise<unknown> {
  await using client = await connected(url)
  const values = [topicId, [cell], [key], [stamp], [1], [1], session, 1_000, [ctid], null]
  const { rows } = await client.query<unknown[]>({ text: WRITES.finish.text, values, rowMode: 'array' })
  return rows[0]?.[0]
}

describe('the place of a row', () => {
  test('has another task of the same claim by now: that task stays', async () => {
    await claim('reused')
    const rows = await rowsOf('reused')
    const ofB = rows.find(({ key }) => key === B)
    expect(await finishAt(ofB?.topic ?? 0, A, ofB?.ctid ?? '')).toBe('')
    expect(await keysLeft('reused')).toEqual(KEYS.toSorted())
  })

  test('has a task of the same key, cell, session and stamp, but of another topic: that task stays', async () => {
    await claim('mine', [A])
    await claim('theirs', [A])
    const [mine] = await rowsOf('mine')
    const [theirs] = await rowsOf('theirs')
    expect(await finishAt(mine?.topic ?? 0, A, theirs?.ctid ?? '')).toBe('')
    expect(await keysLeft('mine')).toEqual([A])
    expect(await keysLeft('theirs')).toEqual([A])
  })

  test('has the same task, which another claim or another process holds by now: it stays', async () => {
    await claim('held', [A])
    const [row] = await rowsOf('held')
    const [topicId, ctid] = [row?.topic ?? 0, row?.ctid ?? '']
    expect(await finishAt(topicId, A, ctid, { stamp: STAMP - 1 })).toBe('')
    expect(await finishAt(topicId, A, ctid, { session: ledger.sessionOf(cell) + 1 })).toBe('')
    expect(await keysLeft('held')).toEqual([A])
  })

  test('is the right one: the task ends', async () => {
    await claim('right', [A])
    const [row] = await rowsOf('right')
    expect(await finishAt(row?.topic ?? 0, A, row?.ctid ?? '')).toBeNull()
    expect(await keysLeft('right')).toEqual([])
  })
})

describe('a row that was moved after its claim', () => {
  const moves: [string, (topic: string) => Promise<unknown>][] = [
    [
      'by an extended lease',
      (topic) =>
        ledger.extend(
          topic,
          KEYS.map((key) => place(key)),
          STAMP,
          LEASE_MS,
          ledger.sessionOf(cell),
        ),
    ],
    ['because its table was rewritten', () => sql(url, 'VACUUM FULL tocsin.live')],
    [
      'because its task was cancelled in flight',
      (topic) => ledger.cancel(topic, [place(A), place(B), place(C)]),
    ],
  ]
  test.each(moves)('%s: its task ends all the same', async (how, move) => {
    const topic = `moved ${how}`.replaceAll(' ', '-')
    await claim(topic)
    await move(topic)
    expect(await settle(topic, KEYS)).toEqual(['settled', 'settled', 'settled'])
    expect(await keysLeft(topic)).toEqual([])
  })

  test('and was claimed again under another stamp: it stays', async () => {
    await claim('again')
    await sql(
      url,
      `UPDATE tocsin.live SET stamp = stamp + 1 WHERE key = $1 AND topic = (SELECT id FROM tocsin.topic WHERE name = 'again')`,
      [B],
    )
    expect(await settle('again', KEYS)).toEqual(['settled', 'stale', 'settled'])
    expect(await keysLeft('again')).toEqual([B])
  })
})

test('the tasks of a claim end one after another, in any order', async () => {
  await claim('parts')
  for (const key of [C, A, B]) expect(await settle('parts', [key])).toEqual(['settled'])
  expect(await settle('parts', [A])).toEqual(['stale'])
  expect(await keysLeft('parts')).toEqual([])
})
