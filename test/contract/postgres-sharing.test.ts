/** What a ledger promises that several processes have: here they are several openings of one database. */
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { ClaimVerdict } from '../../src/ledger.ts'
import type { PostgresLedger } from '../../src/ledgers/postgres/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { DONE, entry, keysOfOneCell, place, retryIn } from './timetable/helpers.ts'

const TOPIC = 'sharing'
const LEASE_MS = 60_000

let server: PostgresServer
let url: string
let one: PostgresLedger
let other: PostgresLedger

async function open(): Promise<PostgresLedger> {
  return openPostgres(
    checkPostgresOptions({ url }),
    { callTimeoutMs: 5_000, notifyWithinMs: 2_000, shard: '1 of 1' },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )
}

beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)
beforeEach(async () => {
  url = await server.createDatabase()
  ;[one, other] = [await open(), await open()]
})
afterEach(() => Promise.all([one.close(), other.close()]))

const places = (keys: readonly string[]) => keys.map((key) => place(key))
const entries = (keys: readonly string[]) => keys.map((key) => entry(key))

async function claim(
  ledger: PostgresLedger,
  keys: readonly string[],
  { stamp = 1, leaseMs = LEASE_MS, alone = false } = {},
): Promise<ClaimVerdict[]> {
  const nowMs = await ledger.nowMs()
  return ledger.claim(TOPIC, { stamp, leaseMs, nowMs, alone }, places(keys))
}

const kinds = (verdicts: readonly ClaimVerdict[]) => verdicts.map(({ kind }) => kind)

/** Ends the leases of all claims, without waiting for their time. */
async function leaseEnds(): Promise<void> {
  await sql(url, 'UPDATE tocsin.live SET lease_ms = 0 WHERE session IS NOT NULL')
}

async function expectBalance(): Promise<void> {
  const { books, counted } = await one.recount(TOPIC)
  const { scheduled, purged, ...rest } = books
  expect(counted).toEqual(rest)
  expect(Object.values(rest).reduce((sum, count) => sum + count, purged)).toBe(scheduled)
}

describe('claims', () => {
  test('what one holds, the other is told of; when its lease is over, the other takes it, and the loss is counted', async () => {
    await one.schedule(TOPIC, entries(['a']), 0)
    expect(kinds(await claim(one, ['a']))).toEqual(['ours'])
    expect(await claim(other, ['a'])).toEqual([{ kind: 'held', leaseEndInMs: expect.any(Number) }])
    await leaseEnds()
    expect(await claim(other, ['a'])).toMatchObject([{ kind: 'ours', task: { deliveries: 2, failures: 0 } }])
    await leaseEnds()
    expect(kinds(await claim(one, ['a'], { stamp: 2 }))).toEqual(['suspect'])
    await expectBalance()
  })

  test("one's stamp is nothing in the other's hands", async () => {
    await one.schedule(TOPIC, entries(['a']), 0)
    await claim(one, ['a'], { stamp: 7 })
    const settlement = { ...place('a'), stamp: 7, outcome: DONE }
    expect(await other.settle(TOPIC, [settlement])).toEqual([{ answer: 'stale', hint: null }])
    expect(await other.extend(TOPIC, places(['a']), 7, LEASE_MS)).toEqual(['stale'])
    expect(await other.begin(TOPIC, place('a'), 7)).toBe(false)
    expect(await one.settle(TOPIC, [settlement])).toMatchObject([{ answer: 'settled' }])
    await expectBalance()
  })

  test(
    'of 2,000 tasks that both claim at once, in any order, each has one holder',
    { timeout: 60_000 },
    async () => {
      const keys = Array.from({ length: 2_000 }, (_, n) => `k${n}`)
      await one.schedule(TOPIC, entries(keys), 0)
      const both = await Promise.all([claim(one, keys), claim(other, keys.toReversed())])
      const [ofOne, ofOther] = [both[0], both[1].toReversed()]
      let free = 0
      for (const [i] of keys.entries()) {
        const holders = [ofOne[i], ofOther[i]].filter((verdict) => verdict?.kind === 'ours').length
        expect(holders).toBeLessThanOrEqual(1)
        if (holders === 0) free++
      }
      // Each may have found a row locked by the other, which then had it: none is left over.
      expect(free).toBe(0)
      await expectBalance()
    },
  )

  test('a cancel by one of what the other holds is in flight, and no attempt follows', async () => {
    await one.schedule(TOPIC, entries(['a']), 0)
    await claim(one, ['a'])
    expect(await other.cancel(TOPIC, places(['a']))).toEqual(['in-flight'])
    expect(await one.settle(TOPIC, [{ ...place('a'), stamp: 1, outcome: retryIn(0) }])).toEqual([
      { answer: 'settled', hint: null },
    ])
    expect(kinds(await claim(other, ['a']))).toEqual(['gone'])
    expect(await one.get(TOPIC, place('a'))).toMatchObject({ state: 'cancelled' })
    await expectBalance()
  })

  test('cancel races claim 1,000 times: cancelled was never handed out', { timeout: 60_000 }, async () => {
    let raced = 0
    for (let round = 0; round < 20; round++) {
      const keys = Array.from({ length: 50 }, (_, n) => `r${round}-${n}`)
      await one.schedule(TOPIC, entries(keys), 0)
      const [answers, verdicts] = await Promise.all([
        one.cancel(TOPIC, places(keys)),
        claim(other, keys, { stamp: round + 1 }),
      ])
      for (const [i] of keys.entries()) {
        const pair = `${answers[i]}/${verdicts[i]?.kind}`
        expect(['cancelled/gone', 'cancelled/held', 'in-flight/ours']).toContain(pair)
        if (pair === 'in-flight/ours') raced++
      }
    }
    expect(raced).toBeLessThan(1_000)
    await expectBalance()
  })
})

describe("a stranger's open transaction", () => {
  let stranger: pg.Client
  beforeEach(async () => {
    stranger = new pg.Client({ connectionString: url })
    await stranger.connect()
  })
  afterEach(() => stranger.end())

  async function lock(key: string): Promise<void> {
    await stranger.query('BEGIN')
    await stranger.query('SELECT FROM tocsin.live WHERE key = $1 FOR UPDATE', [key])
  }

  test('a claim passes over what it holds, and takes the rest', async () => {
    const keys = keysOfOneCell(20)
    await one.schedule(TOPIC, entries(keys), 0)
    await lock(keys[7] as string)
    const verdicts = await claim(one, keys)
    expect(kinds(verdicts).filter((kind) => kind === 'ours')).toHaveLength(19)
    expect(verdicts[7]).toEqual({ kind: 'held', leaseEndInMs: 300 })
    await stranger.query('ROLLBACK')
    expect(kinds(await claim(one, [keys[7] as string], { stamp: 2 }))).toEqual(['ours'])
  })

  test(
    'schedules, cancels and settles of others in the same call go on; its own waits',
    { timeout: 30_000 },
    async () => {
      const keys = keysOfOneCell(20)
      const [locked = ''] = keys
      await one.schedule(TOPIC, entries(keys), 0)
      await claim(one, keys)
      await lock(locked)
      const settling = one.settle(
        TOPIC,
        keys.map((key) => ({ ...place(key), stamp: 1, outcome: DONE })),
      )
      // The others are settled while it waits.
      await expect.poll(async () => (await other.books(TOPIC)).done, { timeout: 4_000 }).toBe(19)
      await stranger.query('ROLLBACK')
      expect((await settling).every(({ answer }) => answer === 'settled')).toBe(true)
      await one.schedule(TOPIC, entries(keys), 0)
      await lock(locked)
      const calls = keys.map((key) => one.schedule(TOPIC, [entry(key)], 0))
      const rest = await Promise.all(calls.slice(1))
      expect(rest.flat().every(({ outcome }) => outcome === 'replaced')).toBe(true)
      await stranger.query('COMMIT')
      expect(await calls[0]).toMatchObject([{ outcome: 'replaced' }])
      await expectBalance()
    },
  )

  test('what waits for too long fails, and says that nothing was written', { timeout: 30_000 }, async () => {
    await one.schedule(TOPIC, entries(['a']), 0)
    await lock('a')
    const error = await one.cancel(TOPIC, places(['a'])).catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'ledger-unavailable', retryable: true })
    expect(String(error)).toContain('another transaction')
    await stranger.query('ROLLBACK')
    expect(await one.get(TOPIC, place('a'))).toMatchObject({ state: 'pending' })
  })
})

describe('the books', () => {
  test('both write them, and putting them together changes nothing', async () => {
    for (let n = 0; n < 20; n++) {
      await one.schedule(TOPIC, entries([`a${n}`]), 0)
      await other.schedule(TOPIC, entries([`b${n}`]), 0)
    }
    const before = await one.books(TOPIC)
    expect(before).toMatchObject({ scheduled: 40, pending: 40 })
    const retention = { endedBeforeMs: 0, deadBeforeMs: 0, deadMax: 10, limit: 100 }
    await Promise.all([one.forget(TOPIC, retention), other.forget(TOPIC, retention)])
    expect(await other.books(TOPIC)).toEqual(before)
    const [{ count } = { count: '' }] = await sql<{ count: string }>(url, 'SELECT count(*) FROM tocsin.tally')
    expect(Number(count)).toBeLessThan(40)
  })
})

test('who listens is told of what rings soon, by whomever it is written, and of nothing else', async () => {
  const heard: (string | null)[] = []
  let hearAll = () => {}
  const ready = new Promise<void>((resolve) => {
    hearAll = resolve
  })
  const unlisten = other.listen((topic) => {
    if (topic === null) hearAll()
    else heard.push(topic)
  })
  await ready
  await one.schedule('far', [entry('a', { delayMs: 3_600_000 })], 0)
  await one.schedule('near', [entry('a', { delayMs: 500 })], 0)
  await expect.poll(() => heard).toEqual(['near'])
  unlisten()
})
