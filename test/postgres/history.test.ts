/** How ended tasks are kept: as batches, as rows, or not at all. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Tocsin } from '../../src/index.ts'
import type { Ledger } from '../../src/ledger.ts'
import { Readings } from '../../src/ledgers/postgres/readings.ts'
import { BATCH_MIN, BATCH_TASKS_MAX } from '../../src/ledgers/postgres/statements/batches.ts'
import type { ListQuery } from '../../src/timetable.ts'
import { LAST_INSTANT_MS } from '../../src/values/instant.ts'
import { entry, place } from '../contract/timetable/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { untilLockWaiters } from './lock-waiters.ts'
import { openLedger } from './open-ledger.ts'

const LEASE_MS = 60_000
/** As many tasks as make a batch. They are in one cell, whatever their keys. */
const CELL = 5
const KEYS = Array.from({ length: BATCH_MIN }, (_, n) => `k${String(n).padStart(3, '0')}`)

let server: PostgresServer
let url: string
let ledger: Ledger
let topic: string
let topics = 0
let stamp = 0

const open = () => openLedger(url)

beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server.stop(), 60_000)
beforeEach(async () => {
  url = await server.createDatabase()
  ledger = await open()
  topic = `history-${++topics}`
}, 60_000)
afterEach(() => ledger.close())

const at = (key: string) => ({ ...place(key), cell: CELL })

async function schedule(keys: readonly string[], options: Parameters<typeof entry>[1] = {}): Promise<void> {
  const entries = keys.map((key) => ({ ...entry(key, options), cell: CELL }))
  for (let n = 0; n < entries.length; n += 1_000) await ledger.schedule(topic, entries.slice(n, n + 1_000), 0)
}

/** Claims the tasks in one call, and returns its stamp. */
async function claim(keys: readonly string[]): Promise<number> {
  const mine = ++stamp
  const request = { stamp: mine, leaseMs: LEASE_MS, nowMs: await ledger.nowMs(), alone: false }
  const verdicts = await ledger.claim(topic, request, keys.map(at))
  expect(verdicts.filter(({ kind }) => kind !== 'ours')).toEqual([])
  return mine
}

async function settle(
  keys: readonly string[],
  mine: number,
  kind: 'done' | 'obsolete' = 'done',
): Promise<string[]> {
  const settlements = keys.map((key) => ({ ...at(key), stamp: mine, outcome: { kind } as const }))
  return (await ledger.settle(topic, settlements)).map(({ answer }) => answer)
}

async function end(keys: readonly string[], kind: 'done' | 'obsolete' = 'done'): Promise<void> {
  expect(new Set(await settle(keys, await claim(keys), kind))).toEqual(new Set(['settled']))
}

async function numberOf(table: string): Promise<number> {
  const [row] = await sql<{ count: number }>(url, `SELECT count(*)::integer AS count FROM tocsin.${table}`)
  return row?.count ?? 0
}

const QUERY: ListQuery = {
  state: 'done',
  tag: null,
  prefix: null,
  dueFromMs: 0,
  dueToMs: LAST_INSTANT_MS,
  limit: 1_000,
  after: null,
}

async function listed(query: Partial<ListQuery> = {}): Promise<string[]> {
  return (await ledger.list(topic, { ...QUERY, ...query })).map(({ key }) => key)
}

async function expectBalance(): Promise<void> {
  const { books, counted } = await ledger.recount(topic)
  const { pending, claimed, dead, done, cancelled, obsolete } = books
  expect(counted).toEqual({ pending, claimed, dead, done, cancelled, obsolete })
}

describe('a batch', () => {
  test('is one row for tasks that were claimed and ended together, and each of them can be read', async () => {
    await schedule(KEYS)
    await end(KEYS)
    expect([await numberOf('ended_batch'), await numberOf('ended'), await numberOf('live')]).toEqual([
      1, 0, 0,
    ])
    for (const key of KEYS)
      expect(await ledger.get(topic, at(key))).toMatchObject({
        key,
        state: 'done',
        body: entry(key).body,
        deliveries: 1,
        failures: 0,
        tags: [],
      })
    expect(await ledger.get(topic, at('k999'))).toBeNull()
    expect(await listed()).toEqual(KEYS)
    await expectBalance()
  })

  test('has no fewer tasks than are worth it', async () => {
    const few = KEYS.slice(1)
    await schedule(few)
    await end(few)
    expect([await numberOf('ended_batch'), await numberOf('ended')]).toEqual([0, few.length])
    expect(await listed()).toEqual(few)
  })

  test('leaves out tasks that are not as most: with tags, retried, urgent', async () => {
    await schedule(KEYS)
    await schedule(['tagged'], { tags: ['t'] })
    await schedule(['urgent'], { priority: 'high' })
    await schedule(['retried'])
    const first = await claim(['retried'])
    await ledger.settle(topic, [
      { ...at('retried'), stamp: first, outcome: { kind: 'retry', delayMs: 0, error: 'once' } },
    ])
    const all = [...KEYS, 'tagged', 'urgent', 'retried']
    await end(all)
    expect([await numberOf('ended_batch'), await numberOf('ended')]).toEqual([1, 3])
    expect(await listed()).toEqual(all.toSorted())
    expect(await listed({ tag: 't' })).toEqual(['tagged'])
    expect(await ledger.get(topic, at('retried'))).toMatchObject({
      failures: 1,
      lastError: 'once',
      deliveries: 2,
    })
    await expectBalance()
  })

  test('has only the tasks that were still held, and the others are answered as stale', async () => {
    await schedule([...KEYS, 'gone', 'taken'])
    const mine = await claim([...KEYS, 'gone', 'taken'])
    expect(await settle(['gone'], mine)).toEqual(['settled'])
    await sql(url, "UPDATE tocsin.live SET stamp = stamp + 1000 WHERE key = 'taken'")
    expect(await settle(['gone', ...KEYS, 'taken'], mine)).toEqual([
      'stale',
      ...KEYS.map(() => 'settled'),
      'stale',
    ])
    expect([await numberOf('ended_batch'), await numberOf('live')]).toEqual([1, 1])
    // The reply was lost, and the call is repeated.
    expect(new Set(await settle(KEYS, mine))).toEqual(new Set(['stale']))
    expect(await listed()).toEqual(['gone', ...KEYS])
    await expectBalance()
  })

  test('of more tasks than its hashes have room for is cut, also if each key has a prefix of its own', async () => {
    const keys = Array.from(
      { length: 2 * BATCH_TASKS_MAX },
      (_, n) => `user-${n}:coupon-${'x'.repeat(180)}-${n}`,
    )
    await schedule(keys)
    await end(keys)
    expect([await numberOf('ended_batch'), await numberOf('ended')]).toEqual([2, 0])
    expect(await listed({ prefix: 'user-77' })).toEqual([keys[77]])
    expect(await listed({ prefix: 'user-7777' })).toEqual([])
  })

  test('is paged with rows and other batches, in the order of end, key and generation', async () => {
    // The same keys twice in batches and once as rows, all at one time of the ledger.
    await sql(
      url,
      'CREATE OR REPLACE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS $$ SELECT 2000000000000::bigint $$',
    )
    for (let round = 0; round < 2; round++) {
      await schedule(KEYS)
      await end(KEYS)
    }
    await schedule(KEYS.slice(0, 9))
    await end(KEYS.slice(0, 9))
    const whole = (await ledger.list(topic, QUERY)).map(({ key, generation }) => `${key}/${generation}`)
    expect(whole).toEqual(
      whole.toSorted((a, b) => (a.split('/')[0] === b.split('/')[0] ? 0 : a < b ? -1 : 1)),
    )
    expect(whole).toHaveLength(2 * KEYS.length + 9)
    const paged: string[] = []
    for (let after: ListQuery['after'] = null; ;) {
      const page = await ledger.list(topic, { ...QUERY, limit: 7, after })
      paged.push(...page.map(({ key, generation }) => `${key}/${generation}`))
      const last = page.at(-1)
      if (last === undefined) break
      after = { ringMs: last.updatedMs, key: last.key, failures: last.generation ?? 0 }
    }
    expect(paged).toEqual(whole)
    // `get` returns the newest of the three.
    const generations = whole.filter((one) => one.startsWith('k003/')).map((one) => Number(one.split('/')[1]))
    expect((await ledger.get(topic, at('k003')))?.generation).toBe(Math.max(...generations))
  })

  test('is found by a range of due times, and by state', async () => {
    const nowMs = await ledger.nowMs()
    await schedule(KEYS, { atMs: nowMs - 5_000 })
    await end(KEYS)
    const late = KEYS.map((key) => `late-${key}`)
    await schedule(late, { atMs: nowMs - 1_000 })
    await end(late, 'obsolete')
    expect(await listed({ dueToMs: nowMs - 5_000 })).toEqual(KEYS)
    expect(await listed({ dueFromMs: nowMs - 4_999 })).toEqual([])
    expect(await listed({ state: 'obsolete' })).toEqual(late)
    expect(await listed({ state: 'obsolete', dueFromMs: nowMs - 1_000, limit: 3 })).toEqual(late.slice(0, 3))
    expect(await listed({ state: 'cancelled' })).toEqual([])
  })

  test('is read on for a page if the batches before it have too few tasks that match', async () => {
    const nowMs = await ledger.nowMs()
    for (const round of ['a', 'b', 'c']) {
      const keys = KEYS.map((key) => `${round}-${key}`)
      // Each batch has early and late tasks, and only the last one has some between.
      await schedule(keys.slice(0, 9), { atMs: nowMs - 9_000 })
      await schedule(keys.slice(9, 12), { atMs: nowMs - (round === 'c' ? 5_000 : 9_000) })
      await schedule(keys.slice(12), { atMs: nowMs - 1_000 })
      await end(keys)
    }
    const between = { dueFromMs: nowMs - 6_000, dueToMs: nowMs - 4_000, limit: 5 }
    expect(await listed(between)).toEqual(KEYS.slice(9, 12).map((key) => `c-${key}`))
  })

  test('is deleted as a whole when it is old, and the books balance', async () => {
    await schedule(KEYS)
    await end(KEYS)
    const others = KEYS.map((key) => `other-${key}`)
    await schedule(others)
    await end(others)
    const old = { deadBeforeMs: 0, deadMax: 10 }
    const nowMs = await ledger.nowMs()
    expect(await ledger.forget(topic, { ...old, endedBeforeMs: nowMs - 60_000, limit: 1_000 })).toEqual({
      ended: 0,
      dead: 0,
    })
    expect(await ledger.forget(topic, { ...old, endedBeforeMs: nowMs + 1, limit: 1 })).toEqual({
      ended: KEYS.length,
      dead: 0,
    })
    await expectBalance()
    expect(await ledger.forget(topic, { ...old, endedBeforeMs: nowMs + 1, limit: 1_000 })).toEqual({
      ended: KEYS.length,
      dead: 0,
    })
    expect(await numberOf('ended_batch')).toBe(0)
    expect(await ledger.get(topic, at('k001'))).toBeNull()
    await expectBalance()
  })
})

describe('the dead task of a key', () => {
  async function die(key: string): Promise<void> {
    await schedule([key])
    const mine = await claim([key])
    const outcome = { kind: 'dead', error: 'e', cause: 'attempts', failed: true } as const
    await ledger.settle(topic, [{ ...at(key), stamp: mine, outcome }])
  }
  const [KEY = ''] = KEYS
  const isSuperseded = async () =>
    (await ledger.list(topic, { ...QUERY, state: 'dead' })).map(({ superseded }) => superseded)

  test('is superseded by a newer task, which is never in a batch, also after that was deleted', async () => {
    await die(KEY)
    expect(await isSuperseded()).toEqual([false])
    const all = [...KEYS, 'k-more']
    await schedule(all)
    await end(all)
    expect([await numberOf('ended_batch'), await numberOf('ended')]).toEqual([1, 2])
    expect(await isSuperseded()).toEqual([true])
    expect(await ledger.replay(topic, [at(KEY)], 'newest')).toMatchObject([{ outcome: 'superseded' }])
    const nowMs = await ledger.nowMs()
    await ledger.forget(topic, { endedBeforeMs: nowMs + 1, deadBeforeMs: 0, deadMax: 10, limit: 1_000 })
    expect(await numberOf('ended_batch')).toBe(0)
    expect(await isSuperseded()).toEqual([true])
  })

  test('is the newest of its key when it is replayed, so it is not superseded if it dies again', async () => {
    // An older one is in a batch, and a newer one has a row.
    await schedule(KEYS)
    await end(KEYS)
    await die(KEY)
    await schedule([KEY])
    await end([KEY])
    expect(await ledger.replay(topic, [at(KEY)])).toMatchObject([{ outcome: 'replayed' }])
    const mine = await claim([KEY])
    const outcome = { kind: 'dead', error: 'e', cause: 'attempts', failed: true } as const
    await ledger.settle(topic, [{ ...at(KEY), stamp: mine, outcome }])
    expect(await isSuperseded()).toEqual([false])
    expect(await ledger.replay(topic, [at(KEY)], 'newest')).toMatchObject([{ outcome: 'replayed' }])
    await expectBalance()
  })

  test('is superseded by a newer task of which nothing is kept', async () => {
    ledger.configure(
      topic,
      () => ({ slotBy: 'key', mergeMs: 0, keepsEnded: false, fastClaims: false }),
      () => null,
    )
    await die(KEY)
    await schedule([KEY])
    await end([KEY])
    expect(await isSuperseded()).toEqual([true])
    await die('k-cancelled')
    await schedule(['k-cancelled'])
    expect(await ledger.cancel(topic, [at('k-cancelled')])).toEqual(['cancelled'])
    expect(await isSuperseded()).toEqual([true, true])
  })
})

test('with retention 0, nothing is kept of done, obsolete and cancelled tasks, and the books balance', async () => {
  ledger.configure(
    topic,
    () => ({ slotBy: 'key', mergeMs: 0, keepsEnded: false, fastClaims: false }),
    () => null,
  )
  await schedule(KEYS)
  await end(KEYS)
  await schedule(KEYS.slice(0, 5))
  await end(KEYS.slice(0, 5), 'obsolete')
  await schedule(['c'])
  expect(await ledger.cancel(topic, [at('c')])).toEqual(['cancelled'])
  expect([await numberOf('ended_batch'), await numberOf('ended'), await numberOf('live')]).toEqual([0, 0, 0])
  expect(await ledger.books(topic)).toMatchObject({
    done: KEYS.length,
    obsolete: 5,
    cancelled: 1,
    pending: 0,
  })
  await expectBalance()
})

describe('while another transaction changes a task that ends', () => {
  /** Settles all keys while another transaction has changed the first one, and commits once the settle waits. */
  async function settleBeside(change: string): Promise<string[]> {
    await schedule(KEYS)
    const mine = await claim(KEYS)
    await using other = await connected(url)
    await other.query('BEGIN')
    await other.query(change, [KEYS[0]])
    const settled = settle(KEYS, mine)
    await untilLockWaiters(url, 1)
    await other.query('COMMIT')
    return settled
  }

  test('it ends if it is still held', async () => {
    const answers = await settleBeside('UPDATE tocsin.live SET lease_ms = lease_ms + 1 WHERE key = $1')
    expect(new Set(answers)).toEqual(new Set(['settled']))
    expect(await numberOf('live')).toBe(0)
    expect((await listed()).toSorted()).toEqual(KEYS)
  })

  test('it does not end if it was replaced, and the others do', async () => {
    const answers = await settleBeside(
      'UPDATE tocsin.live SET session = NULL, stamp = NULL, generation = generation + 5000 WHERE key = $1',
    )
    expect(answers).toEqual(['stale', ...KEYS.slice(1).map(() => 'settled')])
    expect(await numberOf('live')).toBe(1)
    expect(await listed()).toEqual(KEYS.slice(1))
  })

  test('it does not end if this process has claimed it again', async () => {
    const answers = await settleBeside('UPDATE tocsin.live SET stamp = stamp + 1 WHERE key = $1')
    expect(answers).toEqual(['stale', ...KEYS.slice(1).map(() => 'settled')])
    expect(await numberOf('live')).toBe(1)
  })
})

test('a page has no batch that ended after its rows were read, because a task that ended before has a row', async () => {
  await schedule(['single', ...KEYS])
  const [first, second] = [await claim(['single']), await claim(KEYS)]
  await using client = await connected(url)
  let between = async () => {}
  const readings = new Readings(async (text, values) => {
    const { rows } = await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' })
    await between()
    // The driver returns a bigint as text.
    return rows.map((row) => row.map((value) => (typeof value === 'string' ? Number(value) : value)))
  })
  const { rows } = await client.query<{ id: number }>('SELECT id FROM tocsin.topic WHERE name = $1', [topic])
  between = async () => {
    between = async () => {}
    await settle(['single'], first)
    // The batch ends at a later time of the ledger.
    const singleMs = await ledger.nowMs()
    while ((await ledger.nowMs()) === singleMs);
    await settle(KEYS, second)
  }
  const id = rows[0]?.id ?? 0
  expect(await readings.list(topic, id, QUERY)).toEqual([])
  expect((await readings.list(topic, id, QUERY)).map(({ key }) => key)).toEqual(['single', ...KEYS])
})

test('a role that may use the tables of an earlier version may use those of this one', async () => {
  // A name that has to be quoted.
  const role = `Worker "${topics}"`
  const quoted = `"${role.replaceAll('"', '""')}"`
  await sql(
    url,
    `CREATE ROLE ${quoted} LOGIN;
     DROP TABLE tocsin.ended_batch; DROP SEQUENCE tocsin.batch; DROP FUNCTION tocsin.key_hash;
     ALTER TABLE tocsin.node DROP COLUMN reads_batches;
     UPDATE tocsin.meta SET value = '8' WHERE name = 'format';
     GRANT USAGE ON SCHEMA tocsin TO ${quoted};
     GRANT ALL ON ALL TABLES IN SCHEMA tocsin TO ${quoted};
     GRANT ALL ON ALL SEQUENCES IN SCHEMA tocsin TO ${quoted}`,
  )
  await (await open()).close()
  const [row] = await sql<{ may: boolean }>(
    url,
    `SELECT has_table_privilege($1, 'tocsin.ended_batch', 'INSERT, SELECT, DELETE')
       AND has_sequence_privilege($1, 'tocsin.batch', 'USAGE') AS may`,
    [role],
  )
  expect(row).toEqual({ may: true })
})

test('with several databases, no batch is written while an earlier version is on the board of the first', async () => {
  const urls = [await server.createDatabase(), await server.createDatabase()]
  const burst = async (): Promise<number[]> => {
    await using toc = await Tocsin.open({ ledger: urls, logger: false })
    const many = toc.topic<null>('many', { slots: 1 })
    let done = 0
    const consumer = many.consume(async () => void done++, { concurrency: 4_000 })
    const dueAt = Date.now() + 1_500
    const tasks = Array.from({ length: 4_000 }, (_, n) => ({ key: `k${n}`, at: dueAt, payload: null }))
    await many.scheduleMany(tasks)
    await expect.poll(() => done, { timeout: 30_000 }).toBe(tasks.length)
    await consumer.stop()
    return Promise.all(
      urls.map(async (one) => {
        const [row] = await sql<{ count: number }>(
          one,
          'SELECT count(*)::integer AS count FROM tocsin.ended_batch',
        )
        return row?.count ?? 0
      }),
    )
  }
  const whole = await burst()
  expect(Math.min(...whole)).toBeGreaterThan(0)
  await sql(
    urls[0] as string,
    "INSERT INTO tocsin.node (id, beats, edition, beat_at, card) VALUES ('old', 1, 1, clock_timestamp() + interval '1 hour', '{}')",
  )
  expect(await burst()).toEqual(whole)
}, 90_000)

test('no batch is written while a node of an earlier version is on the board', async () => {
  await sql(
    url,
    "INSERT INTO tocsin.node (id, beats, edition, beat_at, card) VALUES ('old', 1, 1, clock_timestamp(), '{}')",
  )
  await ledger.close()
  ledger = await open()
  await schedule(KEYS)
  await end(KEYS)
  expect([await numberOf('ended_batch'), await numberOf('ended')]).toEqual([0, KEYS.length])
  await sql(url, "DELETE FROM tocsin.node WHERE id = 'old'")
  await ledger.close()
  ledger = await open()
  await schedule(KEYS)
  await end(KEYS)
  expect([await numberOf('ended_batch'), await numberOf('ended')]).toEqual([1, KEYS.length])
})
