/**
 * The recipe of docs/transactions.md: a coupon is redeemed, or it expires; never both, never neither. Both sides write
 * the coupon first and its timer second, each in one transaction.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { type PostgresServer, sql, startPostgres, pooled } from '../real-servers/postgres-server.ts'
import { startRedis } from '../real-servers/redis-server.ts'

const COUPONS = 5_000
const REDEEMERS = 8
/** Some are redeemed in time, some too late, and some at that very moment. */
const EARLY_MS = 500

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server.stop(), 60_000)

test.each(['PostgreSQL alone', 'PostgreSQL with Redis'])(
  `%s: ${COUPONS} coupons, redeemed at the moment at which they expire`,
  { timeout: 120_000 },
  async (composition) => {
    const url = await server.createDatabase()
    await using redis = composition === 'PostgreSQL alone' ? null : await startRedis()
    const open = { ledger: url, ...(redis === null ? {} : { timetable: redis.url }) }
    await sql(url, "CREATE TABLE coupon (id text PRIMARY KEY, state text NOT NULL DEFAULT 'open')")
    // Whoever gets the coupon writes a line: two lines would be both, none neither.
    await sql(url, 'CREATE TABLE happened (id text NOT NULL, what text NOT NULL)')
    await using toc = await Tocsin.open({ ...open, logger: false })
    const expiry = toc.topic<{ id: string }>('coupon.expiry', { batchSize: 50 })
    const ids = Array.from({ length: COUPONS }, (_, n) => `coupon-${n}`)
    await sql(url, 'INSERT INTO coupon (id) SELECT unnest($1::text[])', [ids])

    const won = `WITH won AS (UPDATE coupon SET state = $1 WHERE id = ANY ($2) AND state = 'open' RETURNING id)
      INSERT INTO happened SELECT id, $1 FROM won`
    expiry.consumeBatch(
      async (tasks, { tx }) => {
        const expired = tasks.map(({ payload }) => payload.id).toSorted()
        await tx.query(won, ['expired', expired])
      },
      { transaction: true },
    )

    const pool = pooled(url, { max: REDEEMERS })
    const outcomes = new Map<string, number>()
    const redeem = async (id: string): Promise<void> => {
      const client = await pool.connect()
      try {
        await client.query('BEGIN')
        const { rowCount } = await client.query(won, ['redeemed', [id]])
        // Too late: it has expired, and that is all there is to say.
        if (rowCount === 1) {
          const { outcome } = await expiry.cancel(id, { tx: client })
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
        }
        await client.query('COMMIT')
      } finally {
        client.release()
      }
    }
    const atMs = Date.now() + 4_000
    await expiry.scheduleMany(ids.map((id) => ({ key: id, at: atMs, payload: { id } })))
    // Real time: redeeming has to start shortly before the coupons expire.
    await new Promise((resolve) => setTimeout(resolve, atMs - Date.now() - EARLY_MS))
    const left = [...ids].toReversed()
    await Promise.all(
      Array.from({ length: REDEEMERS }, async () => {
        for (let id = left.pop(); id !== undefined; id = left.pop()) await redeem(id)
      }),
    )
    await expect
      .poll(
        async () => {
          const { pending, claimed } = await expiry.counts()
          return pending + claimed
        },
        { timeout: 60_000 },
      )
      .toBe(0)
    await pool.end()

    const rows = await sql<{ what: string; times: number }>(
      url,
      'SELECT what, count(*)::integer AS times FROM happened GROUP BY what',
    )
    const happened = Object.fromEntries(rows.map(({ what, times }) => [what, times]))
    expect((happened['redeemed'] ?? 0) + (happened['expired'] ?? 0)).toBe(COUPONS)
    expect(await sql(url, 'SELECT id FROM happened GROUP BY id HAVING count(*) > 1')).toEqual([])
    expect(await sql(url, "SELECT id FROM coupon WHERE state = 'open'")).toEqual([])
    // It was a race: neither side had it all.
    expect(Math.min(happened['redeemed'] ?? 0, happened['expired'] ?? 0)).toBeGreaterThan(0)
    expect(await toc.audit()).toMatchObject([{ balances: true }])
    console.log(`${composition}: ${JSON.stringify(happened)}, cancels ${JSON.stringify([...outcomes])}`)
  },
)
