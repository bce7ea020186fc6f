import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { type PostgresServer, sql, startPostgres } from '../../real-servers/postgres-server.ts'
import { startRedis } from '../../real-servers/redis-server.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'

const TOPIC = 'expiry'
const LIVES = isLong ? 25 : 8
/** More than all lives can do before they are killed: up to seven batches each. */
const TASKS = 50 * LIVES
const CONFIG = { lease: '1s', batchSize: 5 }

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

interface Coupon {
  readonly key: string
  readonly expired: number
}

test.each([
  ['one at a time, PostgreSQL alone', false, false],
  ['in batches, PostgreSQL with Redis', true, true],
])(
  `killed ${LIVES} times between the handler's UPDATE and the commit, %s: never half`,
  { timeout: 180_000 },
  async (_, batched, withRedis) => {
    const url = await postgres.createDatabase()
    await using redis = withRedis ? await startRedis() : null
    const open = { ledger: url, ...(redis === null ? {} : { timetable: redis.url }) }
    await sql(url, 'CREATE TABLE coupon (key text PRIMARY KEY, expired integer NOT NULL DEFAULT 0)')
    await using toc = await Tocsin.open({ ...open, logger: false })
    const topic = toc.topic<null>(TOPIC, CONFIG)
    const keys = Array.from({ length: TASKS }, (_any, n) => `coupon-${n}`)
    await sql(url, 'INSERT INTO coupon (key) SELECT unnest($1::text[])', [keys])
    await topic.scheduleMany(keys.map((key) => ({ key, delay: 0, payload: null })))

    /** A coupon is expired once where its task is done, and not at all where it waits: at every moment. */
    const halves = async (): Promise<Coupon[]> =>
      sql<Coupon & { key: string }>(
        url,
        `SELECT c.key, c.expired FROM coupon c LEFT JOIN tocsin.ended e ON e.key = c.key AND e.state = 1
         WHERE c.expired <> CASE WHEN e.key IS NULL THEN 0 ELSE 1 END`,
      )
    let kills = 0
    for (let life = 0; life < LIVES; life++) {
      await using program = await startProgram('postgres/transactional', {
        open,
        topic: TOPIC,
        config: CONFIG,
        batched,
        survives: life % 4,
      })
      await program
        .until('killed', (entries) => entries.some(({ event }) => event === 'killed'))
        .catch(() => {})
      kills += program.of('killed').length
      expect(program.of('unhandled')).toEqual([])
      expect(program.of('dead')).toEqual([])
      expect(await halves()).toEqual([])
    }
    expect(kills).toBe(LIVES)

    await using last = await startProgram('postgres/transactional', {
      open,
      topic: TOPIC,
      config: CONFIG,
      batched,
    })
    await eventually('all expired', async () => (await topic.counts()).pending === 0, 60_000)
    await eventually('all settled', async () => (await topic.counts()).claimed === 0, 60_000)
    expect(last.of('dead')).toEqual([])
    expect(await halves()).toEqual([])
    const [{ times } = { times: 0 }] = await sql<{ times: number }>(
      url,
      'SELECT count(*)::integer AS times FROM coupon WHERE expired = 1',
    )
    expect(times).toBe(TASKS)
    expect(await toc.audit()).toMatchObject([{ balances: true, books: { done: TASKS } }])
    console.log(
      `${kills} × SIGKILL after the handler's UPDATE: ${TASKS} coupons, each expired once, none half`,
    )
  },
)
