/** Somebody's open transaction is at a task that is in flight: what that does to its lease, its start, and its batch. */
import { once } from 'node:events'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { systemClock } from '../../src/clock.ts'
import { TocsinError } from '../../src/errors.ts'
import { ALONE, STARTED_ALONE } from '../../src/ledgers/rows.ts'
import type { PostgresLedger } from '../../src/ledgers/postgres/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { entry, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

const TOPIC = 'locked'
const STALL_MS_MAX = 1_000
const LEASE_MS = 2_000
const SOON = { timeout: 15_000, interval: 10 }
const [FIRST = '', SECOND = ''] = keysOfOneCell(2)

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

interface LiveRow {
  readonly stamp: string
  /** The lease by the ledger's clock, which is this machine's. */
  readonly leaseMs: number
  readonly started: number
}

async function rowOf(url: string, key: string): Promise<LiveRow> {
  const [row] = await sql<{ stamp: string; lease_ms: string; started: number }>(
    url,
    'SELECT stamp, lease_ms, started FROM tocsin.live WHERE key = $1',
    [key],
  )
  if (row === undefined) throw new Error(`there is no live task '${key}'`)
  return { stamp: row.stamp, leaseMs: Number(row.lease_ms), started: row.started }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** One call of a handler. */
interface Handled {
  readonly key: string
  readonly by: string
  readonly startMs: number
  endMs: number
  aborted: string | null
}

/** Calls that ran at the same time for the same key. */
function overlaps(handled: readonly Handled[]): string[] {
  return handled.flatMap((one, i) =>
    handled
      .slice(i + 1)
      .filter(({ key, startMs, endMs }) => key === one.key && startMs < one.endMs && one.startMs < endMs)
      .map((other) => `${one.key}: ${one.by} and ${other.by}`),
  )
}

describe.each(['PostgreSQL alone', 'PostgreSQL with Redis'])(
  '%s: two of one claim, one locked',
  (composition) => {
    const open = (url: string) =>
      Tocsin.open({
        ledger: url,
        ...(composition === 'PostgreSQL alone' ? {} : { timetable: redis.url }),
        logger: false,
      })
    const LEASE = { lease: LEASE_MS, timeout: '1m' }

    test(
      'its handler is told that it is lost while it still has its lease; the other one keeps its own',
      { timeout: 40_000 },
      async () => {
        const url = await server.createDatabase()
        await using holder = await open(url)
        await using other = await open(url)
        const handled: Handled[] = []
        let release = () => {}
        const released = new Promise<void>((resolve) => {
          release = resolve
        })
        /** Runs until it is aborted or released. */
        const consume = (toc: Tocsin, by: string) =>
          toc.topic<null>(TOPIC, LEASE).consume(
            async ({ key }, { signal }) => {
              const one: Handled = { key, by, startMs: Date.now(), endMs: Infinity, aborted: null }
              handled.push(one)
              await Promise.race([once(signal, 'abort'), released])
              one.endMs = Date.now()
              one.aborted = TocsinError.is(signal.reason) ? signal.reason.code : null
            },
            { concurrency: 2 },
          )
        consume(holder, 'holder')
        const topic = holder.topic<null>(TOPIC, LEASE)
        await topic.scheduleMany([FIRST, SECOND].map((key) => ({ key, at: Date.now() + 300, payload: null })))
        await expect.poll(() => handled.length, SOON).toBe(2)
        await using client = await connected(url)
        await client.query('BEGIN')
        expect(await topic.cancel(FIRST, { tx: client })).toMatchObject({ outcome: 'in-flight' })
        const [locked, free] = [await rowOf(url, FIRST), await rowOf(url, SECOND)]
        expect(locked.stamp).toBe(free.stamp)
        // From now on there is somebody who would take it as soon as it may be had.
        consume(other, 'other')
        const told = () => handled.find(({ key, by }) => key === FIRST && by === 'holder')
        await expect.poll(() => told()?.aborted, SOON).toBe('lease-lost')
        // Its lease stayed as it was; it was told before that was over, and not as soon as somebody was at it. A machine
        // that stalls tells it later, as soon as it goes on.
        const { leaseMs: leaseEndMs } = await rowOf(url, FIRST)
        expect(told()?.endMs).toBeLessThan(leaseEndMs + STALL_MS_MAX)
        expect(told()?.endMs).toBeGreaterThan(leaseEndMs - LEASE_MS / 2)
        // Real time: the lease has to expire while the row is locked.
        await sleep(Math.max(0, leaseEndMs + LEASE_MS / 2 - Date.now()))
        expect((await rowOf(url, SECOND)).leaseMs).toBeGreaterThan(Date.now())
        await client.query('ROLLBACK')
        // Real time: for a whole lease, no second handler of either task may start.
        await sleep(LEASE_MS)
        release()
        await expect
          .poll(
            async () => (await topic.get(FIRST))?.state === 'done' && (await topic.get(SECOND))?.state,
            SOON,
          )
          .toBe('done')
        expect(handled.filter(({ key }) => key === SECOND)).toMatchObject([{ by: 'holder', aborted: null }])
        expect(overlaps(handled)).toEqual([])
        expect(await holder.audit()).toMatchObject([{ balances: true, books: { done: 2 } }])
      },
    )

    test(
      'its handler is not started when its lease is over, and comes when somebody may have it again',
      { timeout: 40_000 },
      async () => {
        const url = await server.createDatabase()
        await using toc = await open(url)
        const topic = toc.topic<null>(TOPIC, LEASE)
        await using client = await connected(url)
        let isAsked = false
        let goOn = () => {}
        const asked = new Promise<void>((resolve) => {
          goOn = resolve
        })
        /** What was left of its lease when its handler was started. */
        const starts: { key: string; leftMs: number }[] = []
        topic.consume(
          async ({ key }) => {
            const startMs = Date.now()
            starts.push({ key, leftMs: (await rowOf(url, key)).leaseMs - startMs })
          },
          {
            concurrency: 2,
            // Claimed, and not started: what a guard takes its time for goes on after it.
            guard: async (tasks) => {
              isAsked = true
              await asked
              return tasks.map(() => true)
            },
          },
        )
        await topic.scheduleMany([FIRST, SECOND].map((key) => ({ key, at: Date.now() + 300, payload: null })))
        await expect.poll(() => isAsked, SOON).toBe(true)
        await client.query('BEGIN')
        await client.query('SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE', [FIRST])
        const locked = await rowOf(url, FIRST)
        expect(locked.stamp).toBe((await rowOf(url, SECOND)).stamp)
        // Real time: the lease has to expire before the guard answers.
        await sleep(Math.max(0, locked.leaseMs + 200 - Date.now()))
        goOn()
        await expect.poll(() => starts.map(({ key }) => key), SOON).toContain(SECOND)
        // Real time: the locked task must not start.
        await sleep(300)
        expect(starts.map(({ key }) => key)).toEqual([SECOND])
        await client.query('ROLLBACK')
        await expect.poll(async () => (await topic.get(FIRST))?.state, SOON).toBe('done')
        expect(starts.map(({ key }) => key)).toEqual([SECOND, FIRST])
        for (const { leftMs } of starts) expect(leftMs).toBeGreaterThan(0)
        expect(await toc.audit()).toMatchObject([{ balances: true, books: { done: 2 } }])
      },
    )
  },
)

describe('the ledger', () => {
  const CALL_MS = 500

  async function openLedger(url: string): Promise<PostgresLedger & AsyncDisposable> {
    const ledger = await openPostgres(
      checkPostgresOptions({ url }),
      { callTimeoutMs: CALL_MS, notifyWithinMs: 0, shard: '1 of 1' },
      { clock: systemClock, random: systemRandom, logger: silentLogger },
    )
    return Object.assign(ledger, { [Symbol.asyncDispose]: () => ledger.close() })
  }

  async function claim(ledger: PostgresLedger, keys: readonly string[], alone = false): Promise<void> {
    await ledger.schedule(
      TOPIC,
      keys.map((key) => entry(key)),
      0,
    )
    const request = { stamp: 1, leaseMs: 60_000, nowMs: await ledger.nowMs(), alone }
    const places = keys.map((key) => place(key))
    const verdicts = await ledger.claim(TOPIC, request, places)
    expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map(() => 'ours'))
  }

  const lock = async (client: pg.Client, key: string) => {
    await client.query('BEGIN')
    await client.query('SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE', [key])
  }

  test('says of each task of a claim what became of its lease', { timeout: 20_000 }, async () => {
    const url = await server.createDatabase()
    await using ledger = await openLedger(url)
    await using client = await connected(url)
    await claim(ledger, [FIRST, SECOND])
    await lock(client, FIRST)
    const [locked, free] = [await rowOf(url, FIRST), await rowOf(url, SECOND)]
    const places = [FIRST, 'nobody', SECOND].map((key) => place(key))
    expect(await ledger.extend(TOPIC, places, 1, 120_000)).toEqual(['locked', 'stale', 'extended'])
    expect(await rowOf(url, FIRST)).toEqual(locked)
    expect((await rowOf(url, SECOND)).leaseMs).toBeGreaterThan(free.leaseMs)
    await client.query('ROLLBACK')
    expect(await ledger.extend(TOPIC, places, 1, 120_000)).toEqual(['extended', 'stale', 'extended'])
  })

  test(
    'a start whose caller gave up waiting for a lock does not get on record later',
    { timeout: 20_000 },
    async () => {
      const url = await server.createDatabase()
      await using ledger = await openLedger(url)
      await using client = await connected(url)
      await claim(ledger, [FIRST], true)
      await lock(client, FIRST)
      const beganMs = Date.now()
      await expect(ledger.begin(TOPIC, place(FIRST), 1)).rejects.toThrow()
      // For nearly as long as it may take: whoever is at it may be gone by then.
      expect(Date.now() - beganMs).toBeGreaterThan(CALL_MS / 2)
      await client.query('ROLLBACK')
      expect((await rowOf(url, FIRST)).started).toBe(ALONE)
      // Real time: the abandoned statement must have no effect after the lock is released.
      await sleep(1_000)
      expect((await rowOf(url, FIRST)).started).toBe(ALONE)
      // Nobody waits for it any more: its own claim can be begun.
      expect(await ledger.begin(TOPIC, place(FIRST), 1)).toBe(true)
      expect((await rowOf(url, FIRST)).started).toBe(STARTED_ALONE)
    },
  )

  test('a start waits for a lock that is gone in time', { timeout: 20_000 }, async () => {
    const url = await server.createDatabase()
    await using ledger = await openLedger(url)
    await using client = await connected(url)
    await claim(ledger, [FIRST], true)
    await lock(client, FIRST)
    const beginning = ledger.begin(TOPIC, place(FIRST), 1)
    // Real time: the call finds the row locked. It retries instead of waiting in the server, so no lock wait shows.
    await sleep(CALL_MS / 5)
    await client.query('ROLLBACK')
    expect(await beginning).toBe(true)
    expect((await rowOf(url, FIRST)).started).toBe(STARTED_ALONE)
  })

  test(
    'a handler that holds several locks them in the order in which all do, whatever order it names',
    { timeout: 20_000 },
    async () => {
      const url = await server.createDatabase()
      await using ledger = await openLedger(url)
      await using client = await connected(url)
      await using another = await connected(url)
      await claim(ledger, [FIRST, SECOND])
      await lock(client, FIRST)
      const held = [SECOND, FIRST].map((key) => ({ ...place(key), stamp: 1 }))
      const transacting = ledger.transact(
        ({ hold }) => hold(TOPIC, held).then(() => false),
        new AbortController().signal,
      )
      const isWaiting = async () => {
        const waiting = await sql(
          url,
          "SELECT 1 FROM pg_stat_activity WHERE application_name = 'tocsin handlers' AND wait_event_type = 'Lock'",
        )
        return waiting.length
      }
      await expect.poll(isWaiting, { timeout: CALL_MS, interval: 5 }).toBe(1)
      // It waits for the first of them, and has nothing yet that somebody else could wait for.
      await another.query('BEGIN')
      const { rowCount } = await another.query(
        'SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE SKIP LOCKED',
        [SECOND],
      )
      await another.query('ROLLBACK')
      await client.query('ROLLBACK')
      expect(await transacting).toBe(false)
      expect(rowCount).toBe(1)
    },
  )
})
