/** At size, every step finds its rows by an index: asserted on PostgreSQL's own plans. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../generated.ts'
import { systemClock } from '../../src/clock.ts'
import { Tocsin } from '../../src/index.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { READS } from '../../src/ledgers/postgres/statements/reads.ts'
import { WRITES } from '../../src/ledgers/postgres/statements/writes.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'

const ROWS = isLong ? 10_000_000 : 200_000

let server: PostgresServer
let client: pg.Client

beforeAll(
  async () => {
    server = await startPostgres()
    const url = await server.createDatabase()
    const ledger = await openPostgres(
      checkPostgresOptions({ url }),
      { callTimeoutMs: 5_000, notifyWithinMs: 0, shard: '1 of 1' },
      { clock: systemClock, random: systemRandom, logger: silentLogger },
    )
    await ledger.close()
    client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query("INSERT INTO tocsin.topic (name) VALUES ('other'), ('large')")
    // Half of them ring at one instant, as coupons do at midnight.
    await client.query(
      `INSERT INTO tocsin.live (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, body)
       SELECT 2, n % 64, 'key-' || n, n, ring, ring, 1, 0, 0, '{"n":1}'
       FROM (SELECT n, 1800000000000 + CASE WHEN n % 2 = 0 THEN 0 ELSE n END AS ring FROM generate_series(1, $1::bigint) AS n) AS s`,
      [ROWS],
    )
    await client.query('ANALYZE tocsin.live')
  },
  isLong ? 900_000 : 60_000,
)
afterAll(async () => {
  await client.end()
  await server[Symbol.asyncDispose]()
})

interface Plan {
  readonly 'Node Type': string
  readonly 'Index Name'?: string
  readonly 'Relation Name'?: string
  readonly Plans?: readonly Plan[]
}

function nodesOf(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}

async function planOf(text: string, values: readonly unknown[]): Promise<{ nodes: Plan[]; ms: number }> {
  // Undone: what is explained is carried out.
  await client.query('BEGIN')
  const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan; 'Execution Time': number }[] }>(
    `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
    [...values],
  )
  await client.query('ROLLBACK')
  const [found] = rows[0]?.['QUERY PLAN'] ?? []
  if (found === undefined) throw new Error('there is no plan')
  return { nodes: nodesOf(found.Plan), ms: found['Execution Time'] }
}

function expectIndexesOnly(nodes: readonly Plan[]): void {
  const scans = nodes.filter((node) => node['Relation Name'] === 'live')
  expect(scans.length).toBeGreaterThan(0)
  for (const scan of scans)
    expect(['Index Scan', 'Index Only Scan', 'Tid Scan', 'ModifyTable']).toContain(scan['Node Type'])
}

test(`the due scan over ${ROWS.toLocaleString('en')} rows`, async () => {
  for (const [ringMs, cell, key] of [
    [-1, 0, ''],
    [1_800_000_000_000, 31, 'key-5'],
  ]) {
    const { nodes, ms } = await planOf(READS.load.text, [2, ringMs, cell, key, 1_900_000_000_000, 1_000])
    expectIndexesOnly(nodes)
    expect(nodes.map((node) => node['Index Name'])).toContain('live_ring')
    // In order as they lie: with millions at one instant a sort would read them all.
    expect(nodes.filter((node) => node['Node Type'].includes('Sort'))).toEqual([])
    console.log(`a page of 1,000 hints out of ${ROWS} rows took ${ms} ms`)
  }
})

/** Ways that were planned on one connection while the tables were empty are kept by it, however large they become. */
test.each([1, 8])(
  'planned when the tables were empty, %i partitions: as quick when they are full',
  async (partitions) => {
    const url = await server.createDatabase()
    const pool = new pg.Pool({ connectionString: url, max: 2 })
    const { postgres } = await import('../../src/entry/postgres.ts')
    const toc = await Tocsin.open({ ledger: postgres({ pool, partitions }), logger: false })
    try {
      const topic = toc.topic<number>('burst')
      const done = new Set<string>()
      const consumer = topic.consume(async ({ key }) => void done.add(key), { concurrency: 200 })
      await topic.schedule({ key: 'first', delay: 1, payload: 0 })
      await expect.poll(() => done.size, { timeout: 10_000 }).toBe(1)
      const count = 20_000
      const at = Date.now() + 4_000
      await topic.scheduleMany(Array.from({ length: count }, (_, n) => ({ key: `k${n}`, at, payload: n })))
      // A plan that reads the whole table for each batch needs minutes.
      await expect.poll(() => done.size, { timeout: 25_000 }).toBe(count + 1)
      await consumer.stop()
    } finally {
      await toc.close()
      await pool.end()
    }
  },
  60_000,
)

// The update takes its time on ten million rows.
test('a claim, and its settling', { timeout: 180_000 }, async () => {
  const keys = Array.from({ length: 500 }, (_, n) => n * 64 + 64)
  const places = [`{${keys.map(() => 0).join(',')}}`, `{${keys.map((n) => `key-${n}`).join(',')}}`]
  const all = (value: string) => `{${keys.map(() => value).join(',')}}`
  // Most of them claimed, and statistics that know of none: what is believed must not matter.
  await client.query('UPDATE tocsin.live SET session = 1, stamp = 1, lease_ms = 0 WHERE ring_ms % 10 = 3')
  const claim = await planOf(WRITES.claim.text, [
    2,
    ...places,
    all('1'),
    all('30000'),
    all('1900000000000'),
    all('f'),
    1,
  ])
  expectIndexesOnly(claim.nodes)
  const finish = await planOf(WRITES.finish.text, [2, ...places, all('1'), all('1'), 1, 100])
  expectIndexesOnly(finish.nodes)
  console.log(`a claim of 500 out of ${ROWS} rows took ${claim.ms} ms`)
})
