/** `tocsin.schedule`, `cancel` and `reschedule`: what SQL says does what the library does, and is refused as it refuses. */
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TocsinError, Tocsin, type Topic } from 'tocsin'
import { postgres } from 'tocsin/postgres'
import { cellOf } from '../../src/values/cell.ts'
import { crc32 } from '../../src/lib/crc32.ts'
import { LONGEST_DURATION_MS } from '../../src/values/duration.ts'
import { ERROR_TABLE, type ErrorCode } from '../../src/errors.ts'
import { LAST_INSTANT_MS } from '../../src/values/instant.ts'
import { MIGRATIONS } from '../../src/ledgers/postgres/migrations.ts'
import { SQL_FUNCTIONS, SQL_FUNCTIONS_VERSION } from '../../src/ledgers/postgres/sql-functions.ts'
import { SQL_STATES, type SqlErrorCode } from '../../src/ledgers/postgres/sql-states.ts'
import { read } from '../docs/markdown.ts'
import { type PostgresServer, sql, startPostgres, pooled } from '../real-servers/postgres-server.ts'
import { startRedis } from '../real-servers/redis-server.ts'

let server: PostgresServer
let url: string
let pool: pg.Pool
let toc: Tocsin
let topic: Topic<unknown, unknown>

beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)
beforeEach(async () => {
  url = await server.createDatabase()
  pool = pooled(url)
  toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
  topic = toc.topic('shop')
  // From now on the database knows the topic.
  await topic.schedule({ key: 'first', delay: '1h', payload: null })
  await topic.cancel('first')
})
afterEach(async () => {
  await toc.close()
  await pool.end()
})

type Answer = Record<string, unknown>

/** One row that a function answers, with the names that the library has. */
async function answer(call: string, values: readonly unknown[] = []): Promise<Answer> {
  const { rows } = await pool.query<Answer>(`SELECT * FROM tocsin.${call}`, [...values])
  expect(rows).toHaveLength(1)
  const { due_at: dueAt, in_flight: inFlight, ...row } = rows[0] as Answer
  return {
    ...row,
    ...(dueAt === undefined ? {} : { dueAt }),
    ...(inFlight === undefined ? {} : { inFlight }),
  }
}

interface SqlError {
  readonly code: string
  readonly message: string
  readonly hint?: string
}

async function sqlError(call: string, values: readonly unknown[] = []): Promise<SqlError> {
  try {
    await pool.query(`SELECT * FROM tocsin.${call}`, [...values])
  } catch (error) {
    return error as SqlError
  }
  throw new Error(`not refused: ${call}`)
}

async function libraryCode(call: () => unknown): Promise<ErrorCode> {
  try {
    await call()
  } catch (error) {
    if (TocsinError.is(error)) return error.code
    throw error
  }
  throw new Error('the library did not refuse')
}

/** From now on the ledger's clock stands still, so that answers can be compared to the millisecond. */
async function stopClock(): Promise<number> {
  const nowMs = 1_800_000_000_123
  await pool.query(`CREATE OR REPLACE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
    $$ SELECT ${nowMs}::bigint $$`)
  return nowMs
}

describe('where a key lives', () => {
  test('crc32 and cell are those of the library, for thousands of keys in all alphabets', async () => {
    let seed = 1
    const chance = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
    const alphabets = [
      'abcdefghij0123456789-_.:',
      'éüßñ:',
      '漢字仮名:',
      '😀🕰️:',
      '\u007e\u00a0\uffff\u{10ffff}',
    ]
    const keys = Array.from({ length: 4_000 }, (_, n) => {
      const letters = Array.from(alphabets[n % alphabets.length] as string)
      return Array.from({ length: 1 + chance(90) }, () => letters[chance(letters.length)]).join('')
    })
    const { rows } = await pool.query<{ crc: number; by_key: number; by_prefix: number }>(
      `SELECT tocsin.crc32(convert_to(key, 'UTF8'))::float8 AS crc, tocsin.cell_of(key, 'key') AS by_key,
         tocsin.cell_of(key, 'prefix') AS by_prefix
       FROM unnest($1::text[]) WITH ORDINALITY AS k (key, n) ORDER BY n`,
      [keys],
    )
    expect(rows).toEqual(
      keys.map((key) => ({
        crc: crc32(key),
        by_key: cellOf(key, 'key'),
        by_prefix: cellOf(key, 'prefix'),
      })),
    )
  })
})

describe('the same answers as the library', () => {
  const AT = '2030-01-01T00:00:00.001Z'

  test('created, replaced, kept; cancelled, rescheduled, not found; and the same tasks afterwards', async () => {
    await stopClock()
    const payload = {
      text: 'a "quoted" \\ line\n\u001e\u007f é 漢 😀',
      list: [1, -2.5, 1e21, null, true, {}],
      deep: [[[]]],
    }
    const json = JSON.stringify(payload)
    const task = { at: AT, payload }
    const steps: [library: (key: string) => Promise<object>, call: string, values: unknown[]][] = [
      [(key) => topic.schedule({ ...task, key }), 'schedule($2, $1, $3, $4)', ['shop', AT, json]],
      [
        (key) => topic.schedule({ key, delay: '90s', payload: 7, tags: ['b', 'a', 'b'], priority: 'high' }),
        `schedule($2, $1, delay => '90 seconds', payload => '7', tags => '{b,a,b}', priority => 'high')`,
        ['shop'],
      ],
      [(key) => topic.get(key) as Promise<object>, '', []],
      [
        (key) => topic.schedule({ ...task, key, onConflict: 'keep' }),
        `schedule($2, $1, $3, $4, on_conflict => 'keep')`,
        ['shop', AT, json],
      ],
      [(key) => topic.reschedule(key, { at: AT }), 'reschedule($2, $1, $3)', ['shop', AT]],
      [
        (key) => topic.reschedule(key, { delay: '1h' }),
        `reschedule($2, $1, delay => interval '1 hour')`,
        ['shop'],
      ],
      [(key) => topic.get(key) as Promise<object>, '', []],
      [(key) => topic.cancel(key), 'cancel($2, $1)', ['shop']],
      [(key) => topic.cancel(key), 'cancel($2, $1)', ['shop']],
      [(key) => topic.reschedule(key, { at: AT }), 'reschedule($2, $1, $3)', ['shop', AT]],
      [
        (key) => topic.schedule({ ...task, key, onConflict: 'keep', priority: 'low', tags: [] }),
        `schedule($2, $1, $3, $4, on_conflict => 'keep', priority => 'low', tags => '{}')`,
        ['shop', AT, json],
      ],
      [(key) => topic.get(key) as Promise<object>, '', []],
      // In the past: it rings at once.
      [
        (key) => topic.reschedule(key, { at: 100_000_000_000 }),
        'reschedule($2, $1, to_timestamp(100000000))',
        ['shop'],
      ],
      [
        (key) => topic.schedule({ ...task, at: new Date(0), key }),
        `schedule($2, $1, to_timestamp(0), $3)`,
        ['shop', json],
      ],
    ]
    const outcomes: string[] = []
    for (const [library, call, values] of steps) {
      const [ofLibrary, ofSql] = ['by-library', 'by-sql']
      const expected = await library(ofLibrary)
      const got = call === '' ? await library(ofSql) : await answer(call, [ofSql, ...values])
      expect(comparable(got)).toEqual(comparable(expected))
      if (call !== '') outcomes.push((got as { outcome: string }).outcome)
    }
    expect(outcomes.join(' ')).toBe(
      'created replaced kept rescheduled rescheduled cancelled not-found not-found created rescheduled replaced',
    )
    expect(await toc.audit()).toMatchObject([
      { balances: true, books: { scheduled: 5, cancelled: 3, pending: 2 } },
    ])
  })

  /** Without what is each one's own. */
  function comparable(one: object): object {
    const { key: _, id: __, ...rest } = one as Answer
    return rest
  }

  test('in flight: replaced, kept, cancelled, moved, and replaced when it was cancelled before', async () => {
    const cases = ['replace', 'keep', 'cancel', 'move', 'cancelled-keep']
    const keys = cases.flatMap((name) => [`lib-${name}`, `sql-${name}`])
    let letGo = () => {}
    const held = new Promise<void>((resolve) => (letGo = resolve))
    let holding = 0
    let onAll = () => {}
    const all = new Promise<void>((resolve) => (onAll = resolve))
    topic.consume(
      async () => {
        if (++holding === keys.length) onAll()
        await held
      },
      { concurrency: 64 },
    )
    await topic.scheduleMany(keys.map((key) => ({ key, delay: 0, payload: null })))
    await all
    const at = new Date('2031-01-01T00:00:00Z')
    const task = { at, payload: 1 }
    const pairs: [object, Answer][] = [
      [
        await topic.schedule({ key: 'lib-replace', ...task }),
        await answer(`schedule('shop', 'sql-replace', $1, '1')`, [at]),
      ],
      [
        await topic.schedule({ key: 'lib-keep', ...task, onConflict: 'keep' }),
        await answer(`schedule('shop', 'sql-keep', $1, '1', on_conflict => 'keep')`, [at]),
      ],
      [await topic.cancel('lib-cancel'), await answer(`cancel('shop', 'sql-cancel')`)],
      [await topic.reschedule('lib-move', { at }), await answer(`reschedule('shop', 'sql-move', $1)`, [at])],
      [await topic.cancel('lib-cancelled-keep'), await answer(`cancel('shop', 'sql-cancelled-keep')`)],
      [
        await topic.schedule({ key: 'lib-cancelled-keep', ...task, onConflict: 'keep' }),
        await answer(`schedule('shop', 'sql-cancelled-keep', $1, '1', on_conflict => 'keep')`, [at]),
      ],
    ]
    letGo()
    const told = pairs.map(([ofLibrary, ofSql]) => {
      const { dueAt: _, ...mine } = comparable(ofSql) as Answer
      const { dueAt: __, ...theirs } = comparable(ofLibrary) as Answer
      expect(mine).toEqual(theirs)
      return mine
    })
    expect(told).toEqual([
      { outcome: 'replaced', inFlight: true },
      { outcome: 'kept', inFlight: true },
      { outcome: 'in-flight' },
      { outcome: 'in-flight' },
      { outcome: 'in-flight' },
      { outcome: 'replaced', inFlight: true },
    ])
    await expect.poll(async () => (await topic.counts()).claimed).toBe(0)
    expect(await toc.audit()).toMatchObject([{ balances: true }])
  })

  test('a key is made where none is given, and the answer is a row or its columns', async () => {
    const { rows } = await pool.query<{ schedule: string }>(
      `SELECT tocsin.schedule('shop', 'k', '2030-01-01T00:00:00Z', '1')`,
    )
    expect(rows[0]?.schedule).toMatch(/^\(k,created,".*",f\)$/)
    const { key } = await answer(`schedule('shop', NULL, '2030-01-01T00:00:00Z', '{"a":1}')`)
    expect(key).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(await topic.get(key as string)).toMatchObject({ payload: { a: 1 }, state: 'pending' })
  })

  test('times are rounded up as the library rounds them: fractions, and what the topic merges', async () => {
    const nowMs = await stopClock()
    const merged = toc.topic('merged', { merge: '10s' })
    await merged.schedule({ key: 'first', delay: '1h', payload: null })
    for (const micros of ['.000001', '.000999', '.001000', '.999001', '.123456']) {
      const at = `2026-11-16T12:34:56${micros}Z`
      for (const of of [topic, merged])
        expect((await answer(`schedule($1, 'sql', $2, '1')`, [of.name, at]))['dueAt']).toEqual(
          (await of.schedule({ key: 'lib', at, payload: 1 })).dueAt,
        )
    }
    expect((await answer(`reschedule('merged', 'sql', delay => '1 second')`))['dueAt']).toEqual(
      (await merged.reschedule('lib', { delay: '1s' })).dueAt,
    )
    const delays = { '0': 0, '0.000001 seconds': 1, '1 day': 86_400_000, '36500 days': LONGEST_DURATION_MS }
    for (const [text, ms] of Object.entries(delays))
      expect((await answer(`schedule('shop', 'd', payload => '1', delay => $1)`, [text]))['dueAt']).toEqual(
        new Date(nowMs + ms),
      )
    expect((await answer(`schedule('shop', 'd', $1, '1')`, [new Date(LAST_INSTANT_MS)]))['dueAt']).toEqual(
      new Date(LAST_INSTANT_MS),
    )
  })

  test('a day of a delay has 24 hours, whatever the time zone of the session', async () => {
    await pool.query(`CREATE OR REPLACE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
      $$ SELECT ${Date.parse('2026-03-28T12:00:00Z')}::bigint $$`)
    const client = await pool.connect()
    await client.query(`SET TimeZone = 'Europe/Berlin'`)
    const { rows } = await client.query(
      `SELECT due_at FROM tocsin.schedule('shop', 'd', payload => '1', delay => '1 day')`,
    )
    client.release(true)
    expect(rows).toEqual([{ due_at: new Date('2026-03-29T12:00:00Z') }])
  })

  test('on tables in partitions', async () => {
    const apart = new URL(await server.createDatabase())
    apart.searchParams.set('partitions', '8')
    await using divided = await Tocsin.open({ ledger: apart.href, logger: false })
    const shop = divided.topic<number>('shop')
    await shop.schedule({ key: 'first', delay: '1h', payload: 0 })
    apart.search = ''
    await sql(
      apart.href,
      `SELECT tocsin.schedule('shop', 'k' || n, delay => '1 hour', payload => to_jsonb(n))
      FROM generate_series(1, 100) AS n`,
    )
    await sql(
      apart.href,
      `SELECT tocsin.cancel('shop', 'k7'), tocsin.reschedule('shop', 'k8', delay => '2 hours')`,
    )
    expect(await shop.get('k99')).toMatchObject({ state: 'pending', payload: 99 })
    expect(await divided.audit()).toMatchObject([{ balances: true, books: { pending: 100, cancelled: 1 } }])
  })
})

describe('the same refusals as the library', () => {
  const wrong = (value: unknown): never => value as never
  const KEY = 'schedule($1, $2, now(), $3, tags => $4)'
  const nested = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
  const mixed = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`
  const good = { key: 'k', delay: '1m', payload: null }

  type Row = [name: string, code: SqlErrorCode, library: () => unknown, call: string, values?: unknown[]]
  const keys = [
    '',
    'k'.repeat(257),
    'é'.repeat(129),
    'a\nb',
    'a\u0001b',
    'a\u001eb',
    'a\u007fb',
    'a\u0085b',
    '.',
    '..',
  ]
  const tags = [
    [''],
    ['t'.repeat(65)],
    ['é'.repeat(33)],
    ['a\tb'],
    [null],
    ['a', 'b', 'c', 'd', 'e'],
    [['a', 'b']],
  ]
  const names = ['', 'Order', '9x', '-x', 'a b', 'ordér', 'a/b', 'a:b', 'a\n', 'a'.repeat(65)]
  const priorities = ['urgent', 'HIGH', '']
  const tooLarge = JSON.stringify('x'.repeat(65_535))
  const payloads: [string, SqlErrorCode][] = [
    [nested(101), 'bad-payload'],
    [mixed(102), 'bad-payload'],
    ['{"a":{"__proto__":1}}', 'bad-payload'],
    ['[{"__proto__":{}}]', 'bad-payload'],
    [tooLarge, 'payload-too-large'],
    [JSON.stringify(Array.from({ length: 32_768 }, () => 1)), 'payload-too-large'],
  ]
  const rows: Row[] = [
    ...names.map((name): Row => [
      `topic ${JSON.stringify(name)}`,
      'bad-topic',
      () => toc.topic(name),
      KEY,
      [name, 'k', 'null', null],
    ]),
    ...keys.flatMap((key): Row[] => [
      [
        `key ${JSON.stringify(key)}`,
        'bad-key',
        () => topic.schedule({ ...good, key }),
        KEY,
        ['shop', key, 'null', null],
      ],
      [`cancel ${JSON.stringify(key)}`, 'bad-key', () => topic.cancel(key), 'cancel($1, $2)', ['shop', key]],
      [
        `reschedule ${JSON.stringify(key)}`,
        'bad-key',
        () => topic.reschedule(key, { delay: 1 }),
        'reschedule($1, $2, now())',
        ['shop', key],
      ],
    ]),
    ['cancel NULL', 'bad-key', () => topic.cancel(wrong(null)), 'cancel($1, NULL)', ['shop']],
    [
      'reschedule NULL',
      'bad-key',
      () => topic.reschedule(wrong(null), { delay: 1 }),
      'reschedule($1, NULL, now())',
      ['shop'],
    ],
    ...tags.map((some): Row => [
      `tags ${JSON.stringify(some)}`,
      'bad-tags',
      () => topic.schedule({ ...good, tags: wrong(some) }),
      KEY,
      ['shop', 'k', 'null', some],
    ]),
    ...payloads.map(([json, code]): Row => [
      `payload ${json.slice(0, 20)}`,
      code,
      () => topic.schedule({ ...good, payload: JSON.parse(json) }),
      KEY,
      ['shop', 'k', json, null],
    ]),
    [
      'no payload',
      'bad-payload',
      () => topic.schedule({ key: 'k', delay: 1, payload: undefined }),
      'schedule($1, $2, now())',
      ['shop', 'k'],
    ],
    ...priorities.map((priority): Row => [
      `priority '${priority}'`,
      'bad-option',
      () => topic.schedule({ ...good, priority: wrong(priority) }),
      `schedule($1, 'k', now(), 'null', priority => $2)`,
      ['shop', priority],
    ]),
    [
      'on_conflict',
      'bad-option',
      () => topic.schedule({ ...good, onConflict: wrong('merge') }),
      `schedule($1, 'k', now(), 'null', on_conflict => 'merge')`,
      ['shop'],
    ],
    [
      'no time',
      'bad-time',
      () => topic.schedule(wrong({ key: 'k', payload: null })),
      `schedule($1, 'k', payload => 'null')`,
      ['shop'],
    ],
    [
      'two times',
      'bad-time',
      () => topic.schedule(wrong({ ...good, at: 1e12 })),
      `schedule($1, 'k', now(), 'null', delay => '1s')`,
      ['shop'],
    ],
    ['no new time', 'bad-time', () => topic.reschedule('k', wrong({})), `reschedule($1, 'k')`, ['shop']],
    ...[new Date(-1), new Date(LAST_INSTANT_MS + 1)].map((at): Row => [
      `at ${at.toISOString()}`,
      'bad-time',
      () => topic.schedule(wrong({ key: 'k', payload: null, at })),
      `schedule($1, 'k', $2, 'null')`,
      ['shop', at],
    ]),
    ...['infinity', '-infinity', '200000-01-01'].map((at): Row => [
      `at ${at}`,
      'bad-time',
      () => topic.reschedule('k', { at: new Date(Number.NaN) }),
      `reschedule($1, 'k', $2)`,
      ['shop', at],
    ]),
    ...['-1 microsecond', '36500 days 1 microsecond', '100 years', '200000 years', '-3 months'].map(
      (delay): Row => [
        `delay ${delay}`,
        'bad-duration',
        () => topic.schedule({ ...good, delay: delay.startsWith('-') ? -1 : '36500d1ms' }),
        `schedule($1, 'k', payload => 'null', delay => $2)`,
        ['shop', delay],
      ],
    ),
  ]

  test.each(rows)('%s', async (_, code, library, call, values = []) => {
    expect(await libraryCode(library)).toBe(code)
    const error = await sqlError(call, values)
    expect([error.code, error.message.split(': ')[0]]).toEqual([SQL_STATES[code], code])
    expect(error.message).toMatch(/^[\x20-\x7e\u00a0-\uffff]{10,300}$/)
    expect(error.hint).toMatch(/^[A-Z0-9].*\.$/)
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  test('and what is at the edge of that is taken by both', async () => {
    const edges: [key: string, payload: string, tags: string[]][] = [
      ['k'.repeat(256), nested(100), ['t'.repeat(64), 'é'.repeat(32), 'c', 'd']],
      ['é'.repeat(128), mixed(100), ['a', 'a', 'b', 'b', 'c', 'd']],
      ['...', JSON.stringify('x'.repeat(65_534)), []],
      ['"\'\\ %$1', '{"a":"__proto__","b":["__proto__"]}', ["it's", '"{a,b}"']],
      ['a:b:c', JSON.stringify(Array.from({ length: 32_767 }, () => 1)), []],
      ['\u00a0', JSON.stringify({ 'a "b": c, d': ['\\"', ' : , ', '\u001e'.repeat(10_000)] }), []],
    ]
    for (const [key, json, tags] of edges) {
      await topic.schedule({
        key: `l${key}`.slice(-key.length),
        delay: '1h',
        payload: JSON.parse(json),
        tags,
      })
      const ofLibrary = await topic.get(`l${key}`.slice(-key.length))
      expect(await answer('schedule($1, $2, now(), $3, $4)', ['shop', key, json, tags])).toMatchObject({
        key,
      })
      expect(await topic.get(key)).toMatchObject({ payload: ofLibrary?.payload, tags: ofLibrary?.tags })
    }
    const { rows } = await pool.query(
      `SELECT count(*)::integer AS n FROM tocsin.live WHERE body ~ '[\\u0001-\\u001f]'`,
    )
    expect(rows).toEqual([{ n: 0 }])
  })

  test('what is no JSON is refused by PostgreSQL itself', async () => {
    expect(await sqlError(`schedule('shop', 'k', now(), '{')`)).toMatchObject({ code: '22P02' })
    expect(await sqlError(`schedule('shop', 'k', now(), '"\\u0000"')`)).toMatchObject({ code: '22P05' })
  })

  test('each code has a state of its own, which docs/errors.md tells', () => {
    const states = Object.values(SQL_STATES)
    expect(new Set(states).size).toBe(states.length)
    for (const state of states) expect(state).toMatch(/^TC\d{3}$/)
    const told = [...read('docs/errors.md').matchAll(/^\| `(TC\d{3})` \| `([a-z-]+)` \|/gm)]
    expect(Object.fromEntries(told.map(([, state, code]) => [code, state]))).toEqual(SQL_STATES)
    for (const code of Object.keys(SQL_STATES)) expect(ERROR_TABLE).toHaveProperty(code)
  })
})

describe('delivered', () => {
  async function deliveredFrom(opened: Tocsin): Promise<void> {
    const orders = opened.topic<unknown>('order.unpaid')
    const rung = new Map<string, unknown>()
    orders.consume(async ({ key, payload, tags, priority, latenessMs }) => {
      rung.set(key, { payload, tags, priority, isEarly: latenessMs < 0 })
    })
    // A consumer is enough to make the topic known.
    const say = (call: string) => sql(url, `SELECT * FROM tocsin.${call}`)
    const known = () =>
      say(`cancel('order.unpaid', 'x')`).then(
        () => true,
        () => false,
      )
    await expect.poll(known, { timeout: 10_000 }).toBe(true)
    await say(`schedule('order.unpaid', 'never', delay => '10 s', payload => '0')`)
    await say(`schedule('order.unpaid', 'moved', delay => '1 hour', payload => '1')`)
    await say(
      `schedule('order.unpaid', 'soon', now() + interval '1 second', '{"orderId":"42"}', tags => '{shop:9}', priority => 'high')`,
    )
    await say(`schedule('order.unpaid', 'at once', delay => '0', payload => '"now"')`)
    expect(await say(`cancel('order.unpaid', 'never')`)).toEqual([{ key: 'never', outcome: 'cancelled' }])
    await say(`reschedule('order.unpaid', 'moved', delay => '800 ms')`)
    await expect.poll(() => rung.size, { timeout: 15_000 }).toBe(3)
    expect(Object.fromEntries(rung)).toEqual({
      'at once': { payload: 'now', tags: [], priority: 'normal', isEarly: false },
      moved: { payload: 1, tags: [], priority: 'normal', isEarly: false },
      soon: { payload: { orderId: '42' }, tags: ['shop:9'], priority: 'high', isEarly: false },
    })
    await expect.poll(async () => (await orders.counts()).claimed).toBe(0)
    const audits = await opened.audit()
    expect(audits.find((one) => one.topic === 'order.unpaid')).toMatchObject({
      balances: true,
      books: { scheduled: 4, done: 3, cancelled: 1 },
    })
  }

  test('by PostgreSQL alone', { timeout: 40_000 }, () => deliveredFrom(toc))

  test('by Redis', { timeout: 40_000 }, async () => {
    await using redis = await startRedis()
    await using center = await Tocsin.open({ timetable: redis.url, ledger: url, logger: false })
    await deliveredFrom(center)
  })

  test('a rollback leaves nothing, a commit everything, with the data of the caller', async () => {
    const client = await pool.connect()
    try {
      await client.query('CREATE TABLE paid (id text)')
      await topic.schedule({ key: 'b', delay: '1h', payload: 0 })
      for (const end of ['ROLLBACK', 'COMMIT']) {
        await client.query('BEGIN')
        await client.query(`INSERT INTO paid VALUES ('a')`)
        await client.query(`SELECT tocsin.schedule('shop', 'a', now() + interval '1 hour', '1')`)
        await client.query(`SELECT tocsin.cancel('shop', 'b')`)
        await client.query(end)
        const isCommitted = end === 'COMMIT'
        expect((await client.query('SELECT FROM paid')).rows.length).toBe(isCommitted ? 1 : 0)
        expect((await topic.get('a'))?.state ?? null).toBe(isCommitted ? 'pending' : null)
        expect((await topic.get('b'))?.state).toBe(isCommitted ? 'cancelled' : 'pending')
      }
      expect((await client.query('SELECT key FROM tocsin.news ORDER BY key')).rows).toEqual([
        { key: 'a' },
        { key: 'b' },
      ])
    } finally {
      client.release()
    }
  })

  test('two who schedule one key at once: one waits for the other, and its answer is true', async () => {
    const [one, two] = [await pool.connect(), await pool.connect()]
    try {
      await one.query('BEGIN')
      await one.query(`SELECT tocsin.schedule('shop', 'k', '2030-01-01T00:00:00Z', '1')`)
      const waiting = two.query(
        `SELECT outcome, due_at, in_flight FROM tocsin.schedule('shop', 'k', '2031-01-01T00:00:00Z', '2', on_conflict => 'keep')`,
      )
      await expect
        .poll(async () => (await pool.query('SELECT FROM pg_locks WHERE NOT granted')).rows.length)
        .toBe(1)
      await one.query('COMMIT')
      expect((await waiting).rows).toEqual([
        { outcome: 'kept', due_at: new Date('2030-01-01T00:00:00Z'), in_flight: false },
      ])
    } finally {
      one.release()
      two.release()
    }
  })
})

describe('over several databases', () => {
  test('a key that belongs to another one is refused there, and taken at home', async () => {
    const urls = [await server.createDatabase(), await server.createDatabase()]
    await using both = await Tocsin.open({ ledger: urls, logger: false })
    const spread = both.topic<string>('spread')
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    // Both databases know the topic.
    await spread.scheduleMany(keys.map((key) => ({ key, delay: '1h', payload: 'old' })))
    for (const key of keys) {
      const answers = await Promise.all(
        urls.map((one) =>
          sql<{ outcome: string }>(
            one,
            `SELECT outcome FROM tocsin.schedule('spread', $1, delay => '1h', payload => '"new"')`,
            [key],
          ).then(
            ([row]) => row?.outcome,
            ({ code, message }: SqlError) => `${code} ${message.split(':')[0]}`,
          ),
        ),
      )
      expect(new Set(answers)).toEqual(new Set(['TC010 bad-tx', 'replaced']))
      expect(answers[Math.floor((cellOf(key, 'key') * 2) / 64)]).toBe('replaced')
      expect(await spread.get(key)).toMatchObject({ payload: 'new' })
    }
  })
})

describe('in the database', () => {
  test('tables of format 1 get what is missing, and keep their tasks', async () => {
    const old = await server.createDatabase()
    await sql(
      old,
      'CREATE SCHEMA tocsin; CREATE TABLE tocsin.meta (name text PRIMARY KEY, value text NOT NULL)',
    )
    await sql(old, (MIGRATIONS[0] as (typeof MIGRATIONS)[0]).sql(1))
    await sql(
      old,
      `INSERT INTO tocsin.meta VALUES ('format', '1'), ('id', 'abc'), ('partitions', '1'), ('shard', '1 of 1');
      INSERT INTO tocsin.topic (name) VALUES ('old');
      INSERT INTO tocsin.live (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, body)
        VALUES (1, ${cellOf('k', 'key')}, 'k', 1, 1900000000000, 1900000000000, 1, 1, 1, '7')`,
    )
    await using opened = await Tocsin.open({ ledger: old, logger: false })
    const facts = await sql<{ name: string; value: string }>(old, 'SELECT name, value FROM tocsin.meta')
    expect(Object.fromEntries(facts.map(({ name, value }) => [name, value]))).toEqual({
      format: String(MIGRATIONS.length),
      id: 'abc',
      partitions: '1',
      shard: '1 of 1',
      functions: String(SQL_FUNCTIONS_VERSION),
    })
    expect(await opened.topic('old').get('k')).toMatchObject({ payload: 7, state: 'pending' })
    // It is there, but nobody has said yet how its keys are placed.
    const call = `SELECT outcome FROM tocsin.reschedule('old', 'k', delay => '1 hour')`
    await expect(sql(old, call)).rejects.toMatchObject({ code: SQL_STATES['unknown-topic'] })
    await opened.topic('old').schedule({ key: 'other', delay: '1h', payload: 0 })
    expect(await sql(old, call)).toEqual([{ outcome: 'rescheduled' }])
  })

  test('functions of an older version are replaced, others are left alone', async () => {
    const broken = `CREATE OR REPLACE FUNCTION tocsin.cancel(topic text, INOUT key text, OUT outcome text)
      LANGUAGE sql AS $$ SELECT key, 'other' $$`
    const cancel = `SELECT outcome FROM tocsin.cancel('shop', 'k')`
    const versions = [
      [SQL_FUNCTIONS_VERSION - 1, 'not-found'],
      [SQL_FUNCTIONS_VERSION, 'other'],
      [SQL_FUNCTIONS_VERSION + 1, 'other'],
    ]
    for (const [version, outcome] of versions) {
      await sql(url, broken)
      await sql(url, `UPDATE tocsin.meta SET value = '${version}' WHERE name = 'functions'`)
      await (await Tocsin.open({ ledger: url, logger: false })).close()
      expect(await sql(url, cancel)).toEqual([{ outcome }])
    }
  })

  test('somebody without the right to replace them opens all the same', async () => {
    await sql(
      url,
      `CREATE ROLE opener LOGIN; GRANT USAGE ON SCHEMA tocsin TO opener;
      GRANT ALL ON ALL TABLES IN SCHEMA tocsin TO opener; GRANT ALL ON ALL SEQUENCES IN SCHEMA tocsin TO opener;
      UPDATE tocsin.meta SET value = '0' WHERE name = 'functions'`,
    )
    const theirs = new URL(url)
    theirs.username = 'opener'
    await using opened = await Tocsin.open({ ledger: theirs.href, logger: false })
    expect(await opened.topic('shop').cancel('k')).toMatchObject({ outcome: 'not-found' })
    expect(await sql(url, `SELECT value FROM tocsin.meta WHERE name = 'functions'`)).toEqual([{ value: '0' }])
  })

  test('they are plain ASCII: a database may have another encoding', () => {
    expect(SQL_FUNCTIONS).toMatch(/^[\n\x20-\x7e]+$/)
  })

  test('a role needs what docs/transactions.md grants, and no more than that', async () => {
    const grants = [...read('docs/transactions.md').matchAll(/^```sql\n([\s\S]*?)^```$/gm)]
      .map(([, block]) => block as string)
      .find((block) => block.includes('GRANT')) as string
    await sql(url, 'CREATE ROLE shop LOGIN')
    const theirs = new URL(url)
    theirs.username = 'shop'
    const calls = [
      `schedule('shop', 'k', now() + interval '1 hour', '1')`,
      `schedule('shop', 'k', now() + interval '1 hour', '1', on_conflict => 'keep')`,
      `reschedule('shop', 'k', delay => '2 hours')`,
      `cancel('shop', 'k')`,
    ]
    const all = async () => {
      // As if nothing had been placed yet.
      await sql(url, 'UPDATE tocsin.topic SET is_placed = false')
      for (const call of calls) await sql(theirs.href, `SELECT tocsin.${call}`)
    }
    const single = grants
      .split(';')
      .map((one) => one.trim())
      .filter((one) => one !== '')
    for (const left of single) {
      for (const one of single) await sql(url, one)
      await all()
      await sql(url, left.replace('GRANT', 'REVOKE').replace(' TO ', ' FROM '))
      await expect(all(), left).rejects.toMatchObject({ code: '42501' })
    }
  })
})
