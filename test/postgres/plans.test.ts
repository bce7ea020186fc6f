/** At size, every step finds its rows by an index: asserted on PostgreSQL's own plans. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../generated.ts'
import { systemClock } from '../../src/clock.ts'
import { Tocsin } from '../../src/index.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { HASHES } from '../../src/ledgers/postgres/statements/batches.ts'
import { READS } from '../../src/ledgers/postgres/statements/reads.ts'
import { STATEMENTS } from '../../src/ledgers/postgres/statements/all.ts'
import { listEnded, listLive } from '../../src/ledgers/postgres/statements/lists.ts'
import type { Statement } from '../../src/ledgers/postgres/statements/statement.ts'
import { WRITES } from '../../src/ledgers/postgres/statements/writes.ts'
import { ENDED_STATES } from '../../src/ledgers/rows.ts'
import type { EntryView, ListQuery } from '../../src/timetable.ts'
import { LAST_INSTANT_MS } from '../../src/values/instant.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { type PostgresServer, startPostgres, pooled } from '../real-servers/postgres-server.ts'

const ROWS = isLong ? 10_000_000 : 200_000

/** The first instant at which tasks ring: far ahead of the clock of any test. */
const FIRST_MS = 1_800_000_000_000
/** As many tasks share a prefix, and as many a tag, whatever the number of rows. */
const SHARING = 40
const GROUPS = ROWS / SHARING
const GROUP = GROUPS / 2 + 2

let server: PostgresServer
let url: string
let client: pg.Client

const opened = () =>
  openPostgres(
    checkPostgresOptions({ url }),
    // A recount of everything takes its time.
    { callTimeoutMs: 60_000, notifyWithinMs: 0, shard: '1 of 1' },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )

beforeAll(
  async () => {
    server = await startPostgres()
    url = await server.createDatabase()
    await (await opened()).close()
    client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query("INSERT INTO tocsin.topic (name) VALUES ('other'), ('large')")
    // Half of them ring at one instant, as coupons do at midnight, the others one a minute. Every 50th has a prefix that
    // others have, too, and every 50th has a tag of its group and a tag of all. A few are claimed, and every 3,200th key only has an ended task.
    const columns = 'topic, cell, key, generation, due_ms, priority, created_ms, tags, body'
    const rows = `SELECT n, n % 64 AS cell,
        CASE WHEN n % 50 = 2 THEN 'user-' || n % ${GROUPS} || ':' || n ELSE 'key-' || n END AS key,
        CASE WHEN n % 50 = 1 THEN ARRAY['many', 'tag-' || n % ${GROUPS} + 1] END AS tags,
        ${FIRST_MS} + CASE WHEN n % 2 = 0 THEN 0 ELSE n * 60000 END AS ring
      FROM generate_series(1, ${ROWS}::bigint) AS n`
    await client.query(
      `INSERT INTO tocsin.live (${columns}, ring_ms, updated_ms, session, stamp, lease_ms)
       SELECT 2, cell, key, n, ring, 1, 0, tags, '{"n":1}', ring, 0, held, held, held * 9000000000000
       FROM (SELECT *, CASE WHEN n % 6400 = 1600 THEN 1 END AS held FROM (${rows}) AS r) AS s WHERE n % 3200 <> 0`,
    )
    // Every 100th is dead, that is, every 1,600th in cell 0.
    await client.query(
      `INSERT INTO tocsin.ended (${columns}, state, ended_ms, failures, deliveries)
       SELECT 2, cell, key, n, ring, 1, 0, tags, '{"n":1}', CASE WHEN n % 100 = 0 THEN 4 ELSE 1 + n % 3 END,
         1700000000000 + n, 1, 1 FROM (${rows}) AS s`,
    )
    // As many again ended in batches of 200. They have the prefixes of the others.
    await client.query(
      `INSERT INTO tocsin.ended_batch (topic, cell, state, ended_ms, count, due_from_ms, due_to_ms, hashes, keys, generations,
         dues_ms, created_ms, bodies)
       SELECT 2, cell, 1, 1700000000000 + n / 12800 * 12800, count(*), min(ring), max(ring), ${HASHES},
         string_agg(key, E'\\x1e'), array_agg(n), array_agg(ring), array_agg(0), string_agg('{"n":1}', E'\\x1e')
       FROM (SELECT n, cell, replace(key, 'key-', 'past-') AS key, ring FROM (${rows}) AS r) AS s
       GROUP BY cell, n / 12800`,
    )
    await client.query('VACUUM ANALYZE tocsin.ended_batch')
    await client.query('VACUUM ANALYZE tocsin.live')
    await client.query('VACUUM ANALYZE tocsin.ended')
  },
  isLong ? 1_800_000 : 60_000,
)
afterAll(async () => {
  await client.end()
  await server[Symbol.asyncDispose]()
})

interface Plan {
  readonly 'Node Type': string
  readonly 'Index Name'?: string
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Plan[]
}

function nodesOf(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}

interface Explained {
  readonly nodes: readonly Plan[]
  readonly ms: number
  /** How many blocks it looked at, in tables and indexes. */
  readonly blocks: number
}

async function planOf(text: string, values: readonly unknown[]): Promise<Explained> {
  // Undone: what is explained is carried out.
  await client.query('BEGIN')
  try {
    const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan; 'Execution Time': number }[] }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
      [...values],
    )
    const [found] = rows[0]?.['QUERY PLAN'] ?? []
    if (found === undefined) throw new Error('there is no plan')
    const nodes = nodesOf(found.Plan)
    // A node counts the blocks of the nodes below it, but not those of a write that runs after it.
    const blocks = nodes.map((node) => node['Shared Hit Blocks'] + node['Shared Read Blocks'])
    return { nodes, ms: found['Execution Time'], blocks: Math.max(...blocks) }
  } finally {
    await client.query('ROLLBACK')
  }
}

function expectIndexesOnly(nodes: readonly Plan[]): void {
  // The thousand batches of a short run are fewer blocks than their index.
  const tables = ['live', 'ended', ...(isLong ? ['ended_batch'] : [])]
  const scans = nodes.filter((node) => tables.includes(node['Relation Name'] ?? ''))
  expect(scans.map((scan) => scan['Node Type'])).not.toContain('Seq Scan')
}

const TASKS = Array.from({ length: 10 }, (_, n) => (n + 1) * 1_600)
const each = (value: string) => `{${TASKS.map(() => value).join(',')}}`
const keysNamed = (prefix: string) => `{${TASKS.map((n) => `${prefix}-${n}`).join(',')}}`

/** A value for each parameter of the statements, by name and type. */
const VALUES: Readonly<Record<string, unknown>> = {
  'after text': '',
  'alone boolean[]': each('f'),
  'are_delays boolean[]': each('f'),
  'batch_min integer': 1,
  'beats bigint': 1,
  'bodies text': TASKS.map(() => '1').join('\x1e'),
  'card text': '{}',
  'causes text[]': each('attempts'),
  'cell smallint': 0,
  'cells smallint[]': each('0'),
  'change_id text': 'c',
  'changed_by text': 'n',
  'channel text': 'tocsin_test',
  'dead_before_ms bigint': 1_700_000_000_000,
  'dead_max bigint': ROWS / 100 - 5,
  'declared text': '{}',
  'due_from_ms bigint': FIRST_MS,
  'due_to_ms bigint': FIRST_MS + ROWS * 60_000,
  'edition bigint': 1,
  'ended_before_ms bigint': 1_700_000_001_000,
  'ended_ms bigint': 1_700_000_000_000 + ROWS / 2,
  'errors text[]': each('e'),
  'expected integer': 0,
  'expects_new boolean': false,
  'failed boolean[]': each('t'),
  'failures integer': 0,
  'from_ms bigint': FIRST_MS + ROWS * 30_000,
  'generation bigint': 0,
  'id text': 'n',
  'is_fast boolean': false,
  'is_paused boolean': false,
  'key text': 'key-1600',
  'keys text[]': keysNamed('key'),
  'kind text': 'at',
  'kinds text[]': each('dead'),
  'leases_ms bigint[]': each('30000'),
  'limit bigint': 100,
  'live text': '{}',
  'lock_timeout_ms integer': 100,
  'merge_ms bigint': 0,
  'ms bigint': FIRST_MS,
  'ms bigint[]': each(String(FIRST_MS)),
  'name text': 'large',
  'not_after_ms bigint': null,
  'notify_within_ms bigint': 0,
  'only_newest boolean': true,
  'patch text': '{}',
  'payload text': '',
  'poison_format text': '%s',
  'prefix text': `user-${GROUP}`,
  'prefix_from text': `user-${GROUP}:`,
  'prefix_to text': `user-${GROUP};`,
  'priorities smallint[]': each('1'),
  'rang_ms bigint[]': each(String(FIRST_MS)),
  'delays double precision[]': each('0.5'),
  'ring_ms bigint': FIRST_MS + ROWS * 30_000,
  'session bigint': 1,
  'slot_by text': 'key',
  'sizes integer[]': each('1'),
  'ctids text[]': each('NULL'),
  'slots smallint': 1,
  'stamp bigint': 1,
  'stamps bigint[]': each('1'),
  'states smallint[]': each('1'),
  'step_ms bigint': 60_000,
  'tag text': `tag-${GROUP}`,
  'tags text[]': each('t'),
  'to_ms bigint': FIRST_MS + ROWS * 30_000 + 3_600_000,
  'token text': '{}',
  'topic integer': 2,
  'topic text': 'large',
  'topic_name text': 'large',
  'transaction_id text': null,
  'until_ms bigint': FIRST_MS + ROWS * 60_000,
}

interface Expected {
  /** How many blocks it may look at. The tables have some 10,000 blocks, and 50 times as many in `npm run test:long`. */
  readonly blocksMax: number
  /** Values in place of those above. */
  readonly values?: Readonly<Record<string, unknown>>
}

/** Ten tasks, or one page. */
const FEW: Expected = { blocksMax: 600 }
/** A page of a thousand keys. */
const PAGE: Expected = { blocksMax: 2_500 }
/** It counts everything on purpose. */
const WHOLE: Expected = { blocksMax: Number.POSITIVE_INFINITY }

/** Every statement of the ledger has an entry. */
const EXPECTED: Readonly<Record<string, Readonly<Record<string, Expected>>>> = {
  write: {
    scheduleNew: { ...FEW, values: { 'keys text[]': keysNamed('new') } },
    schedule: FEW,
    scheduleKeeping: FEW,
    cancel: FEW,
    cancelUnkept: FEW,
    reschedule: FEW,
    // Ten claim calls of one key each.
    claimGroups: FEW,
    claim: FEW,
    claimAny: FEW,
    begin: FEW,
    extend: FEW,
    // Ten groups of one task each.
    finish: FEW,
    finishUnkept: FEW,
    settle: FEW,
    replay: FEW,
    purge: FEW,
    forgetEnded: PAGE,
    forgetBatches: PAGE,
    forgetDead: PAGE,
  },
  read: {
    get: FEW,
    hints: FEW,
    load: FEW,
    findLive: PAGE,
    findLiveByTag: FEW,
    findLiveByPrefix: FEW,
    findDead: PAGE,
    // It reads the dead tasks of the cell, of which there are at most some 16,000.
    findDeadByTag: { blocksMax: ROWS / 1_600 + 600 },
    findDeadByPrefix: FEW,
    counts: FEW,
    books: FEW,
    forecast: FEW,
    recount: WHOLE,
    listLive: PAGE,
    listEnded: PAGE,
    // With a prefix, it reads the hashes of all batches, which is a fraction of the batches themselves.
    listBatches: {
      blocksMax: 600 + ROWS / 3_000,
      values: { 'from_ms bigint': 0, 'to_ms bigint': LAST_INSTANT_MS },
    },
  },
  topic: {
    list: FEW,
    find: FEW,
    create: FEW,
    place: FEW,
    announce: FEW,
    slotBy: FEW,
    fixedSlotBy: FEW,
  },
  transaction: { currentId: FEW, hasLedger: FEW, ledgerId: FEW, feed: FEW, hold: FEW },
  board: {
    beat: FEW,
    cards: FEW,
    readsBatches: FEW,
    leave: FEW,
    bury: FEW,
    records: FEW,
    create: FEW,
    change: FEW,
    history: FEW,
    tokens: FEW,
    putToken: FEW,
    dropToken: FEW,
  },
  upkeep: {
    server: FEW,
    newSession: FEW,
    now: FEW,
    takeFeed: FEW,
    mergeBooks: FEW,
    notify: FEW,
  },
}

const STATEMENT_NAMES = Object.entries(STATEMENTS).flatMap(([group, statements]) =>
  Object.keys(statements).map((name) => [group, name] as const),
)

function statementOf(group: string, name: string): Statement {
  const statement = STATEMENTS[group]?.[name]
  if (statement === undefined) throw new Error(`there is no statement '${group}.${name}'`)
  return statement
}

test('every statement has an expectation here, and every expectation a statement', () => {
  const names = Object.entries(EXPECTED).flatMap(([group, of]) =>
    Object.keys(of).map((name) => `${group}.${name}`),
  )
  expect(new Set(names)).toEqual(new Set(STATEMENT_NAMES.map(([group, name]) => `${group}.${name}`)))
})

test.each(STATEMENT_NAMES)(
  `over ${ROWS.toLocaleString('en')} rows, %s.%s finds its rows by indexes`,
  async (group, name) => {
    const { text, takes } = statementOf(group, name)
    const { blocksMax, values = {} } = EXPECTED[group]?.[name] ?? { blocksMax: 0 }
    const given = { ...VALUES, ...values }
    const parameters = takes.map(({ name: parameter, type }) => {
      const id = `${parameter} ${type}`
      if (!(id in given)) throw new Error(`there is no value for the parameter '${id}'`)
      return given[id]
    })
    const { nodes, blocks } = await planOf(text, parameters)
    expect(blocks).toBeLessThanOrEqual(blocksMax)
    if (blocksMax < Number.POSITIVE_INFINITY) expectIndexesOnly(nodes)
  },
)

const LIST: ListQuery = {
  state: null,
  tag: null,
  prefix: null,
  dueFromMs: 0,
  dueToMs: LAST_INSTANT_MS,
  limit: 100,
  after: null,
}
const LATE_MS = FIRST_MS + (ROWS - 2_000) * 60_000

/** statements.sql shows a list with all conditions. These are lists that have some of them. */
test.each<[string, Partial<ListQuery>]>([
  ['a tag', { tag: `tag-${GROUP}` }],
  ['a tag of many', { tag: 'many' }],
  ['a tag of many, from a late due time', { tag: 'many', dueFromMs: LATE_MS }],
  ['a tag that no task has', { tag: 'none' }],
  ['a prefix', { prefix: `user-${GROUP}` }],
  ['a prefix that no key has', { prefix: 'none' }],
  ['from a late due time', { dueFromMs: LATE_MS }],
  ['after a late task', { after: { ringMs: LATE_MS, failures: 0, key: '' } }],
  ['claimed', { state: 'claimed' }],
  ['dead', { state: 'dead' }],
  ['dead, after one of the last', { state: 'dead', after: { ringMs: 1.7e12 + ROWS, failures: 0, key: '' } }],
  ['done, with a tag', { state: 'done', tag: `tag-${GROUP}` }],
  ['done, with a tag of many', { state: 'done', tag: 'many' }],
  ['dead, with a tag that no task has', { state: 'dead', tag: 'none' }],
  ['done, with a prefix', { state: 'done', prefix: `user-${GROUP}` }],
])('a list of some: %s', async (_, some) => {
  const query = { ...LIST, ...some }
  const state = query.state === null ? -1 : ENDED_STATES.indexOf(query.state as 'done')
  const { text, values } = state > 0 ? listEnded(2, state, query) : listLive(2, query)
  const { nodes, blocks } = await planOf(text, values)
  expect(blocks).toBeLessThanOrEqual(PAGE.blocksMax)
  expectIndexesOnly(nodes)
})

test(`the due scan over ${ROWS.toLocaleString('en')} rows`, async () => {
  for (const [ringMs, cell, key] of [
    [-1, 0, ''],
    [FIRST_MS, 31, 'key-5'],
  ]) {
    const { nodes, ms } = await planOf(READS.load.text, [2, ringMs, cell, key, LAST_INSTANT_MS, 1_000])
    expectIndexesOnly(nodes)
    expect(nodes.map((node) => node['Index Name'])).toContain('live_ring')
    // In order as they lie: with millions at one instant a sort would read them all.
    expect(nodes.filter((node) => node['Node Type'].includes('Sort'))).toEqual([])
    console.log(`a page of 1,000 hints out of ${ROWS} rows took ${ms} ms`)
  }
})

test('a forecast answers in time, whatever rings outside of it', async () => {
  const toc = await Tocsin.open({ ledger: url, logger: false })
  try {
    const from = new Date(FIRST_MS + ROWS * 30_000)
    const to = new Date(from.getTime() + 3_600_000)
    const began = performance.now()
    const steps = await toc.topic('large').forecast({ from, to, step: '1h' })
    console.log(`a forecast over ${ROWS} rows took ${Math.round(performance.now() - began)} ms`)
    // One in two minutes.
    expect(steps).toEqual([{ at: from, due: 30 }])
  } finally {
    await toc.close()
  }
})

/** Half of the ended tasks are in batches. `recount` reads all of them on purpose. */
test(`what reads and deletes ended tasks, over ${(2 * ROWS).toLocaleString('en')} of them`, async () => {
  const ledger = await opened()
  const took = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const began = performance.now()
    const answer = await work()
    console.log(`${what} out of ${2 * ROWS} ended tasks took ${(performance.now() - began).toFixed(1)} ms`)
    return answer
  }
  const page = async (what: string, query: Partial<ListQuery>): Promise<EntryView[]> =>
    took(what, () => ledger.list('large', { ...LIST, state: 'done', ...query }))
  try {
    const get = (key: string) => took(`get '${key}'`, () => ledger.get('large', { key, cell: 0 }))
    await ledger.get('large', { key: 'other', cell: 0 })
    expect(await get('past-1600')).toMatchObject({ state: 'done' })
    expect(await get('past-none')).toBeNull()
    const first = await page('the first page of the done', {})
    const last = first.at(-1) as EntryView
    const after = { ringMs: last.updatedMs, key: last.key, failures: last.generation ?? 0 }
    expect([first.length, (await page('the next page', { after })).length]).toEqual([100, 100])
    expect((await page('the done of a prefix', { prefix: `user-${GROUP}` })).length).toBeGreaterThan(
      SHARING / 2,
    )
    expect(await page('the done from a late due time', { dueFromMs: LATE_MS })).toHaveLength(100)
    expect(await page('the first page of the dead', { state: 'dead' })).toHaveLength(100)
    const { counted } = await took('a recount', () => ledger.recount('large'))
    expect(counted.done).toBeGreaterThan(ROWS)
  } finally {
    await ledger.close()
  }
})

/** Ways that were planned on one connection while the tables were empty are kept by it, however large they become. */
test.each([1, 8])(
  'planned when the tables were empty, %i partitions: as quick when they are full',
  async (partitions) => {
    const url = await server.createDatabase()
    const pool = pooled(url, { max: 2 })
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
  await client.query('UPDATE tocsin.live SET session = 1, stamp = 1, lease_ms = 0 WHERE generation % 10 = 3')
  const claim = await planOf(WRITES.claim.text, [
    2,
    ...places,
    all('1'),
    all('30000'),
    all('1900000000000'),
    all('f'),
    1,
    false,
  ])
  expectIndexesOnly(claim.nodes)
  const group = [
    2,
    '{0}',
    [keys.map((n) => `key-${n}`).join('\x1e')],
    '{1}',
    '{30000}',
    '{1900000000000}',
    1,
    100,
    false,
  ]
  const claimGroups = await planOf(WRITES.claimGroups.text, group)
  expectIndexesOnly(claimGroups.nodes)
  // By key, and then by ctid: some blocks for each of the 500.
  expect(claimGroups.blocks).toBeLessThan(20_000)
  const finish = await planOf(WRITES.finish.text, [
    2,
    '{0}',
    group[2],
    '{1}',
    '{1}',
    `{${keys.length}}`,
    1,
    100,
    '{NULL}',
    1,
  ])
  expectIndexesOnly(finish.nodes)
  expect(finish.blocks).toBeLessThan(20_000)
  console.log(`a claim of 500 out of ${ROWS} rows took ${claim.ms} ms`)
})
