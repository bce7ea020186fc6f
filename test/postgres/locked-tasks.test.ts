/** Somebody's open transaction has a task that is held: what waits for it, and what must not. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { systemClock } from '../../src/clock.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions, type PostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { LAST_INSTANT_MS } from '../../src/values/instant.ts'
import { entry, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import {
  connected,
  type PostgresServer,
  sql,
  startPostgres,
  pooled,
} from '../real-servers/postgres-server.ts'
import { untilLockWaiters } from './lock-waiters.ts'

const TOPIC = 'locked'
const [A = '', B = ''] = keysOfOneCell(2)
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server.stop(), 60_000)
async function openLedger(options: PostgresOptions, callTimeoutMs: number) {
  const ledger = await openPostgres(
    checkPostgresOptions(options),
    { callTimeoutMs, notifyWithinMs: 0, shard: '1 of 1' },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )
  await ledger.schedule(TOPIC, [entry(A)], 0)
  await ledger.claim(TOPIC, { stamp: 1, leaseMs: 60_000, nowMs: await ledger.nowMs(), alone: true }, [
    place(A),
  ])
  return ledger
}
const started = async (url: string) =>
  (await sql<{ started: number }>(url, 'SELECT started FROM tocsin.live WHERE key = $1', [A]))[0]?.started
const EVERY = {
  tag: null,
  prefix: null,
  dueFromMs: 0,
  dueToMs: LAST_INSTANT_MS,
  limit: 10,
  after: null,
} as const
const LOCK = 'SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE'

test('begin fails in words of ours', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 500)
  await using client = await connected(url)
  await client.query('BEGIN')
  await client.query(LOCK, [A])
  const error = await ledger.begin(TOPIC, place(A), 1).catch((e: unknown) => e)
  await client.query('ROLLBACK')
  await ledger.close()
  expect(error).toMatchObject({ code: 'ledger-unavailable' })
})

test('begin waited for a connection first: it does not take effect after its deadline', async () => {
  const url = await server.createDatabase()
  const pool = pooled(url, { max: 2 })
  const ledger = await openLedger({ pool }, 1_000)
  await using client = await connected(url)
  await client.query('BEGIN')
  await client.query(LOCK, [A])
  const taken = [await pool.connect(), await pool.connect()]
  const beginning = ledger.begin(TOPIC, place(A), 1).catch((e: unknown) => e)
  // Real time: the call has to spend most of its timeout of 1 s waiting for a connection.
  await sleep(700)
  for (const one of taken) one.release()
  const error = await beginning
  // Real time: the abandoned statement must have no effect, neither before the lock is released nor after.
  await sleep(200)
  await client.query('ROLLBACK')
  await sleep(500)
  const after = await started(url)
  await ledger.close()
  await pool.end()
  expect(error).toBeInstanceOf(Error)
  expect(after).toBe(1)
})

test('begin behind another waiter: it does not take effect after its deadline either', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 1_000)
  await using client = await connected(url)
  await using waiter = await connected(url)
  await client.query('BEGIN')
  await client.query(LOCK, [A])
  await waiter.query('BEGIN')
  const waiting = waiter.query(LOCK, [A])
  await untilLockWaiters(url, 1)
  const beginning = ledger.begin(TOPIC, place(A), 1).catch((e: unknown) => e)
  // Real time: the lock passes to the other waiter when most of the timeout of 1 s is over.
  await sleep(800)
  await client.query('ROLLBACK')
  await waiting
  const error = await beginning
  // Real time: the abandoned statement must have no effect, neither before the lock is released nor after.
  await sleep(300)
  await waiter.query('ROLLBACK')
  await sleep(300)
  const after = await started(url)
  await ledger.close()
  // Between two holders, the row is free for a moment. Then `begin` may record the start: in time, and it says so.
  if (error === true) expect(after).toBe(2)
  else {
    expect(error).toBeInstanceOf(Error)
    expect(after).toBe(1)
  }
})

test(
  'one locked for longer than its lease: its neighbours of the cell are claimed',
  { timeout: 40_000 },
  async () => {
    const url = await server.createDatabase()
    await using toc = await Tocsin.open({ ledger: url, logger: false, callTimeout: '2s' })
    const topic = toc.topic<null>(TOPIC, { lease: 1_000, timeout: '1m' })
    const starts: { key: string; ms: number }[] = []
    let release = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    topic.consume(
      async ({ key }) => {
        starts.push({ key, ms: Date.now() })
        if (key === A) await released
      },
      { concurrency: 4 },
    )
    await topic.schedule({ key: A, delay: 1, payload: null })
    await expect.poll(() => starts.length, { timeout: 5_000 }).toBe(1)
    await using client = await connected(url)
    await client.query('BEGIN')
    await client.query(LOCK, [A])
    // Real time: the lease of 1 s has to expire while the row is locked.
    await sleep(1_500)
    await topic.schedule({ key: B, at: Date.now() + 200, payload: null })
    try {
      await expect.poll(() => starts.map(({ key }) => key), { timeout: 6_000 }).toContain(B)
    } finally {
      await client.query('ROLLBACK')
      release()
    }
  },
)

test(
  'end to end: one of a claim was taken by somebody else; it is not started here',
  { timeout: 40_000 },
  async () => {
    const url = await server.createDatabase()
    await using toc = await Tocsin.open({ ledger: url, logger: false })
    await using other = await Tocsin.open({ ledger: url, logger: false })
    const config = { lease: 1_500, timeout: '1m' } as const
    const topic = toc.topic<null>(TOPIC, config)
    let isAsked = false
    let goOn = () => {}
    const asked = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const starts: string[] = []
    topic.consume(async ({ key }) => void starts.push(`holder ${key}`), {
      concurrency: 2,
      guard: async (tasks) => {
        isAsked = true
        await asked
        return tasks.map(() => true)
      },
    })
    await topic.scheduleMany([A, B].map((key) => ({ key, at: Date.now() + 300, payload: null })))
    await expect.poll(() => isAsked, { timeout: 5_000 }).toBe(true)
    // As after a stall: its lease is over, and somebody else has been quicker with one of the two.
    await sql(url, 'UPDATE tocsin.live SET lease_ms = 0 WHERE key = $1', [A])
    let release = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    other.topic<null>(TOPIC, config).consume(async ({ key }) => {
      starts.push(`other ${key}`)
      await released
    })
    const tries = await expect
      .poll(() => starts.includes(`other ${A}`), { timeout: 15_000 })
      .toBe(true)
      .then(
        () => true,
        () => false,
      )
    // Real time: the task that the other process took must not start here, neither while the guard runs nor after.
    await sleep(1_000)
    goOn()
    await sleep(500)
    release()
    expect(tries).toBe(true)
    expect(starts).not.toContain(`holder ${A}`)
  },
)

test('a settle of a locked task does not hold up the settles that come after it', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 3_000)
  await ledger.schedule(TOPIC, [entry(B)], 0)
  await ledger.claim(TOPIC, { stamp: 2, leaseMs: 60_000, nowMs: await ledger.nowMs(), alone: false }, [
    place(B),
  ])
  await using client = await connected(url)
  await client.query('BEGIN')
  await client.query(LOCK, [A])
  const retry = { kind: 'retry', delayMs: 0, error: 'x' } as const
  const first = ledger.settle(TOPIC, [{ ...place(A), stamp: 1, outcome: retry }]).catch((e: unknown) => e)
  // Real time: the first settle finds the row locked. It retries instead of waiting in the server, so no lock wait shows.
  await sleep(100)
  const fromMs = Date.now()
  await ledger.settle(TOPIC, [{ ...place(B), stamp: 2, outcome: { kind: 'done' } }]).catch(() => {})
  const tookMs = Date.now() - fromMs
  await client.query('ROLLBACK')
  await first
  await ledger.close()
  expect(tookMs).toBeLessThan(1_000)
})

test('settles of locked tasks keep no connection: the outcomes of other tasks are recorded meanwhile', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url, connections: 2 }, 5_000)
  const keys = keysOfOneCell(5)
  const free = keys[4] ?? ''
  await ledger.schedule(
    TOPIC,
    keys.slice(1).map((key) => entry(key)),
    0,
  )
  const claim = { stamp: 2, leaseMs: 60_000, nowMs: await ledger.nowMs(), alone: false }
  await ledger.claim(
    TOPIC,
    claim,
    keys.slice(1).map((key) => place(key)),
  )
  const settle = (key: string) =>
    ledger.settle(TOPIC, [{ ...place(key), stamp: key === A ? 1 : 2, outcome: { kind: 'done' } }])
  await using client = await connected(url)
  await client.query('BEGIN')
  for (const key of keys.slice(0, 4)) await client.query(LOCK, [key])
  const answered: string[] = []
  const settling = keys.slice(0, 4).map(async (key) => {
    const [answer] = await settle(key)
    answered.push(answer?.answer ?? '')
  })
  // One by one, so that each of them is a statement of its own, and waits in its own way.
  expect(await settle(free)).toEqual([{ answer: 'settled', hint: null }])
  expect(await ledger.get(TOPIC, place(free))).toMatchObject({ state: 'done' })
  expect(answered).toEqual([])
  await client.query('COMMIT')
  await Promise.all(settling)
  expect(answered).toEqual(['settled', 'settled', 'settled', 'settled'])
  await ledger.close()
})

test('a settle that has to wait twice, for one transaction and then for the next, is answered as any other', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 5_000)
  await using one = await connected(url)
  await using two = await connected(url)
  await one.query('BEGIN')
  // The update moves the row: a statement that waited for the row has to find it again.
  await one.query('UPDATE tocsin.live SET marked = true WHERE key = $1', [A])
  const settling = ledger.settle(TOPIC, [{ ...place(A), stamp: 1, outcome: { kind: 'done' } }])
  // Real time: longer than a batch waits for a lock (100 ms), so that the settle waits alone when it waits again.
  await sleep(300)
  await two.query('BEGIN')
  const locking = two.query(LOCK, [A])
  // The settle itself waits outside of the server.
  await untilLockWaiters(url, 1)
  await one.query('COMMIT')
  await locking
  // Real time: the settle may wait for the second transaction by now, or have ended before it.
  await sleep(300)
  await two.query('COMMIT')
  expect(await settling).toEqual([{ answer: 'settled', hint: null }])
  await ledger.close()
})

test('a replay of the newest waits for a transaction that schedules and cancels the key, and passes it over', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 5_000)
  await using client = await connected(url)
  const dead = { kind: 'dead', cause: 'handler', error: 'no', failed: false } as const
  await ledger.settle(TOPIC, [{ ...place(A), stamp: 1, outcome: dead }])
  await client.query('BEGIN')
  const transaction = ledger.within(client)
  await transaction.schedule(TOPIC, [entry(A)], 0)
  // It began before the newer task was there, and goes on after that one has ended.
  const replaying = ledger.replay(TOPIC, [place(A)], 'newest')
  await untilLockWaiters(url, 1)
  await transaction.cancel(TOPIC, [place(A)])
  await client.query('COMMIT')
  const answers = await replaying
  const live = await ledger.get(TOPIC, place(A))
  await ledger.close()
  expect(answers).toEqual([{ outcome: 'superseded', hint: null }])
  expect(live).toMatchObject({ state: 'cancelled' })
})

test('a task is newer than a dead one that came and died while its schedule waited for a lock', async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 5_000)
  await using holder = await connected(url)
  await using waiter = await connected(url)
  const [first = '', second = ''] = [A, B].toSorted((a, b) => (a < b ? -1 : 1))
  await holder.query('BEGIN')
  await ledger.within(holder).schedule(TOPIC, [entry(first)], 0)
  await waiter.query('BEGIN')
  const waiting = ledger.within(waiter).schedule(TOPIC, [entry(first), entry(second)], 0)
  await untilLockWaiters(url, 1)
  await ledger.schedule(TOPIC, [entry(second)], 0)
  const claim = { stamp: 2, leaseMs: 60_000, nowMs: await ledger.nowMs(), alone: true }
  await ledger.claim(TOPIC, claim, [place(second)])
  const dead = { kind: 'dead', cause: 'handler', error: 'no', failed: false } as const
  expect(await ledger.settle(TOPIC, [{ ...place(second), stamp: 2, outcome: dead }])).toMatchObject([
    { answer: 'settled' },
  ])
  await holder.query('COMMIT')
  await waiting
  await waiter.query('COMMIT')
  const diedMs = (await ledger.list(TOPIC, { ...EVERY, state: 'dead' }))[0]?.updatedMs ?? 0
  await expect.poll(() => ledger.nowMs()).toBeGreaterThan(diedMs)
  await ledger.cancel(TOPIC, [place(second)])
  const answers = await ledger.replay(TOPIC, [place(second)], 'newest')
  await ledger.close()
  expect(answers).toEqual([{ outcome: 'superseded', hint: null }])
})

test("a locked key with 'keep' does not make other keys of the same turn take effect twice", async () => {
  const url = await server.createDatabase()
  const ledger = await openLedger({ url }, 5_000)
  await using client = await connected(url)
  await client.query('BEGIN')
  await client.query(LOCK, [A])
  const keeping = ledger.schedule(TOPIC, [{ ...entry(A), onConflict: 'keep' }], 0)
  const replacing = ledger.schedule(TOPIC, [entry(B)], 0)
  await untilLockWaiters(url, 1)
  // Real time: long enough for the statement to give up its lock and to be sent again.
  await sleep(300)
  await client.query('ROLLBACK')
  const [[kept], [created]] = await Promise.all([keeping, replacing])
  await ledger.close()
  expect([kept?.outcome, created?.outcome]).toEqual(['kept', 'created'])
})
