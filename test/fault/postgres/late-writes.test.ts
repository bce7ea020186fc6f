/**
 * A write that goes on in PostgreSQL after its caller was told 'unknown-outcome' changes nothing. A transaction locks
 * the whole table, so that the write waits. The same transaction then writes the same key, and commits.
 */
import { Tocsin, type Topic } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connected, type PostgresServer, sql, startPostgres } from '../../real-servers/postgres-server.ts'
import { startProxy, type TcpProxy } from '../../real-servers/tcp-proxy.ts'
import { eventually } from '../helpers.ts'

const CALL_TIMEOUT_MS = 1_000

let postgres: PostgresServer
let proxy: TcpProxy
beforeAll(async () => {
  postgres = await startPostgres({ tls: true })
  proxy = await startProxy(postgres)
}, 60_000)
afterAll(async () => {
  await proxy.stop()
  await postgres.stop()
})

type T = Topic<string, string>
type Options = Parameters<T['cancel']>[1]

const OLD = { key: 'k', delay: '1h', payload: 'old' }
const NEW = { key: 'k', delay: '1h', payload: 'new' }
const scheduleNew = (topic: T, options: Options) => topic.schedule(NEW, options)

const CASES: {
  name: string
  first: (topic: T) => Promise<unknown>
  late: (topic: T) => Promise<unknown>
  /** What follows 'unknown-outcome'. */
  then: (topic: T, options: Options) => Promise<unknown>
  payload: string | null
}[] = [
  {
    name: 'an old schedule does not replace the new task',
    first: async () => {},
    late: (topic) => topic.schedule(OLD),
    then: scheduleNew,
    payload: 'new',
  },
  {
    name: 'nor one of a batch',
    first: async () => {},
    late: (topic) => topic.scheduleMany([OLD, { key: 'l', delay: '1h', payload: 'old' }]),
    then: scheduleNew,
    payload: 'new',
  },
  {
    name: 'after a cancel that found nothing there is nothing',
    first: async () => {},
    late: (topic) => topic.schedule(OLD),
    then: async (topic, options) =>
      expect(await topic.cancel('k', options)).toMatchObject({ outcome: 'not-found' }),
    payload: null,
  },
  {
    name: 'nor after an old schedule that keeps',
    first: async () => {},
    late: (topic) => topic.schedule({ ...OLD, onConflict: 'keep' }),
    then: async (topic, options) =>
      expect(await topic.cancel('k', options)).toMatchObject({ outcome: 'not-found' }),
    payload: null,
  },
  {
    name: 'an old cancel does not remove the new task',
    first: (topic) => topic.schedule(OLD),
    late: (topic) => topic.cancel('k'),
    then: scheduleNew,
    payload: 'new',
  },
  {
    name: 'an old reschedule does not move the new task',
    first: (topic) => topic.schedule(OLD),
    late: (topic) => topic.reschedule('k', { delay: '9h' }),
    then: scheduleNew,
    payload: 'new',
  },
]

/** How many statements of Tocsin run or wait in PostgreSQL now. */
async function running(url: string): Promise<number> {
  const [row] = await sql<{ n: number }>(
    url,
    `SELECT count(*)::integer AS n FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'tocsin' AND state = 'active'`,
  )
  return row!.n
}

async function openBoth(url: string): Promise<{ direct: Tocsin; behindProxy: Tocsin } & AsyncDisposable> {
  const direct = await Tocsin.open({ ledger: url, logger: false })
  const behindProxy = await Tocsin.open({
    ledger: proxy.url(url),
    callTimeout: CALL_TIMEOUT_MS,
    logger: false,
  })
  return {
    direct,
    behindProxy,
    async [Symbol.asyncDispose]() {
      await behindProxy.close({ timeout: 0 })
      await direct.close({ timeout: 0 })
    },
  }
}

test.each(CASES)('$name', { timeout: 60_000 }, async ({ first, late, then, payload }) => {
  const url = await postgres.createDatabase()
  await using both = await openBoth(url)
  const topic = both.direct.topic<string>('late')
  const topicBehindProxy = both.behindProxy.topic<string>('late')
  await first(topic)
  await topicBehindProxy.schedule({ key: 'other', delay: '1h', payload: '' })

  await using holder = await connected(url)
  await holder.query('BEGIN; LOCK TABLE tocsin.live IN ACCESS EXCLUSIVE MODE')
  // The cancel request needs a new connection, so it is lost.
  proxy.refuse()
  await expect(late(topicBehindProxy)).rejects.toMatchObject({ code: 'unknown-outcome' })
  expect(await running(url)).toBeGreaterThan(0)
  await then(topic, { tx: holder })
  await holder.query('COMMIT')
  await eventually('the late write has ended', async () => (await running(url)) === 0)
  await proxy.accept()

  const task = await topic.get('k')
  expect(task?.state === 'pending' ? task.payload : null).toBe(payload)
  if (payload !== null) expect(task!.dueAt.getTime() - Date.now()).toBeLessThan(2 * 3_600_000)
})

test.each([
  ['', ''],
  [', with TLS', '?sslmode=no-verify'],
])('a write whose caller gave up is cancelled in PostgreSQL%s', { timeout: 60_000 }, async (_, mode) => {
  const url = `${await postgres.createDatabase()}${mode}`
  await using both = await openBoth(url)
  const topic = both.behindProxy.topic<string>('late')
  await topic.schedule({ key: 'other', delay: '1h', payload: '' })
  await using holder = await connected(url)
  await holder.query('BEGIN; LOCK TABLE tocsin.live IN ACCESS EXCLUSIVE MODE')
  await expect(topic.schedule(OLD)).rejects.toMatchObject({ code: 'unknown-outcome' })
  // The table is still locked.
  await eventually('no statement waits any longer', async () => (await running(url)) === 0)
})

test('a caller is told only when the write has taken effect or never will', { timeout: 60_000 }, async () => {
  const url = await postgres.createDatabase()
  await using both = await openBoth(url)
  const topic = both.behindProxy.topic<string>('late')
  await topic.schedule({ key: 'other', delay: '1h', payload: '' })
  await using holder = await connected(url)
  await holder.query('BEGIN; LOCK TABLE tocsin.live IN ACCESS EXCLUSIVE MODE')
  const startedMs = performance.now()
  const writing = topic.schedule(OLD)
  await eventually('the write waits for the lock', async () => (await running(url)) > 0)
  // The connection is gone at once; PostgreSQL goes on.
  proxy.cut()
  await expect(writing).rejects.toMatchObject({ code: 'unknown-outcome' })
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(CALL_TIMEOUT_MS - 5)
})

test(
  "a write finds its time again after PostgreSQL's clock was set forward",
  { timeout: 60_000 },
  async () => {
    const url = await postgres.createDatabase()
    await using both = await openBoth(url)
    const topic = both.direct.topic<string>('late')
    await topic.schedule({ key: 'other', delay: '1h', payload: '' })
    await sql(
      url,
      `CREATE OR REPLACE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
     $$ SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint + 86400000 $$`,
    )
    await topic.schedule(NEW)
    expect((await topic.get('k'))!.dueAt.getTime() - Date.now()).toBeGreaterThan(86_400_000)
  },
)
