import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { plant, readOurs, run } from '../house/planted.ts'
import { startPgBouncer } from './pgbouncer.ts'
import { type PostgresServer, sql, startPostgres } from './postgres-server.ts'
import { areAlive } from './processes.ts'

const SOON_MS = 5_000
const UNANSWERED_MS = 300

async function connected(url: string): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

/** 'answered', 'failed', or 'nothing' when neither came in time. */
function within(ms: number, call: Promise<unknown>): Promise<string> {
  const ends = call.then(
    () => 'answered',
    () => 'failed',
  )
  return Promise.race([ends, sleep(ms, 'nothing')])
}

describe('a server for a file of tests', () => {
  let server: PostgresServer
  beforeAll(async () => {
    server = await startPostgres()
  })
  afterAll(() => server.stop())

  test('answers on its port, without a password, and to query', async () => {
    expect(server.url('x')).toBe(`postgres://postgres@127.0.0.1:${server.port}/x`)
    expect(await sql(server.url(), 'SELECT $1::int AS n', [1])).toEqual([{ n: 1 }])
    expect(await server.query('SELECT inet_server_port() AS port')).toEqual([{ port: server.port }])
    await expect(server.query('SELECT nothing')).rejects.toThrow('column "nothing" does not exist')
  })

  test('is the process that it says it is, and others with it', async () => {
    const [row] = await server.query<{ pid: string }>("SELECT pg_read_file('postmaster.pid') AS pid")
    expect(row!.pid.split('\n')[0]).toBe(String(server.pid))
    expect(server.pids.length).toBeGreaterThan(3)
    expect(areAlive(server.pids)).toBe(true)
  })

  test('does not wait for the disk', async () => {
    expect(await server.query('SHOW fsync')).toEqual([{ fsync: 'off' }])
    expect(await server.query('SHOW listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }])
  })

  test('each database is a new one, and sorts by a language', async () => {
    const urls = await Promise.all([server.createDatabase(), server.createDatabase()])
    expect(new Set(urls).size).toBe(2)
    await sql(urls[0]!, 'CREATE TABLE here ()')
    const tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    expect(await sql(urls[0]!, tables)).toEqual([{ tablename: 'here' }])
    expect(await sql(urls[1]!, tables)).toEqual([])
    const sorted = "SELECT string_agg(x, '' ORDER BY x) AS all FROM unnest(ARRAY['B', 'a', 'C']) AS x"
    expect(await sql(urls[0]!, sorted)).toEqual([{ all: 'aBC' }])
  })

  test('paused, it keeps connections and does not answer; resumed, it answers', async () => {
    await using client = await connected(server.url())
    server.pause()
    const asked = client.query('SELECT 1')
    const knocking = server.query('SELECT 1')
    expect(await within(UNANSWERED_MS, asked)).toBe('nothing')
    expect(await within(UNANSWERED_MS, knocking)).toBe('nothing')
    server.resume()
    expect(await within(SOON_MS, asked)).toBe('answered')
    expect(await within(SOON_MS, knocking)).toBe('answered')
  })
})

test('what was committed survives a kill and a restart, and nothing else', async () => {
  await using server = await startPostgres({ fsync: true })
  expect(await server.query('SHOW fsync')).toEqual([{ fsync: 'on' }])
  await server.query('CREATE TABLE kept (n int)')
  await server.query('INSERT INTO kept VALUES (1)')
  await using client = await connected(server.url())
  await client.query('BEGIN')
  await client.query('INSERT INTO kept VALUES (2)')
  const { pids, port, folder } = server
  const lost = client.query('SELECT pg_sleep(60)')
  await Promise.all([
    expect(lost).rejects.toThrow(),
    server.kill().then(() => expect(areAlive(pids)).toBe(false)),
  ])
  expect(() => server.pid).toThrow('not running')
  await expect(server.query('SELECT 1')).rejects.toThrow('ECONNREFUSED')
  await server.restart()
  expect([server.port, server.folder]).toEqual([port, folder])
  expect(await server.query('SELECT n FROM kept')).toEqual([{ n: 1 }])
})

test('a restart kills what runs', async () => {
  await using server = await startPostgres()
  const { pids } = server
  await server.restart()
  expect(areAlive(pids)).toBe(false)
})

test('a paused server can be killed and stopped', async () => {
  await using server = await startPostgres()
  server.pause()
  await server.kill()
  await server.restart()
  server.pause()
  const { pids } = server
  await server.stop()
  expect(areAlive(pids)).toBe(false)
  expect(existsSync(server.folder)).toBe(false)
  await server.stop() // a second time is nothing
})

test('stopped while a statement runs, it is gone soon', async () => {
  const server = await startPostgres()
  await using client = await connected(server.url())
  const asked = expect(client.query('SELECT pg_sleep(60)')).rejects.toThrow()
  const { pids } = server
  const began = performance.now()
  await server.stop()
  expect(performance.now() - began).toBeLessThan(SOON_MS)
  expect(areAlive(pids)).toBe(false)
  await asked
})

test('a setting that PostgreSQL refuses is quoted, and leaves nothing behind', async () => {
  await expect(startPostgres({ config: { no_such_setting: 'yes' } })).rejects.toThrow(
    /postgres ended at its start\. Its log:[^]*no_such_setting/,
  )
})

test('a port that is taken ends the start instead of being taken for its own', async () => {
  await using first = await startPostgres()
  await expect(startPostgres({ config: { port: String(first.port) } })).rejects.toThrow(
    'Address already in use',
  )
})

test('PgBouncer: many clients share few connections, and own none', async () => {
  await using server = await startPostgres()
  await using bouncer = await startPgBouncer(server)
  const url = bouncer.url(await server.createDatabase())
  expect(url).toContain(`:${bouncer.port}/tocsin_1`)
  const clients = await Promise.all(Array.from({ length: 30 }, () => connected(url)))
  const pids = await Promise.all(
    clients.map(async (client) => {
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid, pg_sleep(0.02)')
      return rows[0]!.pid
    }),
  )
  await Promise.all(clients.map((client) => client.end()))
  expect(new Set(pids).size).toBeLessThanOrEqual(bouncer.poolSize)
  const { pid } = bouncer
  await bouncer.stop()
  expect(areAlive([pid])).toBe(false)
})

/** Files of tests that start servers and do not stop them, by how they end. */
const ENDINGS = {
  killed: "process.kill(process.pid, 'SIGKILL')",
  terminated: "process.kill(process.pid, 'SIGTERM')\nawait new Promise(() => {})",
  forgetful: '',
  'forgetful-paused': 'server.pause()',
}

test('no server outlives the process of its test, however that ends', { timeout: 90_000 }, async () => {
  const names = Object.keys(ENDINGS)
  await using planted = await plant({
    ...(await readOurs('scripts')),
    ...(await readOurs('test/setup')),
    ...(await readOurs('test/real-servers')),
    ...Object.fromEntries(names.map((name) => [`test/ends/${name}.test.ts`, endingTest(name)])),
  })
  const { code, output } = await run('vitest/vitest.mjs', ['run', 'test/ends', '--maxWorkers=2'], planted.dir)
  expect(code).not.toBe(0)
  expect(output, 'the leak check sees what is forgotten').toMatch(
    /still open at the end of the file: .*ProcessWrap/,
  )
  for (const name of names) {
    const started: unknown = JSON.parse(readFileSync(join(planted.dir, `${name}.json`), 'utf8'))
    const { pids, folder } = started as { pids: number[]; folder: string }
    await vi.waitFor(() => expect(areAlive(pids) || existsSync(folder), name).toBe(false), SOON_MS)
  }
})

const endingTest = (name: string): string => `
  import { writeFileSync } from 'node:fs'
  import { test } from 'vitest'
  import { startPostgres } from '../real-servers/postgres-server.ts'
  test('ends', async () => {
    const server = await startPostgres()
    writeFileSync('${name}.json', JSON.stringify({ pids: server.pids, folder: server.folder }))
    ${ENDINGS[name as keyof typeof ENDINGS]}
  })`
