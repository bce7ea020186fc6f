/** `{ transaction: true }`: what a handler writes through `tx` and the outcomes of its tasks are one commit. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Tocsin, type Topic, type TransactionContext } from 'tocsin'
import { type PostgresServer, sql, startPostgres, pooled } from '../real-servers/postgres-server.ts'
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

const SOON = { timeout: 15_000 }
const RETRY = { min: '20ms', max: '20ms', jitter: 0 }

describe.each(['PostgreSQL alone', 'PostgreSQL with Redis'])('%s', (composition) => {
  let url: string
  let toc: Tocsin
  let topic: Topic<number, number>

  beforeEach(async () => {
    url = await server.createDatabase()
    await sql(url, 'CREATE TABLE effect (key text PRIMARY KEY, times integer NOT NULL)')
    const timetable = composition === 'PostgreSQL alone' ? {} : { timetable: redis.url }
    toc = await Tocsin.open({ ledger: url, ...timetable, logger: false })
    topic = toc.topic<number>('expiry', { retry: RETRY })
  })
  afterEach(() => toc.close())

  const effects = async (): Promise<Record<string, number>> => {
    const rows = await sql<{ key: string; times: number }>(url, 'SELECT key, times FROM effect')
    return Object.fromEntries(rows.map(({ key, times }) => [key, times]))
  }
  const write = ({ tx }: TransactionContext, key: string) =>
    tx.query('INSERT INTO effect VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET times = effect.times + 1', [
      key,
    ])
  const stateOf = async (key: string) => (await topic.get(key))?.state ?? null

  test('done: both are there; nobody saw one of them without the other', async () => {
    const early: string[] = []
    topic.consumeBatch(
      async (tasks, context) => {
        for (const { key } of tasks) await write(context, key)
        // Not committed, and so nobody else's business yet.
        const seen = await effects()
        if (tasks.some(({ key }) => key in seen)) early.push(...tasks.map(({ key }) => key))
      },
      { transaction: true },
    )
    const keys = Array.from({ length: 50 }, (_, n) => `k${n}`)
    await topic.scheduleMany(keys.map((key) => ({ key, at: Date.now() + 300, payload: 0 })))
    await expect.poll(async () => Object.keys(await effects()).length, SOON).toBe(50)
    expect(await Promise.all(keys.map(stateOf))).toEqual(keys.map(() => 'done'))
    expect(new Set(Object.values(await effects()))).toEqual(new Set([1]))
    expect(early).toEqual([])
    expect(await toc.audit()).toMatchObject([{ balances: true, books: { done: 50, pending: 0 } }])
  })

  test('the tasks of many cells are one call, and one transaction', async () => {
    const calls: { tasks: number; transaction: string }[] = []
    topic.consumeBatch(
      async (tasks, { tx }) => {
        const { rows } = await tx.query('SELECT pg_current_xact_id()::text AS id')
        calls.push({ tasks: tasks.length, transaction: (rows as { id: string }[])[0]!.id })
      },
      { transaction: true },
    )
    await topic.pause()
    await topic.scheduleMany(Array.from({ length: 200 }, (_, n) => ({ key: `k${n}`, delay: 0, payload: 0 })))
    await topic.resume()
    await expect.poll(async () => (await toc.audit())[0]?.books.done, SOON).toBe(200)
    expect(calls).toEqual([{ tasks: 200, transaction: expect.stringMatching(/^\d+$/) }])
  })

  test('thrown: neither; the next attempt has both', async () => {
    const attempts: number[] = []
    topic.consume(
      async ({ key, attempt }, context) => {
        attempts.push(attempt)
        await write(context, key)
        if (attempt === 1) throw new Error('no')
      },
      { transaction: true },
    )
    await topic.schedule({ key: 'a', delay: 1, payload: 0 })
    await expect.poll(() => stateOf('a'), SOON).toBe('done')
    expect(attempts).toEqual([1, 2])
    expect(await effects()).toEqual({ a: 1 })
  })

  test('one of a batch throws: all is undone; it is retried, the others come again without a failure', async () => {
    const calls: { keys: string[]; attempts: number[] }[] = []
    topic.consumeBatch(
      async (tasks, context) => {
        calls.push({ keys: tasks.map(({ key }) => key), attempts: tasks.map(({ attempt }) => attempt) })
        return Promise.allSettled(
          tasks.map(async ({ key, attempt }) => {
            await write(context, key)
            if (key === 'bad' && attempt === 1) throw new Error('no')
          }),
        )
      },
      { transaction: true, concurrency: 1 },
    )
    const at = Date.now() + 300
    await topic.scheduleMany(['bad', 'good', 'fine'].map((key) => ({ key, at, payload: 0 })))
    await expect
      .poll(async () => Promise.all(['bad', 'good', 'fine'].map(stateOf)), SOON)
      .toEqual(['done', 'done', 'done'])
    expect(await effects()).toEqual({ bad: 1, good: 1, fine: 1 })
    const attemptsOf = (key: string) =>
      calls.flatMap(({ keys, attempts }) => keys.flatMap((one, i) => (one === key ? attempts[i] : [])))
    expect(attemptsOf('bad')).toContain(2)
    expect([...new Set([...attemptsOf('good'), ...attemptsOf('fine')])]).toEqual([1])
  })

  test('an outcome that is answered commits, too: snooze, retry, dead', async () => {
    const seen: string[] = []
    topic.consumeBatch(
      async (tasks, context) => {
        for (const { key, deliveries } of tasks) {
          seen.push(`${key}/${deliveries}`)
          await write(context, key)
        }
        return tasks.map(({ key, deliveries }) => {
          if (deliveries > 1) return
          if (key === 'snooze') return { snooze: 50 }
          return key === 'retry' ? { retry: 50, reason: 'later' } : { dead: 'no use' }
        })
      },
      { transaction: true },
    )
    const at = Date.now() + 300
    await topic.scheduleMany(['snooze', 'retry', 'dead'].map((key) => ({ key, at, payload: 0 })))
    await expect
      .poll(async () => Promise.all(['snooze', 'retry', 'dead'].map(stateOf)), SOON)
      .toEqual(['done', 'done', 'dead'])
    expect(await effects()).toEqual({ snooze: 2, retry: 2, dead: 1 })
    expect(seen.toSorted()).toEqual(['dead/1', 'retry/1', 'retry/2', 'snooze/1', 'snooze/2'])
  })

  test('a statement that fails, and is caught by the handler, undoes the rest all the same', async () => {
    let attempts = 0
    topic.consume(
      async ({ key, attempt }, context) => {
        attempts = attempt
        await write(context, key)
        if (attempt === 1) await context.tx.query('SELECT 1 / 0', []).catch(() => {})
      },
      { transaction: true },
    )
    await topic.schedule({ key: 'a', delay: 1, payload: 0 })
    await expect.poll(() => stateOf('a'), SOON).toBe('done')
    expect(attempts).toBe(2)
    expect(await effects()).toEqual({ a: 1 })
  })

  test('replaced while its handler runs: what that one wrote is undone, the newer one counts', async () => {
    const written: number[] = []
    topic.consume(
      async ({ key, payload }, context) => {
        written.push(payload)
        await write(context, key)
        if (payload === 1) await topic.schedule({ key, delay: 1, payload: 2 })
      },
      { transaction: true },
    )
    await topic.schedule({ key: 'a', delay: 1, payload: 1 })
    await expect.poll(() => stateOf('a'), SOON).toBe('done')
    expect(written).toEqual([1, 2])
    expect(await effects()).toEqual({ a: 1 })
    expect(await toc.audit()).toMatchObject([{ balances: true }])
  })

  test('its own next task, and those of others, are part of it', async () => {
    topic.consume(
      async ({ key, payload }, context) => {
        const { tx } = context
        await write(context, key)
        if (payload < 3) await topic.schedule({ key, delay: 10, payload: payload + 1 }, { tx })
        else await topic.schedule({ key: 'other', delay: '1h', payload: 0 }, { tx })
      },
      { transaction: true },
    )
    await topic.schedule({ key: 'chain', delay: 1, payload: 1 })
    await expect.poll(() => stateOf('other'), SOON).toBe('pending')
    expect(await effects()).toEqual({ chain: 3 })
    expect(await stateOf('chain')).toBe('done')
    expect(await toc.audit()).toMatchObject([{ balances: true }])
  })

  test('a handler that hangs is undone at its timeout, and its connection is free again', async () => {
    const hung = toc.topic<number>('hangs', { timeout: '300ms', retry: RETRY })
    const late: unknown[] = []
    let startSecond = () => {}
    const secondStarted = new Promise<void>((resolve) => {
      startSecond = resolve
    })
    hung.consume(
      async ({ key, attempt }, context) => {
        await write(context, key)
        if (attempt > 1) return startSecond()
        await new Promise((resolve) => context.signal.addEventListener('abort', resolve))
        // Goes on although its task was started again: its transaction is over.
        await secondStarted
        await context.tx.query('SELECT 1', []).catch((error: unknown) => late.push(error))
      },
      { transaction: true, concurrency: 1 },
    )
    await hung.schedule({ key: 'a', delay: 1, payload: 0 })
    await expect.poll(async () => (await hung.get('a'))?.state, SOON).toBe('done')
    expect(await effects()).toEqual({ a: 1 })
    await expect.poll(() => late.length, SOON).toBe(1)
    expect(late).toMatchObject([{ code: 'bad-tx' }])
  })

  test('it is not the handler that ends it', async () => {
    const refused: unknown[] = []
    topic.consume(
      async ({ key }, context) => {
        await write(context, key)
        for (const text of ['COMMIT', ' rollback', '/* x */ BEGIN', '-- x\n;end;', 'START TRANSACTION'])
          await context.tx.query(text, []).catch((error: unknown) => refused.push(error))
        await context.tx.query('SAVEPOINT here', [])
        await write(context, 'other')
        await context.tx.query('ROLLBACK TO SAVEPOINT here', [])
      },
      { transaction: true },
    )
    await topic.schedule({ key: 'a', delay: 1, payload: 0 })
    await expect.poll(() => stateOf('a'), SOON).toBe('done')
    expect(refused).toHaveLength(5)
    for (const error of refused) expect(error).toMatchObject({ code: 'bad-tx' })
    expect(await effects()).toEqual({ a: 1 })
  })

  test('what fails at the commit is a failure of the attempt, and not for ever', async () => {
    await sql(
      url,
      'ALTER TABLE effect ADD FOREIGN KEY (key) REFERENCES effect_of DEFERRABLE INITIALLY DEFERRED',
    ).catch(async () => {
      await sql(url, 'CREATE TABLE effect_of (key text PRIMARY KEY)')
      await sql(
        url,
        'ALTER TABLE effect ADD FOREIGN KEY (key) REFERENCES effect_of DEFERRABLE INITIALLY DEFERRED',
      )
    })
    const strict = toc.topic<number>('strict', { retry: { ...RETRY, maxAttempts: 3 } })
    let calls = 0
    strict.consume(
      async ({ key }, context) => {
        calls++
        await write(context, key)
      },
      { transaction: true },
    )
    await strict.schedule({ key: 'a', delay: 1, payload: 0 })
    await expect.poll(async () => (await strict.get('a'))?.state, SOON).toBe('dead')
    expect(calls).toBe(3)
    expect((await strict.get('a'))?.lastError).toContain('foreign key')
    expect(await effects()).toEqual({})
  })

  test('closed while some wait for a connection: these are not called any more, and it ends in time', async () => {
    const { postgres } = await import('tocsin/postgres')
    const few = await Tocsin.open({ ledger: postgres({ url, connections: 2 }), logger: false })
    const busy = few.topic<number>('busy')
    const started: string[] = []
    let aborted = 0
    busy.consume(
      async ({ key }, { signal }) => {
        started.push(key)
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        aborted++
      },
      { transaction: true, concurrency: 6 },
    )
    await busy.scheduleMany([1, 2, 3, 4, 5, 6].map((n) => ({ key: `k${n}`, delay: 1, payload: n })))
    await expect.poll(() => started.length, SOON).toBe(2)
    await few.close({ timeout: '200ms' })
    expect(started).toHaveLength(2)
    await expect.poll(() => aborted, SOON).toBe(2)
    // The server ends a connection a moment after its client has.
    const connections = "SELECT FROM pg_stat_activity WHERE application_name = 'tocsin handlers'"
    await expect.poll(() => sql(url, connections), SOON).toEqual([])
    const { pending, claimed } = await toc.topic('busy').counts()
    expect({ pending, claimed }).toEqual({ pending: 6, claimed: 0 })
  })

  test('a handler that lost its task meanwhile does not go on by scheduling it anew', async () => {
    const own = toc.topic<number>('own', { lease: '1s', retry: RETRY })
    const errors: unknown[] = []
    own.consume(
      async ({ key, payload }, context) => {
        await write(context, `${key}/${payload}`)
        if (payload > 1) return
        // Taken away while it was not looking: as after a stall, when somebody else has done it.
        await sql(url, 'UPDATE tocsin.live SET stamp = stamp + 1 WHERE key = $1', [key])
        const again = own.schedule({ key, delay: 1, payload: 2 }, { tx: context.tx })
        await again.catch((error: unknown) => errors.push(error))
        await sql(url, 'UPDATE tocsin.live SET stamp = stamp - 1 WHERE key = $1', [key])
        await again
      },
      { transaction: true },
    )
    await own.schedule({ key: 'a', delay: 1, payload: 1 })
    await expect.poll(() => errors.length, SOON).toBeGreaterThan(0)
    expect(errors[0]).toMatchObject({ code: 'lease-lost' })
    expect(await effects()).toEqual({})
  })

  test('more calls at once than there are connections: they take turns, and leases are kept meanwhile', async () => {
    const keys = Array.from({ length: 60 }, (_, n) => `k${n}`)
    topic.consume(
      async ({ key }, context) => {
        await write(context, key)
        await context.tx.query('SELECT pg_sleep(0.05)', [])
      },
      { transaction: true, concurrency: 40 },
    )
    await topic.scheduleMany(keys.map((key) => ({ key, at: Date.now() + 300, payload: 0 })))
    await expect.poll(async () => Object.keys(await effects()).length, SOON).toBe(60)
    expect(new Set(Object.values(await effects()))).toEqual(new Set([1]))
  })
})

test('refused where a handler cannot be waited for inside a transaction', async () => {
  const nothing = async () => {}
  await using memory = await Tocsin.open({ timetable: 'memory:', logger: false })
  expect(() => memory.topic('t').consume(nothing, { transaction: true })).toThrowError(
    expect.objectContaining({ code: 'ledger-required' }),
  )
  await using spread = await Tocsin.open({
    ledger: [await server.createDatabase(), await server.createDatabase()],
    logger: false,
  })
  expect(() => spread.topic('t').consume(nothing, { transaction: true })).toThrowError(
    expect.objectContaining({ code: 'ledger-required' }),
  )
})

test('of a pool that is yours, handlers take half at most', async () => {
  const { postgres } = await import('tocsin/postgres')
  const pool = pooled(await server.createDatabase(), { max: 4 })
  const toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
  try {
    const topic = toc.topic<number>('t')
    let [running, most] = [0, 0]
    const done = new Set<string>()
    topic.consume(
      async ({ key }, { tx }) => {
        most = Math.max(most, ++running)
        await tx.query('SELECT pg_sleep(0.05)', [])
        running--
        done.add(key)
      },
      { transaction: true, concurrency: 20 },
    )
    const at = Date.now() + 300
    await topic.scheduleMany(Array.from({ length: 20 }, (_, n) => ({ key: `k${n}`, at, payload: 0 })))
    await expect.poll(() => done.size, SOON).toBe(20)
    expect(most).toBe(2)
  } finally {
    await toc.close()
    await pool.end()
  }
})
