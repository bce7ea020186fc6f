/** statements.sql: what the ledger sends, to be pasted into psql. */
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { postgres } from 'tocsin/postgres'
// @ts-expect-error -- a script without types
import { renderStatements, STATEMENTS_FILE } from '../../scripts/postgres-statements.mjs'
import { MIGRATIONS } from '../../src/ledgers/postgres/migrations.ts'
import { STATEMENTS } from '../../src/ledgers/postgres/statements/all.ts'
import { asStep } from '../../src/ledgers/postgres/prepared-steps.ts'
import { startPostgres, pooled } from '../real-servers/postgres-server.ts'

const file = readFileSync(new URL(`../../${STATEMENTS_FILE}`, import.meta.url), 'utf8')
const all = Object.values(STATEMENTS).flatMap((group) => Object.values(group))

test('the file has the statements as they are sent; if not, run: npm run docs', () => {
  expect(file).toBe(renderStatements(STATEMENTS))
})

test.each(all.map((statement) => [statement.does, statement] as const))(
  'the parameters are all described: %s',
  (_, { text, takes }) => {
    const used = new Set([...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)))
    expect([...used].toSorted((a, b) => a - b)).toEqual(takes.map((_, i) => i + 1))
  },
)

test('PostgreSQL prepares all of the file, with the types that it names', async () => {
  await using server = await startPostgres()
  const connectionString = await server.createDatabase()
  const toc = await Tocsin.open({ ledger: connectionString, logger: false })
  await toc.close()
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query(file)
    const { rows } = await client.query<{ name: string; types: string[] }>(
      'SELECT name, parameter_types::text[] AS types FROM pg_prepared_statements ORDER BY prepare_time, name',
    )
    const prepared = Object.fromEntries(rows.map(({ name, types }) => [name, types]))
    const described = Object.entries(STATEMENTS).flatMap(([group, statements]) =>
      Object.entries(statements).map(([name, { takes }]) => [
        `${group}_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`,
        takes.map(({ type }) => type),
      ]),
    )
    expect(prepared).toEqual(Object.fromEntries(described))
  } finally {
    await client.end()
  }
}, 60_000)

/** Not in the file, as its header says. */
const LEFT_OUT =
  /^(BEGIN|COMMIT|ROLLBACK|LISTEN|SELECT 1$)|^\s*CREATE|tocsin\.meta|pg_advisory_xact_lock|pg_proc|has_schema_privilege/
const MIGRATION_TEXTS = MIGRATIONS.map((step) => step.sql(1))

test('no program sends a statement that is not in the file', async () => {
  await using server = await startPostgres()
  const pool = pooled(await server.createDatabase())
  const sent = new Set<string>()
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    client.query = ((...args: unknown[]) => {
      const [first] = args
      sent.add(typeof first === 'string' ? first : (first as { text: string }).text)
      return query(...args)
    }) as typeof client.query
  })
  const toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
  try {
    await live(toc, pool)
  } finally {
    await toc.close()
    await pool.end()
  }
  const known = new Set([...all.flatMap(({ text }) => [text, asStep(text)]), ...MIGRATION_TEXTS])
  // A list has some of the conditions that the file shows.
  const isList = (text: string) => /^SELECT row_to_json\([le]\)[^]* FROM \(\(?SELECT key/.test(text)
  const unknown = [...sent].filter((text) => !known.has(text) && !isList(text) && !LEFT_OUT.test(text))
  expect(unknown).toEqual([])
  expect(all.filter(({ text }) => sent.has(text) || sent.has(asStep(text))).length).toBeGreaterThan(25)
}, 60_000)

/** What a program does with a topic, from scheduling to purging. */
async function live(toc: Tocsin, pool: pg.Pool): Promise<void> {
  const topic = toc.topic<number>('orders', { retry: { maxAttempts: 1 } })
  await topic.scheduleMany(
    ['a', 'b', 'user-1:c', 'user-1:d'].map((key) => ({ key, delay: '1h', payload: 1, tags: ['t'] })),
  )
  await topic.schedule({ key: 'a', delay: '1h', payload: 2, onConflict: 'keep' })
  await topic.reschedule('a', { delay: '2h' })
  await topic.cancelBy({ tag: 'none' })
  await topic.rescheduleBy({ prefix: 'user-1' }, { delay: '2h' })
  await topic.cancel('b')
  const client = await pool.connect()
  await client.query('BEGIN')
  await topic.schedule({ key: 'e', delay: '1h', payload: 3 }, { tx: client })
  await client.query('COMMIT')
  client.release()
  await topic.get('a')
  await topic.list({ tag: 't' })
  await topic.counts()
  await topic.pause()
  await topic.resume()
  const consumer = topic.consume(async ({ key }) => {
    if (key === 'dies') throw new Error('no')
  })
  await topic.schedule({ key: 'rings', delay: 0, payload: 4 })
  await topic.schedule({ key: 'dies', delay: 0, payload: 5 })
  await expect.poll(async () => (await topic.counts()).dead, { timeout: 15_000 }).toBe(1)
  await consumer.stop()
  await topic.dead.replay({ keys: ['dies'] })
  await topic.dead.purge({ keys: ['dies'] })
}
