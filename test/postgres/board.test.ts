/** What is particular to the board in PostgreSQL: what a beat costs, and what commits in another order than it began. */
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Board } from '../../src/board.ts'
import { BOARD } from '../../src/ledgers/postgres/statements/board.ts'
import { MIGRATIONS } from '../../src/ledgers/postgres/migrations.ts'
import type { PostgresLedger } from '../../src/ledgers/postgres/ledger.ts'
import { card, change, changed, heartbeatOf, token } from '../contract/board/helpers.ts'
import { openWithBoard } from '../contract/postgres-board-harness.ts'
import { startPgBouncer } from '../real-servers/pgbouncer.ts'
import {
  connected,
  type PostgresServer,
  sql,
  startPostgres,
  pooled,
} from '../real-servers/postgres-server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)

type Opened = {
  readonly ledger: PostgresLedger
  readonly board: Board
  readonly url: string
} & AsyncDisposable

async function opened(url?: string): Promise<Opened> {
  const at = url ?? (await server.createDatabase())
  const ledger = await openWithBoard({ url: at, connections: 4 })
  const close = async () => {
    await ledger.board.close()
    await ledger.close()
  }
  return { ledger, board: ledger.board, url: at, [Symbol.asyncDispose]: close }
}

/** Resolves when so many statements wait for somebody's lock. */
async function untilWaiting(url: string, count = 1): Promise<void> {
  const waiting = async () => {
    const [row] = await sql<{ n: number }>(
      url,
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    )
    return row!.n
  }
  await expect.poll(waiting, { timeout: 10_000, interval: 10 }).toBe(count)
}

test('beats touch no index and leave nothing behind', { timeout: 60_000 }, async () => {
  const nodes = 50
  // Few: where there is no room, it is the first ones that need another page.
  const rounds = 10
  const url = await server.createDatabase()
  {
    await using one = await opened(url)
    // One after the other: at once they would take a page each.
    for (let n = 0; n < nodes; n++) await one.board.beat(card(`node-${n}`))
    for (let handled = 0; handled < rounds; handled++)
      await Promise.all(
        Array.from({ length: nodes }, (_, n) =>
          one.board.beat(card(`node-${n}`, { figures: { inFlight: n, handled, clockAheadMs: -1.5 } })),
        ),
      )
  }
  const figures = async () => {
    const [row] = await sql<{ updated: number; hot: number; pages: number }>(
      url,
      `SELECT n_tup_upd::int AS updated, n_tup_hot_upd::int AS hot,
         (pg_relation_size('tocsin.node') / current_setting('block_size')::int)::int AS pages
       FROM pg_stat_user_tables WHERE relid = 'tocsin.node'::regclass`,
    )
    return row!
  }
  await expect.poll(async () => (await figures()).updated, { timeout: 20_000 }).toBe(rounds * nodes)
  const { updated, hot, pages } = await figures()
  console.log(`of ${updated} beats of ${nodes} nodes ${hot} were HOT; the table has ${pages} pages`)
  expect(hot / updated).toBeGreaterThan(0.995)
  expect(pages).toBeLessThan(30)
})

test('a beat is one statement, and finds its own card by the index', async () => {
  const url = await server.createDatabase()
  const pool = pooled(url, { max: 3 })
  const ledger = await openWithBoard({ pool })
  let statements = 0
  pool.on('acquire', () => void statements++)
  for (let n = 0; n < 5; n++) await ledger.board.beat(card('a'))
  expect(statements).toBe(5)
  await pool.query(
    `INSERT INTO tocsin.node SELECT 'node-' || n, 1, 1, now(), repeat('x', 400) FROM generate_series(1, 1000) AS n`,
  )
  await pool.query('ANALYZE tocsin.node')
  const { rows } = await pool.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE) ${BOARD.beat.text}`, [
    'node-7',
    1,
    '{}',
  ])
  const plan = rows.map((row) => row['QUERY PLAN'])
  expect(plan.filter((line) => line.includes('Index Scan using node_pkey'))).toHaveLength(1)
  console.log(`among 1,000 nodes: ${plan.at(-1)?.trim()}`)
  await ledger.close()
  await pool.end()
})

test('told of what is new, and never of a plain beat', async () => {
  await using one = await opened()
  const { board, url } = one
  await using ears = await connected(url)
  const heard: string[] = []
  ears.on('notification', ({ payload }) => void heard.push(payload ?? ''))
  await ears.query('LISTEN tocsin')
  const toldBy = async (act: () => Promise<unknown>) => {
    await act()
    // Whatever was told before this is heard by now.
    await sql(url, "SELECT pg_notify('tocsin', '?end')")
    await expect.poll(() => heard.includes('?end'), { timeout: 5_000 }).toBe(true)
    return heard.splice(0).filter((payload) => payload !== '?end')
  }
  const beat = (edition: number) => () => board.beat(card('a', { edition }))
  const ours = change()
  expect(await toldBy(beat(1))).toEqual(['?board'])
  expect(await toldBy(beat(1))).toEqual([])
  expect(await toldBy(beat(2))).toEqual(['?board'])
  expect(await toldBy(beat(2))).toEqual([])
  expect(await toldBy(() => board.bury('a', 1))).toEqual([])
  expect(await toldBy(() => board.bury('a', 4))).toEqual(['?board'])
  expect(await toldBy(beat(2))).toEqual(['?board'])
  expect(await toldBy(() => board.leave('a'))).toEqual(['?board'])
  expect(await toldBy(() => board.leave('a'))).toEqual([])
  expect(await toldBy(() => board.create('t', 16, 'key'))).toEqual(['?board'])
  expect(await toldBy(() => board.create('t', 16, 'key'))).toEqual([])
  expect(await toldBy(() => board.change('t', 0, ours))).toEqual(['?board'])
  expect(await toldBy(() => board.change('t', 0, ours))).toEqual([])
  expect(await toldBy(() => board.change('t', 0, change()))).toEqual([])
})

test('a process listens on one connection, to tasks and to the board', async () => {
  await using one = await opened()
  const { ledger, board, url } = one
  const ends = [ledger.listen(() => {}), board.listen(() => {}), board.listen(() => {})]
  const listening = () =>
    sql(
      url,
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN tocsin'",
    )
  await expect.poll(async () => (await listening()).length, { timeout: 5_000 }).toBe(1)
  // Real time: no second connection may start to listen.
  await wait(100)
  expect(await listening()).toHaveLength(1)
  for (const end of ends) end()
})

test(
  'a connection that was lost: all counts as news once it is there again',
  { timeout: 30_000 },
  async () => {
    await using one = await opened()
    const { board, url } = one
    let news = 0
    board.listen(() => void news++)
    await expect.poll(() => news, { timeout: 5_000 }).toBe(1)
    await sql(
      url,
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN tocsin'",
    )
    await expect.poll(() => news, { timeout: 10_000 }).toBe(2)
  },
)

test('a pool of one connection is left to those who work', async () => {
  const pool = pooled(await server.createDatabase(), { max: 1 })
  const ledger = await openWithBoard({ pool })
  let news = 0
  ledger.board.listen(() => void news++)
  // Real time: the listener must not take the only connection.
  await wait(50)
  expect((await ledger.board.beat(card('a'))).heartbeats).toHaveLength(1)
  expect(await ledger.board.create('t', 16, 'key')).toMatchObject({ version: 0 })
  expect(news).toBe(0)
  await ledger.close()
  await pool.end()
})

test(
  'twenty beat at once from five processes, others bury them: nobody waits for anybody',
  { timeout: 60_000 },
  async () => {
    const url = await server.createDatabase()
    await using first = await opened(url)
    await using second = await opened(url)
    await using third = await opened(url)
    await using fourth = await opened(url)
    await using fifth = await opened(url)
    const boards = [first, second, third, fourth, fifth].map(({ board }) => board)
    const ids = Array.from({ length: 20 }, (_, n) => `node-${n}`)
    const rounds = 50
    for (let round = 1; round <= rounds; round++) {
      const beats = ids.map((id, n) => boards[n % 5]!.beat(card(id, { edition: 1 + (round >> 2) })))
      // All of them judge by what they saw before: it has beaten since, or is about to.
      const burying = ids.map((id, n) => boards[(n + 1) % 5]!.bury(id, round - 2))
      await Promise.all([...beats, ...burying])
    }
    const reply = await first.board.beat(card('last'))
    expect(reply.heartbeats).toHaveLength(ids.length + 1)
    for (const id of ids) expect(heartbeatOf(reply, id).beats).toBe(rounds)
    expect(await server.logTail()).not.toContain('deadlock')
  },
)

test('a database that is set to be stricter: whoever is undone hears it in our words', async () => {
  const url = await server.createDatabase()
  const name = new URL(url).pathname.slice(1)
  await sql(url, `ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`)
  await using one = await opened(url)
  await using other = await opened(url)
  const beats = Array.from({ length: 200 }, (_, n) => [one, other][n % 2]!.board.beat(card(`node-${n % 20}`)))
  const failed = (await Promise.allSettled(beats)).flatMap((result) =>
    result.status === 'rejected' ? [result.reason as unknown] : [],
  )
  console.log(`serializable: ${failed.length} of ${beats.length} beats were undone`)
  for (const error of failed) expect(error).toMatchObject({ code: 'ledger-unavailable', retryable: true })
})

test('what commits later than it began is not hidden from the revision', async () => {
  await using one = await opened()
  const { board, url } = one
  await board.create('changed', 16, 'key')
  await using client = await connected(url)
  const seen: string[] = []
  const revision = async () => (await board.beat(card('a'))).revision
  for (const early of [
    `INSERT INTO tocsin.topic_config VALUES ('early', 0, 16, 'key', '{}', false)`,
    `UPDATE tocsin.topic_config SET version = 1, live = '{"lease":"9s"}' WHERE topic = 'changed'`,
  ]) {
    await client.query('BEGIN')
    await client.query(early)
    // Began later, and is there first.
    await board.create(`late-${seen.length}`, 16, 'key')
    seen.push(await revision())
    await client.query('COMMIT')
    seen.push(await revision())
  }
  expect(new Set(seen).size).toBe(seen.length)
})

test('as many other changes have another revision', async () => {
  // As after a server that went on without its last commits.
  const revisions = await Promise.all(
    ['one', 'two'].map(async (topic) => {
      await using other = await opened()
      await other.board.create('one', 16, 'key')
      await other.board.create('two', 16, 'key')
      await changed(other.board, topic, 0)
      return (await other.board.beat(card('a'))).revision
    }),
  )
  expect(new Set(revisions).size).toBe(2)
})

test('what is committed while a call waits for it is answered', async () => {
  await using one = await opened()
  const { board, url } = one
  await using client = await connected(url)

  await client.query('BEGIN')
  await client.query(`INSERT INTO tocsin.topic_config VALUES ('t', 0, 32, 'prefix', '{}', false)`)
  const creating = board.create('t', 16, 'key')
  await untilWaiting(url)
  await client.query('COMMIT')
  expect(await creating).toMatchObject({ topic: 't', slots: 32, slotBy: 'prefix' })

  await client.query('BEGIN')
  await client.query(`UPDATE tocsin.topic_config SET version = 1, live = '{"lease":"9s"}' WHERE topic = 't'`)
  const changing = board.change('t', 0, change())
  await untilWaiting(url)
  await client.query('COMMIT')
  expect(await changing).toMatchObject({ isOurs: false, record: { version: 1, live: { lease: '9s' } } })
  expect(await board.history('t', 10)).toEqual([])

  await client.query('BEGIN')
  await client.query(`UPDATE tocsin.topic_config SET version = 2 WHERE topic = 't'`)
  const again = board.change('t', 1, change())
  await untilWaiting(url)
  await client.query('ROLLBACK')
  expect(await again).toMatchObject({ isOurs: true, record: { version: 2 } })

  await board.beat(card('a'))
  await client.query('BEGIN')
  await client.query(`UPDATE tocsin.node SET beats = beats + 1 WHERE id = 'a'`)
  const burying = board.bury('a', 1)
  await untilWaiting(url)
  await client.query('COMMIT')
  await burying
  expect(await board.cards()).toHaveLength(1)
})

test('a beat that comes late counts, but does not put up the older card again', async () => {
  await using one = await opened()
  const { board } = one
  const newer = card('a', { edition: 2, topics: [] })
  await board.beat(newer)
  const late = await board.beat(card('a', { edition: 1 }))
  expect(heartbeatOf(late, 'a')).toMatchObject({ beats: 2, edition: 2 })
  expect(await board.cards()).toEqual([newer])
})

test('only the last hundred changes are kept', async () => {
  await using one = await opened()
  const { board, url } = one
  await board.create('t', 16, 'key')
  for (let version = 0; version < 103; version++) await changed(board, 't', version)
  expect(
    await sql(url, 'SELECT count(*)::int, min(version), max(version) FROM tocsin.config_change'),
  ).toEqual([{ count: 100, min: 4, max: 103 }])
})

test('behind PgBouncer in transaction mode: all of it but the news', { timeout: 60_000 }, async () => {
  await using bouncer = await startPgBouncer(server)
  const url = bouncer.url(await server.createDatabase())
  await using one = await opened(url)
  await using other = await opened(url)
  let news = 0
  one.board.listen(() => void news++)
  const ids = Array.from({ length: 12 }, (_, n) => `node-${n}`)
  for (let round = 0; round < 10; round++)
    await Promise.all(ids.map((id, n) => [one, other][n % 2]!.board.beat(card(id))))
  const reply = await other.board.beat(card('last'))
  for (const id of ids) expect(heartbeatOf(reply, id).beats).toBe(10)
  const { revision } = reply
  await one.board.create('t', 16, 'key')
  const record = await changed(other.board, 't', 0)
  expect(await one.board.records()).toEqual([record])
  expect((await one.board.beat(card('last'))).revision).not.toBe(revision)
  expect(await one.board.history('t', 10)).toHaveLength(1)
  await one.board.leave('last')
  expect(await other.board.cards()).toHaveLength(ids.length)
  // Real time: no notification may arrive through a transaction pooler.
  await wait(2_500)
  expect(news).toBe(0)
})

test('a crash of the server takes the cards, which the next beat puts up again, and no setting', async () => {
  await using crashing = await startPostgres()
  const url = await crashing.createDatabase()
  await using one = await opened(url)
  const { board } = one
  await board.beat(card('a'))
  await board.beat(card('b'))
  await board.create('t', 16, 'key')
  const record = await changed(board, 't', 0, change({ declared: { batchSize: 7 } }))
  await board.putToken(token('a'))
  const { revision } = await board.beat(card('a'))
  await crashing.restart()
  // The first one may find a connection that is none any more.
  const reply = await board.beat(card('a')).catch(() => board.beat(card('a')))
  expect(reply.heartbeats.map(({ id }) => id)).toEqual(['a'])
  expect(reply.revision).toBe(revision)
  expect(await board.records()).toEqual([record])
  expect(record).toMatchObject({ declared: { batchSize: 7 } })
  expect(await board.history('t', 1)).toHaveLength(1)
  expect(await board.tokens()).toEqual([token('a')])
})

test('a record of before is there: nothing was declared', async () => {
  const url = await server.createDatabase()
  await sql(
    url,
    'CREATE SCHEMA tocsin; CREATE TABLE tocsin.meta (name text PRIMARY KEY, value text NOT NULL)',
  )
  for (const step of MIGRATIONS.slice(0, 3)) await sql(url, step.sql(1))
  await sql(
    url,
    `INSERT INTO tocsin.meta VALUES ('format', '3'), ('id', 'abc'), ('partitions', '1'), ('shard', '1 of 1');
    INSERT INTO tocsin.topic_config VALUES ('t', 3, 8, 'prefix', '{"lease":"9s"}', true, 'c')`,
  )
  await using one = await opened(url)
  const before = { topic: 't', version: 3, slots: 8, slotBy: 'prefix', live: { lease: '9s' }, isPaused: true }
  expect(await one.board.records()).toEqual([{ ...before, declared: {} }])
  const declared = { batchSize: 5 }
  expect(await changed(one.board, 't', 3, change({ declared }))).toMatchObject({ version: 4, declared })
  await one.board.putToken(token('a'))
  expect(await one.board.tokens()).toEqual([token('a')])
})
