/**
 * PostgreSQL is killed right after it answered, while its WAL writer sleeps. What did not wait for the disk is lost then, and
 * nothing else may be: claims of a topic with `fastClaims`.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { systemClock } from '../../../src/clock.ts'
import type { Ledger } from '../../../src/ledger.ts'
import { openPostgres } from '../../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../../src/ledgers/postgres/options.ts'
import { systemRandom } from '../../../src/random.ts'
import { silentLogger } from '../../../src/telemetry/logger.ts'
import { entry, keysOfOneCell, place } from '../../contract/timetable/helpers.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'

const FAST = 'fast'
const SAFE = 'safe'
const KEYS = keysOfOneCell(20)
const LEASE_MS = 60_000

let server: PostgresServer
let url: string
beforeAll(async () => {
  server = await startPostgres({ config: { wal_writer_delay: '10s', autovacuum: 'off' } })
}, 60_000)
afterAll(() => server.stop())

async function opened(): Promise<Ledger> {
  const ledger = await openPostgres(
    checkPostgresOptions({ url }),
    { callTimeoutMs: 10_000, notifyWithinMs: 0, shard: '1 of 1' },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )
  for (const topic of [FAST, SAFE])
    ledger.configure(
      topic,
      () => ({ slotBy: 'key', mergeMs: 0, keepsEnded: true, fastClaims: topic === FAST }),
      () => null,
    )
  return ledger
}

/** Claims all tasks of a topic under a stamp, and returns how often each verdict came, and the deliveries of the tasks. */
async function claim(ledger: Ledger, topic: string, stamp: number) {
  const request = { stamp, leaseMs: LEASE_MS, nowMs: await ledger.nowMs(), alone: false }
  const verdicts = await ledger.claim(
    topic,
    request,
    KEYS.map((key) => place(key)),
  )
  const kinds = new Set(verdicts.map(({ kind }) => kind))
  const deliveries = verdicts.flatMap((one) => (one.kind === 'ours' ? [one.task.deliveries] : []))
  return { kinds: [...kinds], deliveries: [...new Set(deliveries)], count: deliveries.length }
}

test('a crash loses claims of the topic that opted in, and nothing else', { timeout: 120_000 }, async () => {
  url = await server.createDatabase()
  const ledger = await opened()
  const all = KEYS.map((key) => place(key))
  const settleAll = (stamp: number) =>
    ledger.settle(
      FAST,
      all.map((one) => ({ ...one, stamp, outcome: { kind: 'done' as const } })),
    )
  for (const topic of [FAST, SAFE])
    await ledger.schedule(
      topic,
      KEYS.map((key) => entry(key)),
      0,
    )
  expect(await claim(ledger, SAFE, 1)).toEqual({ kinds: ['ours'], deliveries: [1], count: KEYS.length })
  expect(await claim(ledger, FAST, 2)).toEqual({ kinds: ['ours'], deliveries: [1], count: KEYS.length })
  await server.restart()
  // The topic without the setting: held as before. The other one: as if nothing had happened.
  expect((await claim(ledger, SAFE, 3)).kinds).toEqual(['held'])
  const [first, ...rest] = all
  expect(await ledger.cancel(FAST, [first!])).toEqual(['cancelled'])
  const late = await settleAll(2)
  expect(new Set(late.map(({ answer }) => answer))).toEqual(new Set(['stale']))
  expect(await claim(ledger, FAST, 4)).toEqual({
    kinds: ['gone', 'ours'],
    deliveries: [1],
    count: rest.length,
  })
  // An outcome waits for the disk, and takes the claim before it along.
  const settled = await settleAll(4)
  expect(settled.filter(({ answer }) => answer === 'settled')).toHaveLength(rest.length)
  await server.restart()
  expect((await claim(ledger, FAST, 5)).kinds).toEqual(['gone'])
  const { books, counted } = await ledger.recount(FAST)
  expect(books).toMatchObject({ ...counted, done: rest.length, cancelled: 1, pending: 0, claimed: 0 })
  await ledger.close()
})

test('PostgreSQL alone: what was started is delivered again, and ends', { timeout: 120_000 }, async () => {
  url = await server.createDatabase()
  await using toc = await Tocsin.open({ ledger: url, logger: silentLogger })
  const topic = toc.topic('fast', { fastClaims: true, lease: '2s' })
  const starts = new Map<string, number>()
  let isKilled: Promise<void> | null = null
  topic.consume(async ({ key }) => {
    starts.set(key, (starts.get(key) ?? 0) + 1)
    isKilled ??= server.restart()
    await isKilled
  })
  await topic.scheduleMany(KEYS.map((key) => ({ key, delay: 0, payload: null })))
  await expect
    .poll(() => topic.list({ state: 'done' }).catch(() => null), { timeout: 60_000 })
    .toMatchObject({
      tasks: { length: KEYS.length },
    })
  expect([...starts.keys()].toSorted()).toEqual(KEYS.toSorted())
})
