/** `{ tx: client }`: what is written commits with the caller's data, or never was. */
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Tocsin, type Topic } from 'tocsin'
import { postgres } from 'tocsin/postgres'
import { type PostgresServer, startPostgres, pooled } from '../real-servers/postgres-server.ts'

let server: PostgresServer
let pool: pg.Pool
let client: pg.PoolClient
let toc: Tocsin
let topic: Topic<number, number>

beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)
beforeEach(async () => {
  pool = pooled(await server.createDatabase())
  toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
  topic = toc.topic<number>('tx')
  client = await pool.connect()
})
afterEach(async () => {
  client.release()
  await toc.close()
  await pool.end()
})

const wrong = (value: unknown): never => value as never

async function failure(call: () => Promise<unknown>): Promise<unknown> {
  try {
    await call()
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}

test('rolled back, it never existed; committed, it is there', async () => {
  await client.query('BEGIN')
  expect(await topic.schedule({ key: 'a', delay: '1h', payload: 1 }, { tx: client })).toMatchObject({
    outcome: 'created',
  })
  expect(await topic.get('a')).toBeNull()
  await client.query('ROLLBACK')
  expect(await topic.get('a')).toBeNull()

  await client.query('BEGIN')
  await topic.schedule({ key: 'a', delay: '1h', payload: 2 }, { tx: client })
  await client.query('COMMIT')
  expect(await topic.get('a')).toMatchObject({ state: 'pending', payload: 2 })
  expect(await toc.audit()).toMatchObject([{ balances: true, books: { scheduled: 1, pending: 1 } }])
})

test('every write takes it: many, cancel, cancelMany, cancelBy, reschedule, rescheduleBy', async () => {
  const task = (key: string) => ({ key, delay: '1h', payload: 0, tags: ['t'] })
  await client.query('BEGIN')
  // A key that comes twice, and more than one statement takes.
  const many = [...Array.from({ length: 1_500 }, (_, n) => task(`k${n}`)), task('k0')]
  const scheduled = await topic.scheduleMany(many, { tx: client })
  expect(scheduled.at(-1)).toMatchObject({ key: 'k0', outcome: 'replaced' })
  expect(await topic.cancel('k1', { tx: client })).toMatchObject({ outcome: 'cancelled' })
  expect(await topic.cancelMany(['k2', 'k2', 'never'], { tx: client })).toMatchObject([
    { outcome: 'cancelled' },
    { outcome: 'not-found' },
    { outcome: 'not-found' },
  ])
  expect(await topic.reschedule('k3', { delay: '2h' }, { tx: client })).toMatchObject({
    outcome: 'rescheduled',
  })
  expect(await topic.rescheduleBy({ tag: 't' }, { shift: '+1h' }, { tx: client })).toMatchObject({
    rescheduled: 1_498,
  })
  expect((await topic.counts()).pending).toBe(0)
  await client.query('COMMIT')
  expect((await topic.counts()).pending).toBe(1_498)
  await client.query('BEGIN')
  expect(await topic.cancelBy({ tag: 't' }, { tx: client })).toEqual({ cancelled: 1_498, inFlight: 0 })
  await client.query('ROLLBACK')
  expect((await topic.counts()).pending).toBe(1_498)
  expect(await toc.audit()).toMatchObject([{ balances: true }])
})

test(
  'committed when it is long due, it rings at once; committed in time, it is on time',
  { timeout: 20_000 },
  async () => {
    const rung = new Map<string, number>()
    topic.consume(async ({ key, latenessMs }) => void rung.set(key, latenessMs))
    await client.query('BEGIN')
    await topic.schedule({ key: 'late', delay: 1, payload: 0 }, { tx: client })
    await topic.schedule({ key: 'soon', delay: '3s', payload: 0 }, { tx: client })
    await client.query('SELECT pg_sleep(1)')
    expect(rung.size).toBe(0)
    await client.query('COMMIT')
    await expect.poll(() => rung.size, { timeout: 10_000 }).toBe(2)
    expect(rung.get('soon')).toBeLessThan(1_000)
  },
)

test('a savepoint that is undone takes along what was written after it, and nothing else', async () => {
  const task = (key: string) => ({ key, delay: '1h', payload: 0 })
  await topic.schedule(task('before'))
  await client.query('BEGIN')
  await topic.schedule(task('kept'), { tx: client })
  await client.query('SAVEPOINT here')
  await topic.schedule(task('undone'), { tx: client })
  expect(await topic.cancel('before', { tx: client })).toMatchObject({ outcome: 'cancelled' })
  await client.query('ROLLBACK TO SAVEPOINT here')
  expect(await topic.reschedule('before', { delay: '2h' }, { tx: client })).toMatchObject({
    outcome: 'rescheduled',
  })
  await client.query('COMMIT')
  const states = await Promise.all(['before', 'kept', 'undone'].map((key) => topic.get(key)))
  expect(states.map((info) => info?.state ?? null)).toEqual(['pending', 'pending', null])
  expect(await toc.audit()).toMatchObject([{ balances: true, books: { scheduled: 2, pending: 2 } }])
})

test('a connection that dies before its commit has written nothing; one that dies after it has', async () => {
  const rung: string[] = []
  topic.consume(async ({ key }) => void rung.push(key))
  const dying = async (last: 'BEGIN' | 'COMMIT', key: string): Promise<void> => {
    const doomed = new pg.Client({ connectionString: pool.options.connectionString as string })
    doomed.on('error', () => {})
    await doomed.connect()
    await doomed.query('BEGIN')
    await topic.schedule({ key, delay: 100, payload: 0 }, { tx: doomed })
    if (last === 'COMMIT') await doomed.query('COMMIT')
    const { rows } = await doomed.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    await client.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
    await doomed.end().catch(() => {})
  }
  await dying('BEGIN', 'never')
  await dying('COMMIT', 'fires')
  await expect.poll(async () => (await topic.get('fires'))?.state, { timeout: 10_000 }).toBe('done')
  expect(rung).toEqual(['fires'])
  expect(await topic.get('never')).toBeNull()
  expect(await toc.audit()).toMatchObject([{ balances: true, books: { scheduled: 1, done: 1 } }])
})

test('not awaited, it is in the transaction, or nowhere: never in the next one, and never alone', async () => {
  await client.query('CREATE TABLE line (n integer)')
  // Whatever the write waits for meanwhile: the transaction ends after any number of other statements.
  for (let others = 0; others < 8; others++)
    for (const end of ['ROLLBACK', 'COMMIT'])
      for (const call of ['schedule', 'cancel'] as const) {
        const key = `${call}-${others}-${end}`
        if (call === 'cancel') await topic.schedule({ key, delay: '1h', payload: 0 })
        await client.query('BEGIN')
        const forgotten = (
          call === 'schedule'
            ? topic.schedule({ key, delay: '1h', payload: 0 }, { tx: client })
            : topic.cancel(key, { tx: client })
        ).then(
          ({ outcome }) => outcome as string,
          (error: unknown) => (error as { code: string }).code,
        )
        for (let n = 0; n < others; n++) await client.query('INSERT INTO line VALUES (1)')
        await client.query(end)
        await client.query('BEGIN')
        await client.query('INSERT INTO line VALUES (2)')
        const answer = await forgotten
        // Somebody else's, who knows of nothing: it is as good as it was.
        await client.query('COMMIT')
        const isThere = (await topic.get(key))?.state === 'pending'
        const isDone = ['created', 'cancelled'].includes(answer) && end === 'COMMIT'
        expect({ key, isThere }).toEqual({ key, isThere: call === 'schedule' ? isDone : !isDone })
        if (!isDone && end === 'COMMIT') expect({ key, answer }).toEqual({ key, answer: 'bad-tx' })
      }
  expect(await toc.audit()).toMatchObject([{ balances: true }])
})

test('what is wrong with a task is rejected, not thrown: whoever awaits it hears of it', async () => {
  await client.query('BEGIN')
  const call = topic.schedule({ key: '..', delay: '1h', payload: 0 }, { tx: client })
  await expect(call).rejects.toMatchObject({ code: 'bad-key' })
  await client.query('ROLLBACK')
})

test('a statement of the caller that failed: the write says so, and the rollback leaves nothing', async () => {
  await client.query('BEGIN')
  await topic.schedule({ key: 'a', delay: '1h', payload: 0 }, { tx: client })
  await client.query('SELECT 1 / 0').catch(() => {})
  expect(
    await failure(() => topic.schedule({ key: 'b', delay: '1h', payload: 0 }, { tx: client })),
  ).toMatchObject({ code: 'bad-tx', message: expect.stringContaining('ROLLBACK') })
  await client.query('ROLLBACK')
  expect((await topic.counts()).pending).toBe(0)

  // Also where it is the first that is heard of a connection.
  const fresh = await pool.connect()
  await fresh.query('BEGIN')
  await fresh.query('SELECT 1 / 0').catch(() => {})
  expect(await failure(() => topic.cancel('a', { tx: fresh }))).toMatchObject({
    code: 'bad-tx',
    message: expect.stringContaining('ROLLBACK'),
  })
  await fresh.query('ROLLBACK')
  fresh.release()
})

describe('refused', () => {
  const bad = { code: 'bad-tx', retryable: false }

  test('a pool, and what is no client', async () => {
    const task = { key: 'a', delay: '1h', payload: 0 }
    expect(await failure(() => topic.schedule(task, { tx: wrong(pool) }))).toMatchObject(bad)
    expect(await failure(() => topic.schedule(task, { tx: wrong({}) }))).toMatchObject(bad)
    expect(await topic.get('a')).toBeNull()
  })

  test('a client without an open transaction: nothing is written', async () => {
    const error = await failure(() => topic.schedule({ key: 'a', delay: '1h', payload: 0 }, { tx: client }))
    expect(error).toMatchObject({ ...bad, message: expect.stringContaining('BEGIN') })
    expect(await topic.get('a')).toBeNull()
  })

  test('a client of another database; its transaction is not spoiled by it', async () => {
    const elsewhere = new pg.Client({ connectionString: await server.createDatabase() })
    await elsewhere.connect()
    try {
      await elsewhere.query('BEGIN')
      const task = { key: 'a', delay: '1h', payload: 0 }
      const error = await failure(() => topic.schedule(task, { tx: wrong(elsewhere) }))
      expect(error).toMatchObject({ ...bad, message: expect.stringContaining('another one') })
      expect((await elsewhere.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
      await elsewhere.query('COMMIT')
    } finally {
      await elsewhere.end()
    }
  })
})

test('over several databases: what lives in one of them may be written there, and nowhere else', async () => {
  const urls = [await server.createDatabase(), await server.createDatabase()]
  await using both = await Tocsin.open({ ledger: urls, logger: false })
  const spread = both.topic<number>('spread')
  const keys = Array.from({ length: 40 }, (_, n) => `k${n}`)
  await spread.scheduleMany(keys.map((key) => ({ key, delay: '1h', payload: 0 })))
  const first = new pg.Client({ connectionString: urls[0] as string })
  await first.connect()
  try {
    await first.query('BEGIN')
    const outcomes = new Set<string>()
    for (const key of keys) {
      const answer = await spread.cancel(key, { tx: wrong(first) }).catch((error: unknown) => error)
      outcomes.add(
        (answer as { outcome?: string; code?: string }).outcome ?? (answer as { code: string }).code,
      )
    }
    expect([...outcomes].toSorted()).toEqual(['bad-tx', 'cancelled'])
    await first.query('ROLLBACK')
    expect((await spread.counts()).pending).toBe(40)
  } finally {
    await first.end()
  }
})
