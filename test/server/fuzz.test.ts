/**
 * Requests made of the served document, and then spoilt: whatever comes of it, every one is answered, never with a 500, and
 * every answer is one that the document knows. A failure prints its seed: TOCSIN_SEED=n repeats it.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import type { ServeOptions } from 'tocsin/server'
import { expect, it } from 'vitest'
import { generated } from '../generated.ts'
import { startRedis } from '../real-servers/redis-server.ts'
import { type Answer, TestServer } from './harness.ts'

const ADMIN = 'admin-token-of-the-fuzzer-0123456789'
/** As few as make every expected status certain to occur: 201 is the rarest, with some ten. */
const REQUESTS_IN_MEMORY = generated(2_000, 60_000)
const REQUESTS_ON_A_STORE = generated(2_000, 20_000)
const SEED = Number(process.env['TOCSIN_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const BATCH = 1_000
const AT_A_TIME = 24
/** Deadline of an answer; long polls wait for some milliseconds here. */
const UNANSWERED_MS = 30_000

type Schema = {
  $ref?: string
  type?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: unknown
  items?: Schema
  maxItems?: number
  minimum?: number
  maximum?: number
  format?: string
  description?: string
}
interface Operation {
  parameters?: { in: string; name: string; required?: boolean; schema: Schema }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}
interface Shot {
  readonly method: string
  readonly path: string
  readonly body: string | null
  readonly headers: Record<string, string>
}

const TOPICS = ['orders', 'refunds', 'a', 'constructor', 'x.y-z_0']
const DURATIONS = [
  '0s',
  '1ms',
  '20ms',
  '2s',
  '1h',
  '1h30m',
  '36500d',
  '30',
  '-5m',
  '',
  '5 min',
  '9999999999999999999w',
  '1s1s',
  'ms',
]
const INSTANTS = [
  '2100-01-01T00:00:00Z',
  '1970-01-01T00:00:00Z',
  '2000-02-30T00:00:00Z',
  '2255-06-05T23:47:34.739Z',
  '9999-12-31T23:59:60Z',
  '2100-01-01',
  '1700000000',
]
const ODD = [
  '',
  ' ',
  '.',
  '..',
  '/',
  '%',
  '\u0000',
  '\ud800',
  '\uFEFF',
  '😀',
  '__proto__',
  'constructor',
  '{x}',
  'a:b',
  '*',
  '"',
  '\\',
  '\r\n',
  'x'.repeat(300),
  'null',
  '0',
  '-1',
  'NaN',
]
const NUMBERS = [
  0,
  -0,
  1,
  -1,
  2,
  3,
  7,
  64,
  100,
  1_000,
  10_000,
  1.5,
  -1.5,
  2 ** 31,
  2 ** 53,
  2 ** 53 + 2,
  1e21,
  1e308,
  -1e308,
  5e-324,
]

/** Cursors of the right shape that no listing made. */
const CURSORS = [
  [0, 0, 'a'],
  [-1, -1, ''],
  [1.5, 0.5, 'a'],
  [1e300, 1e300, 'a'],
  [2 ** 53, 2 ** 40, 'x'.repeat(2_000)],
  [1, 0, '\u0000'],
  [1, 0, '\ud800'],
].map((position) => Buffer.from(JSON.stringify(position)).toString('base64url'))

const odd = fc.constantFrom(...ODD)
const key = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom('a', 'b', 'user-9:coupon-77', 'ä/?#') },
  odd,
  fc.string({ unit: 'binary', maxLength: 20 }),
)
const anything: fc.Arbitrary<unknown> = fc.oneof(
  odd,
  fc.constantFrom(...NUMBERS),
  fc.constantFrom(null, true, false),
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom(...DURATIONS, ...INSTANTS),
)

/** What fits the schema, nearly always. */
function fitting(schema: Schema, root: object): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return fitting(resolve(schema.$ref, root), root)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((one) => fitting(one, root)))
  const { minimum = -5, maximum = 70 } = schema
  switch (schema.type) {
    case 'object': {
      const entries = Object.entries(schema.properties ?? {}).map(
        ([name, one]) => [name, fitting(one, root)] as const,
      )
      return fc.record(Object.fromEntries(entries), { requiredKeys: schema.required ?? [] })
    }
    case 'array':
      return fc.array(fitting(schema.items ?? {}, root), { maxLength: Math.min(6, schema.maxItems ?? 6) })
    case 'integer':
      return fc.oneof(
        { weight: 4, arbitrary: fc.integer({ min: minimum, max: Math.min(maximum, minimum + 200) }) },
        fc.constantFrom(1, 2, 4, 8, 16),
      )
    case 'number':
      return fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(...NUMBERS))
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'string':
      if (schema.format === 'date-time')
        return fc.oneof({ weight: 5, arbitrary: fc.constant(INSTANTS[0]) }, fc.constantFrom(...INSTANTS))
      if (schema.description?.includes('unit') === true)
        return fc.oneof(
          { weight: 5, arbitrary: fc.constantFrom('0s', '1ms', '20ms', '1h') },
          fc.constantFrom(...DURATIONS),
        )
      return key
    default:
      return fc.jsonValue({ maxDepth: 3 })
  }
}

function resolve(ref: string, root: object): Schema {
  return ref
    .slice(2)
    .split('/')
    .reduce((at, name) => (at as Record<string, object>)[name] as object, root) as Schema
}

/** One place of it is another thing, or gone, or has company. */
function spoilt(value: unknown): fc.Arbitrary<unknown> {
  return fc
    .tuple(fc.nat(), fc.constantFrom('other', 'gone', 'more'), anything, odd)
    .map(([at, how, other, name]) => {
      const copy = structuredClone(value)
      const places: [Record<string, unknown>, string][] = []
      const look = (one: unknown) => {
        if (one === null || typeof one !== 'object') return
        for (const field of Object.keys(one)) {
          places.push([one as Record<string, unknown>, field])
          look((one as Record<string, unknown>)[field])
        }
      }
      look(copy)
      const place = places[at % Math.max(1, places.length)]
      if (place === undefined) return how === 'other' ? other : { [name]: other }
      const [holder, field] = place
      if (how === 'gone') delete holder[field]
      else
        Object.defineProperty(holder, how === 'more' ? name : field, {
          value: other,
          enumerable: true,
          configurable: true,
          writable: true,
        })
      return copy
    })
}

const textOf = (value: unknown) => JSON.stringify(value) ?? ''
const inUrl = (text: unknown) => encodeURIComponent(String(text).toWellFormed())

function shots(root: { paths: Record<string, Record<string, unknown>> }): fc.Arbitrary<Shot> {
  const operations = Object.entries(root.paths).flatMap(([template, methods]) =>
    Object.entries(methods).map(([method, operation]) =>
      shot(template, method.toUpperCase(), operation as Operation, root),
    ),
  )
  return fc.oneof(...operations)
}

function shot(
  template: string,
  method: string,
  { parameters = [], requestBody }: Operation,
  root: object,
): fc.Arbitrary<Shot> {
  const schema = requestBody?.content['application/json']?.schema
  const right = schema === undefined ? fc.constant(undefined) : fitting(schema, root)
  const text = fc.oneof(
    { weight: 4, arbitrary: right.map(textOf) },
    { weight: 4, arbitrary: right.chain(spoilt).map(textOf) },
    { weight: 1, arbitrary: right.map((value) => textOf(value).slice(0, -1)) },
    { weight: 1, arbitrary: anything.map(textOf) },
  )
  const wanted = parameters.filter((one) => one.in === 'query')
  const query = fc.record(
    Object.fromEntries(
      wanted.map(({ name, schema: one }) => [
        name,
        fc.oneof(
          { weight: 4, arbitrary: name === 'cursor' ? fc.constantFrom(...CURSORS) : fitting(one, root) },
          anything.map((value) => (typeof value === 'object' ? 1 : value)),
        ),
      ]),
    ),
    {
      requiredKeys: wanted.filter(({ required }) => required === true).map(({ name }) => name),
    },
  ) as fc.Arbitrary<Record<string, unknown>>
  const rarely = <T>(usual: T, other: fc.Arbitrary<T>) =>
    fc.oneof({ weight: 19, arbitrary: fc.constant(usual) }, other)
  return fc
    .record({
      method: rarely(method, fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')),
      topic: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...TOPICS) }, { weight: 2, arbitrary: odd }),
      key,
      query,
      extra: rarely<string | null>(null, odd),
      text,
      type: rarely(
        'application/json',
        fc.constantFrom('text/plain', 'application/x-ndjson', 'application/merge-patch+json', ''),
      ),
      ifMatch: rarely<string | null>(null, fc.constantFrom('"0"', '"1"', '*', 'x', '')),
    })
    .map((drawn) => {
      const path = template
        .replace('{topic}', inUrl(drawn.topic))
        .replace('{key}', inUrl(drawn.key))
        .replace('{id}', inUrl(drawn.key))
      const pairs = Object.entries(drawn.query).map(([name, value]) => `${inUrl(name)}=${inUrl(value)}`)
      if (drawn.extra !== null) pairs.push(`${inUrl(drawn.extra)}=1`)
      // GET has none in `fetch`; what others make of one is in bad-input.test.ts.
      const body =
        drawn.method === 'GET' || (schema === undefined && drawn.method === method) ? null : drawn.text
      return {
        method: drawn.method,
        path: `${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`,
        body,
        headers: {
          ...(body === null ? {} : { 'content-type': drawn.type }),
          ...(drawn.ifMatch === null ? {} : { 'if-match': drawn.ifMatch }),
        },
      }
    })
}

async function fire(server: TestServer, { method, path, body, headers }: Shot): Promise<number> {
  const signal = AbortSignal.timeout(UNANSWERED_MS)
  if (method === 'GET' && path.startsWith('/v1/events')) {
    const gone = new AbortController()
    const answer = await fetch(`${server.url}${path}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
      signal: AbortSignal.any([signal, gone.signal]),
    })
    gone.abort()
    if (answer.status === 200) return 200
  }
  const { status }: Answer = await server.request(method, path, {
    headers,
    signal,
    ...(body === null ? {} : { raw: body }),
  })
  return status
}

async function fuzz(options: ServeOptions, count: number): Promise<void> {
  await using server = await TestServer.start({ adminToken: ADMIN, logLevel: 'error', ...options })
  server.token = ADMIN
  for (const name of TOPICS.slice(0, 3)) await server.declare(name)
  const arbitrary = shots(server.document)
  const seen = new Map<number, number>()
  for (let from = 0; from < count; from += BATCH) {
    const seed = SEED + from
    const batch = fc.sample(arbitrary, { seed, numRuns: Math.min(BATCH, count - from) })
    let next = 0
    const shoot = async () => {
      for (let one = batch[next++]; one !== undefined; one = batch[next++]) {
        const status = await fire(server, one).catch((error: unknown) => {
          throw new Error(`TOCSIN_SEED=${SEED}: ${JSON.stringify(one)}`, { cause: error })
        })
        if (status >= 500 && status !== 503)
          throw new Error(`TOCSIN_SEED=${SEED}: ${status} to ${JSON.stringify(one)}`)
        seen.set(status, (seen.get(status) ?? 0) + 1)
      }
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, shoot))
  }
  const told = [...seen].toSorted(([a], [b]) => a - b)
  console.log(
    `${count} requests, TOCSIN_SEED=${SEED}: ${told.map(([status, times]) => `${times} × ${status}`).join(', ')}`,
  )
  expect(server.log).toEqual([])
  expect((await server.get('/healthz')).status).toBe(200)
  // It is no use if all of them stop at the door.
  const good = (seen.get(200) ?? 0) + (seen.get(201) ?? 0)
  expect(good).toBeGreaterThan(count / 10)
  expect(good).toBeLessThan(count * 0.9)
  for (const status of [200, 201, 400, 404, 415]) expect(seen.has(status), String(status)).toBe(true)
}

const within = (count: number) => 120_000 + count * 20

it('in memory', () => fuzz({}, REQUESTS_IN_MEMORY), within(REQUESTS_IN_MEMORY))

it(
  'on SQLite',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tocsin-fuzz-'))
    try {
      await fuzz({ ledger: `sqlite:${join(folder, 'toc.db')}` }, REQUESTS_ON_A_STORE)
    } finally {
      await rm(folder, { recursive: true })
    }
  },
  within(REQUESTS_ON_A_STORE),
)

it(
  'on Redis',
  async () => {
    await using redis = await startRedis()
    await fuzz({ timetable: redis.url }, REQUESTS_ON_A_STORE)
  },
  within(REQUESTS_ON_A_STORE),
)
