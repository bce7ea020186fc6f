/** What can be wrong with a PostgreSQL, or with what is said about it: told clearly, by a code, without secrets. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { postgres } from 'tocsin/postgres'
import { freePort } from '../real-servers/free-port.ts'
import { type PostgresServer, sql, startPostgres, pooled } from '../real-servers/postgres-server.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)

const wrong = (value: unknown): never => value as never

async function failure(open: () => Promise<Tocsin>): Promise<{ code: string; message: string }> {
  let opened: Tocsin
  try {
    opened = await open()
  } catch (error) {
    return error as { code: string; message: string }
  }
  await opened.close()
  throw new Error('it opened')
}

const open = (ledger: unknown) => () =>
  Tocsin.open({ ledger: wrong(ledger), logger: false, callTimeout: '3s' })

describe('what is said', () => {
  test.each([
    ['no URL', 'postgres:localhost', 'bad-option'],
    ['partitions that are no power of two', 'postgres://localhost/d?partitions=3', 'bad-option'],
    ['partitions that are no number', 'postgres://localhost/d?partitions=x', 'bad-option'],
    ['a misspelt schema', 'postgres://localhost/d?sslmode=disable&shema=timers', 'bad-option'],
    ['misspelt partitions', 'postgres://localhost/d?partition=8', 'bad-option'],
    ['no database at all', [], 'bad-option'],
    ['a file among several', ['postgres://localhost/d', 'sqlite:./t.db'], 'bad-option'],
  ])('%s', async (_, ledger, code) => {
    expect(await failure(open(ledger))).toMatchObject({ code })
  })

  test('postgres() says at once what is wrong with it', () => {
    for (const options of [
      undefined,
      {},
      { pool: {} },
      { url: 'redis://x' },
      { url: 'postgres://h', conections: 1 },
    ])
      expect(() => postgres(wrong(options))).toThrow(expect.objectContaining({ code: 'bad-option' }))
  })

  test('waitReplicas with a ledger is refused: nothing is lost that Redis loses', async () => {
    const all = { timetable: 'redis://localhost:1', ledger: 'postgres://localhost/d', waitReplicas: 1 }
    expect(await failure(() => Tocsin.open({ ...all, logger: false }))).toMatchObject({ code: 'bad-option' })
  })
})

describe('what is at the other end', () => {
  test('nobody', async () => {
    const port = await freePort()
    const error = await failure(open(`postgres://someone:hunter2@127.0.0.1:${port}/d`))
    expect(error).toMatchObject({ code: 'ledger-unavailable' })
    expect(error.message).toContain(`127.0.0.1:${port}`)
    expect(error.message).not.toContain('hunter2')
  })

  test('no such database', async () => {
    const url = new URL(await server.createDatabase())
    url.pathname = '/nowhere'
    const error = await failure(open(url.href))
    expect(error).toMatchObject({ code: 'ledger-refused', message: expect.stringContaining('createdb') })
  })

  test('a user who may not create the schema, until the owner has', async () => {
    const url = new URL(await server.createDatabase())
    await sql(url.href, "CREATE ROLE modest LOGIN PASSWORD 'x'")
    const theirs = new URL(url)
    theirs.username = 'modest'
    const error = await failure(open(theirs.href))
    expect(error).toMatchObject({ code: 'ledger-refused', message: expect.stringContaining('GRANT CREATE') })
    await (await open(url.href)()).close()
    await sql(
      url.href,
      `GRANT USAGE ON SCHEMA tocsin TO modest; GRANT ALL ON ALL TABLES IN SCHEMA tocsin TO modest;
       GRANT ALL ON ALL SEQUENCES IN SCHEMA tocsin TO modest`,
    )
    const toc = await open(theirs.href)()
    await toc.topic('t').schedule({ key: 'a', delay: '1h', payload: 1 })
    expect(await toc.topic('t').get('a')).toMatchObject({ payload: 1 })
    await toc.close()
  })

  test('tables of a newer version', async () => {
    const url = await server.createDatabase()
    await (await open(url)()).close()
    await sql(url, "UPDATE tocsin.meta SET value = '99' WHERE name = 'format'")
    expect(await failure(open(url))).toMatchObject({ code: 'ledger-too-new' })
  })

  test('databases in another order than before, or the same one twice', async () => {
    const [one, two] = [await server.createDatabase(), await server.createDatabase()]
    await (await open([one, two])()).close()
    expect(await failure(open([two, one]))).toMatchObject({ code: 'ledger-refused' })
    expect(await failure(open(one))).toMatchObject({ code: 'ledger-refused' })
    await (await open([one, two])()).close()
    const alone = await server.createDatabase()
    expect(['bad-option', 'ledger-refused']).toContain((await failure(open([alone, alone]))).code)
  })
})

test('a pool of the user is used, and not ended', async () => {
  const pool = pooled(await server.createDatabase(), { max: 3 })
  const toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
  await toc.topic('t').schedule({ key: 'a', delay: '1h', payload: 1 })
  await toc.close()
  const { rows } = await pool.query('SELECT key FROM tocsin.live')
  expect(rows).toEqual([{ key: 'a' }])
  await pool.end()
})

test('partitions are made as asked for, and tasks lie in them', async () => {
  const url = new URL(await server.createDatabase())
  url.searchParams.set('partitions', '8')
  await using toc = await Tocsin.open({ ledger: url.href, logger: false })
  const tasks = Array.from({ length: 200 }, (_, n) => ({ key: `k${n}`, delay: '1h', payload: n }))
  await toc.topic('t').scheduleMany(tasks)
  url.searchParams.delete('partitions')
  const rows = await sql<{ part: string }>(
    url.href,
    'SELECT DISTINCT tableoid::regclass::text AS part FROM tocsin.live',
  )
  expect(rows.length).toBe(8)
})
