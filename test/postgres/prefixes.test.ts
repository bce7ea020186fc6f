/** Tocsins with different prefixes share a PostgreSQL, and a Redis, and nothing else. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { postgres } from 'tocsin/postgres'
import { MIGRATIONS } from '../../src/ledgers/postgres/migrations.ts'
import { asStep } from '../../src/ledgers/postgres/prepared-steps.ts'
import { Schema } from '../../src/ledgers/postgres/schema.ts'
import { SQL_FUNCTIONS } from '../../src/ledgers/postgres/sql-functions.ts'
import { STATEMENTS } from '../../src/ledgers/postgres/statements/all.ts'
import { failureOf } from '../fault/helpers.ts'
import { gate, refusal } from '../library/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

let server: PostgresServer
let redis: RedisServer
let url: string
beforeAll(async () => {
  server = await startPostgres()
  redis = await startRedis()
}, 60_000)
afterAll(() => Promise.all([server.stop(), redis.stop()]), 60_000)
beforeEach(async () => {
  url = await server.createDatabase()
})

const PREFIXES = ['a', 'B-2.x']

describe.each(['PostgreSQL alone', 'Redis + PostgreSQL'])('%s', (composition) => {
  const open = (prefix: string | undefined) =>
    Tocsin.open({
      ledger: url,
      ...(composition === 'PostgreSQL alone' ? {} : { timetable: redis.url }),
      prefix,
      logger: false,
    })

  test('a task is seen, changed and handled under its own prefix alone', async () => {
    const tocs = await Promise.all([...PREFIXES, undefined].map(open))
    const handled: string[] = []
    try {
      const topics = tocs.map((toc) => toc.topic<number>('t'))
      await topics[0]!.schedule({ key: 'k', delay: '1h', payload: 0 })
      for (const other of topics.slice(1)) {
        expect(await other.get('k')).toBeNull()
        expect(await other.cancel('k')).toMatchObject({ outcome: 'not-found' })
        expect(await other.counts()).toMatchObject({ pending: 0 })
      }
      const all = gate()
      for (const [n, topic] of topics.entries())
        topic.consume(async ({ key, payload }) => {
          handled.push(`${n} handles ${key} of ${payload}`)
          if (handled.length === topics.length) all.open()
        })
      // The same key in each: every consumer has to get its own, and no other.
      await Promise.all(topics.map((topic, n) => topic.schedule({ key: 'now', delay: 0, payload: n })))
      await all.passed
      expect(handled.toSorted()).toEqual(topics.map((_, n) => `${n} handles now of ${n}`))
      expect(await topics[0]!.counts()).toMatchObject({ pending: 1 })
      await topics[1]!.pause()
      for (const [n, toc] of tocs.entries()) {
        expect(await topics[n]!.config()).toMatchObject({ paused: n === 1 })
        expect(await toc.nodes()).toHaveLength(1)
        expect(await toc.audit()).toMatchObject([{ topic: 't', balances: true }])
      }
    } finally {
      await Promise.all(tocs.map((toc) => toc.close()))
    }
  })

  test("a write in a caller's transaction, a handler's transaction and SQL functions reach the same tasks", async () => {
    const [prefix] = PREFIXES.slice(1)
    const schema = `"tocsin_${prefix}"`
    await using toc = await open(prefix)
    await using other = await open(undefined)
    const topic = toc.topic<number>('t')
    await topic.schedule({ key: 'first', delay: '1h', payload: 0 })
    await other.topic('t').schedule({ key: 'first', delay: '1h', payload: 0 })
    await sql(url, 'CREATE TABLE handled (key text)')
    await using client = await connected(url)
    await client.query('BEGIN')
    await topic.schedule({ key: 'tx', delay: 0, payload: 1 }, { tx: client })
    await client.query(`SELECT ${schema}.schedule('t', 'sql', now(), '2')`)
    await client.query(`SELECT ${schema}.reschedule('t', 'first', delay => '2 hours')`)
    await client.query('COMMIT')
    const all = gate()
    const keys = new Set<string>()
    topic.consumeBatch(
      async (tasks, { tx }) => {
        for (const { key } of tasks) await tx.query('INSERT INTO handled VALUES ($1)', [key])
        for (const { key } of tasks) keys.add(key)
        if (keys.size === 2) all.open()
      },
      { transaction: true },
    )
    await all.passed
    await expect.poll(() => topic.counts()).toMatchObject({ pending: 1, claimed: 0 })
    expect(await sql(url, 'SELECT key FROM handled ORDER BY key')).toEqual([{ key: 'sql' }, { key: 'tx' }])
    expect(await other.topic('t').list()).toMatchObject({ tasks: [{ key: 'first' }] })
  })
})

test('a schema may be named instead, in the URL and in the options', async () => {
  const named = new URL(url)
  named.searchParams.set('schema', 'timers')
  await using one = await Tocsin.open({ ledger: named.href, logger: false })
  await one.topic('t').schedule({ key: 'k', delay: '1h', payload: 0 })
  await using two = await Tocsin.open({ ledger: postgres({ url, schema: 'timers' }), logger: false })
  expect(await two.topic('t').get('k')).not.toBeNull()
  const rows = await sql(url, "SELECT nspname FROM pg_namespace WHERE nspname ~ '^(toc|timers)'")
  expect(rows).toEqual([{ nspname: 'timers' }])
})

test.each([
  ['a schema and a prefix', { prefix: 'a' }, 'timers', 'leave one of the two out'],
  ['a schema with a quote', {}, 'a"b', 'letters, digits'],
  ['a schema that is too long', {}, 's'.repeat(64), '1 to 63'],
  ['the schema that all programs use', {}, 'public', 'for Tocsin alone'],
  ['a schema of PostgreSQL', {}, 'pg_timers', 'for Tocsin alone'],
  ['a prefix that is too long', { prefix: 'p'.repeat(57) }, null, 'at most 56'],
])('%s is refused', async (_, options, schema, says) => {
  const ledger = new URL(url)
  if (schema !== null) ledger.searchParams.set('schema', schema)
  const error = await refusal(() => Tocsin.open({ ledger: ledger.href, ...options, logger: false }))
  expect(error).toMatchObject({ code: 'bad-option', message: expect.stringContaining(says) })
})

test('a database with tasks of a version that did not isolate prefixes: refused, until a user has decided', async () => {
  const open = (options: { prefix?: string }) => Tocsin.open({ ledger: url, logger: false, ...options })
  await using earlier = await open({})
  const topic = earlier.topic('t')
  await topic.schedule({ key: 'k', delay: '1h', payload: 0 })
  await sql(url, "DELETE FROM tocsin.meta WHERE name = 'isolated'")
  expect(await failureOf(open({ prefix: 'a-b' }))).toMatchObject({
    code: 'ledger-refused',
    message: expect.stringMatching(/leave the prefix out.*CREATE SCHEMA "tocsin_a-b"/),
  })
  expect(await sql(url, "SELECT FROM pg_namespace WHERE nspname = 'tocsin_a-b'")).toEqual([])
  await sql(url, 'CREATE SCHEMA "tocsin_a-b"')
  await using decided = await open({ prefix: 'a-b' })
  expect(await decided.topic('t').get('k')).toBeNull()
  await topic.cancel('k')
  await using beside = await open({ prefix: 'beside-no-tasks' })
  expect(await beside.topic('t').counts()).toMatchObject({ pending: 0 })
})

test('many programs with few prefixes open a new database at the same time', async () => {
  const prefixes = ['a', 'b', undefined, 'a', 'b', undefined]
  const tocs = await Promise.all(
    prefixes.map((prefix) => Tocsin.open({ ledger: url, prefix, logger: false })),
  )
  try {
    await Promise.all(
      tocs.map((toc, n) => toc.topic('t').schedule({ key: `k${n}`, delay: '1h', payload: 0 })),
    )
    for (const toc of tocs) expect(await toc.topic('t').counts()).toMatchObject({ pending: 2 })
  } finally {
    await Promise.all(tocs.map((toc) => toc.close()))
  }
})

test('a prefix in memory is accepted: no other Tocsin can see these tasks', async () => {
  await using toc = await Tocsin.open({ timetable: 'memory:', prefix: 'a', logger: false })
  expect(await toc.topic('t').counts()).toMatchObject({ pending: 0 })
})

test('no statement names the schema tocsin when it is sent to another one', () => {
  const statements = Object.values(STATEMENTS).flatMap((group) => Object.values(group))
  const texts = [
    ...statements.flatMap(({ text }) => [text, asStep(text)]),
    ...MIGRATIONS.map((step) => step.sql(8)),
    SQL_FUNCTIONS,
  ]
  const schema = new Schema('other')
  for (const text of texts) expect(schema.sql(text).replaceAll('$tocsin$', '')).not.toMatch(/tocsin/)
})
