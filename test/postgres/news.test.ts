/** What is committed in a caller's transaction gets to whoever rings: in time, and without telling more than it must. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

let server: PostgresServer
let redis: RedisServer
beforeAll(async () => {
  server = await startPostgres()
  redis = await startRedis()
}, 60_000)
afterAll(async () => {
  await redis.stop()
  await server.stop()
}, 60_000)

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

test.each(['PostgreSQL alone', 'PostgreSQL with Redis'])(
  '%s: written by another process that then dies, due in 200 ms, it is on time',
  { timeout: 30_000 },
  async (composition) => {
    const url = await server.createDatabase()
    const timetable = composition === 'PostgreSQL alone' ? {} : { timetable: redis.url }
    await using worker = await Tocsin.open({ ledger: url, ...timetable, logger: false })
    const latenessesMs: number[] = []
    worker.topic<number>('soon').consume(async ({ latenessMs }) => void latenessesMs.push(latenessMs))
    await using client = await connected(url)
    for (let n = 0; n < 9; n++) {
      // It is closed as soon as the commit is sent: nobody is left who could tell the timetable.
      const writer = await Tocsin.open({ ledger: url, ...timetable, logger: false })
      await client.query('BEGIN')
      await writer.topic<number>('soon').schedule({ key: `k${n}`, delay: 200, payload: n }, { tx: client })
      await client.query('COMMIT')
      await writer.close()
      await expect.poll(() => latenessesMs.length, { timeout: 10_000 }).toBe(n + 1)
    }
    // Found by looking once a second, half of them would be later than that.
    expect(median(latenessesMs)).toBeLessThan(250)
    expect(await sql(url, 'SELECT * FROM tocsin.news')).toEqual([])
  },
)

test(
  'cancelled in a transaction while it is in flight: the signal tells its handler',
  { timeout: 20_000 },
  async () => {
    const url = await server.createDatabase()
    await using toc = await Tocsin.open({ ledger: url, timetable: redis.url, logger: false })
    const topic = toc.topic<number>('aborted')
    let started = () => {}
    const running = new Promise<void>((resolve) => {
      started = resolve
    })
    const reasons: unknown[] = []
    topic.consume(async (_, { signal }) => {
      started()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      reasons.push(signal.reason)
    })
    await topic.schedule({ key: 'a', delay: 1, payload: 0 })
    await running
    await using client = await connected(url)
    await client.query('BEGIN')
    expect(await topic.cancel('a', { tx: client })).toMatchObject({ outcome: 'in-flight' })
    await client.query('COMMIT')
    await expect.poll(() => reasons, { timeout: 10_000 }).toMatchObject([{ code: 'cancelled' }])
  },
)

test(
  'told once per transaction, and only of what rings before the next look',
  { timeout: 20_000 },
  async () => {
    const url = await server.createDatabase()
    await using toc = await Tocsin.open({ ledger: url, timetable: redis.url, logger: false })
    const topic = toc.topic<number>('told')
    await using ears = await connected(url)
    const heard: string[] = []
    ears.on('notification', ({ payload }) => void heard.push(payload ?? ''))
    await ears.query('LISTEN tocsin')
    await using client = await connected(url)
    const commit = async (delays: readonly (string | number)[]) => {
      await client.query('BEGIN')
      for (const [n, delay] of delays.entries())
        await topic.schedule({ key: `k${n}-${delay}`, delay, payload: 0 }, { tx: client })
      await client.query('COMMIT')
      // Whatever was told before this is heard by now.
      await client.query("SELECT pg_notify('tocsin', '?end')")
      await expect.poll(() => heard.includes('?end'), { timeout: 5_000 }).toBe(true)
      const told = heard.filter((payload) => !payload.startsWith('?'))
      heard.length = 0
      return told
    }
    expect(await commit(['10s', '1h', '30d'])).toEqual([])
    expect(await commit([10, 20, 30])).toEqual(['told'])
    // Writes of its own need nobody else: it tells Redis itself.
    await topic.scheduleMany([1, 2, 3].map((n) => ({ key: `own-${n}`, delay: 10, payload: 0 })))
    expect(await commit(['1h'])).toEqual([])
  },
)

test('rolled back, there is no news', async () => {
  const url = await server.createDatabase()
  await using toc = await Tocsin.open({ ledger: url, timetable: redis.url, logger: false })
  await using client = await connected(url)
  await client.query('BEGIN')
  await toc.topic<number>('undone').schedule({ key: 'a', delay: 10, payload: 0 }, { tx: client })
  await client.query('ROLLBACK')
  expect(await sql(url, 'SELECT * FROM tocsin.news')).toEqual([])
})
