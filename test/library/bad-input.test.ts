import { describe, expect, it } from 'vitest'
import { defineTopic, type ErrorCode, Tocsin, type Topic } from 'tocsin'
import { sqlite } from 'tocsin/sqlite'
import { type TestTocsin, testTocsin } from 'tocsin/testing'
import { refusal } from './helpers.ts'

type Row = [name: string, call: Call, code: ErrorCode, says: string]
type Call = (topic: Topic<unknown, unknown>, toc: TestTocsin) => unknown

/** Each call is refused with this code, in words that help, and leaves nothing behind. */
function refuses(title: string, rows: readonly Row[]): void {
  describe(title, () => {
    it.each(rows)('%s', async (_, call, code, says) => {
      await using toc = await testTocsin()
      const topic = toc.topic('order.unpaid')
      const error = await refusal(() => call(topic, toc))
      expect(error.code).toBe(code)
      expect(error.message).toContain(says)
      expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
      expect(await topic.config()).toMatchObject({ version: 0, live: {} })
    })
  })
}

/** What JavaScript lets through and TypeScript does not. */
const wrong = (value: unknown): never => value as never

/** A good task, with one thing changed. */
const scheduling =
  (change: object): Call =>
  (topic) =>
    topic.schedule(wrong({ key: 'k', delay: '1m', payload: null, ...change }))

const at = (value: unknown): Call => scheduling({ delay: undefined, at: value })
const delay = (value: unknown): Call => scheduling({ delay: value })
const payload = (value: unknown): Call => scheduling({ payload: value })

const HOW_TO_NAME = "like 'order.unpaid'"

refuses('topic names', [
  ...['', 'Order', '9x', '-x', 'a b', 'ordér', 'a/b', 'a:b', '{a}', 'a\n', 'a'.repeat(65)].flatMap(
    (name): Row[] => [
      [`topic(${JSON.stringify(name)})`, (_, toc) => toc.topic(name), 'bad-topic', HOW_TO_NAME],
      [`defineTopic(${JSON.stringify(name)})`, () => defineTopic(name), 'bad-topic', HOW_TO_NAME],
    ],
  ),
  ['topic()', (_, toc) => toc.topic(wrong(undefined)), 'bad-topic', 'defineTopic'],
  ['topic(null)', (_, toc) => toc.topic(wrong(null)), 'bad-topic', 'defineTopic'],
  ['topic(7)', (_, toc) => toc.topic(wrong(7)), 'bad-topic', 'defineTopic'],
  ['topic({})', (_, toc) => toc.topic(wrong({})), 'bad-topic', 'defineTopic'],
  [
    'a home-made definition with a bad name',
    (_, toc) => toc.topic(wrong({ name: 'Order', config: {}, schema: null })),
    'bad-topic',
    HOW_TO_NAME,
  ],
  ['defineTopic(7)', () => defineTopic(wrong(7)), 'bad-topic', HOW_TO_NAME],
])

refuses('settings', [
  [
    'an unknown one',
    (_, toc) => toc.topic('other', wrong({ slot: 16 })),
    'bad-config',
    "did you mean 'slots'?",
  ],
  ['null', (_, toc) => toc.topic('other', wrong(null)), 'bad-config', 'expected an object'],
  ['slots: 12', (_, toc) => toc.topic('other', { slots: 12 }), 'bad-config', '1, 2, 4, 8, 16, 32 or 64'],
  ['slots: 128', (_, toc) => toc.topic('other', { slots: 128 }), 'bad-config', '1, 2, 4, 8, 16, 32 or 64'],
  ['batchSize: 0', (_, toc) => toc.topic('other', { batchSize: 0 }), 'bad-config', 'from 1 to'],
  ["lease: '30'", (_, toc) => toc.topic('other', { lease: '30' }), 'bad-duration', "'30s'"],
  [
    'min over max',
    (_, toc) => toc.topic('other', { retry: { min: '10m', max: '1m' } }),
    'bad-config',
    'longer than max',
  ],
  [
    'a schema that is none',
    (_, toc) => toc.topic('other', wrong({ schema: {} })),
    'bad-config',
    'Standard Schema',
  ],
  ['configure(null)', (topic) => topic.configure(wrong(null)), 'bad-config', 'expected an object'],
  ['configure slots: 3', (topic) => topic.configure({ slots: 3 }), 'bad-config', '1, 2, 4, 8, 16, 32 or 64'],
  [
    'configure rate without per',
    (topic) => topic.configure(wrong({ rate: { limit: 5 } })),
    'bad-config',
    "'per'",
  ],
  [
    'configure slotBy',
    (topic) => topic.configure(wrong({ slotBy: 'prefix' })),
    'bad-config',
    'fixed when a topic is created',
  ],
  [
    'configure, one good and one bad',
    (topic) => topic.configure({ batchSize: 7, slots: 3 }),
    'bad-config',
    'slots',
  ],
])

const BAD_KEYS: [name: string, key: unknown, says: string][] = [
  ['empty', '', 'empty'],
  ['257 bytes', 'k'.repeat(257), 'at most 256'],
  ['258 bytes in 129 characters', 'é'.repeat(129), 'at most 256'],
  ['a line break', 'a\nb', 'control character'],
  ['a NUL', 'a\0b', 'control character'],
  ['a C1 control character', 'a\u0085b', 'control character'],
  ['half a character', 'a\ud83d', 'surrogate'],
  ['.', '.', 'path'],
  ['..', '..', 'path'],
  ['a number', 7, 'not text'],
  ['null', null, 'not text'],
  ['an object', { id: 7 }, 'not text'],
  ['a function', () => 'k', 'not text'],
]

refuses(
  'keys',
  BAD_KEYS.flatMap(([name, key, says]): Row[] => [
    [`schedule: ${name}`, scheduling({ key }), 'bad-key', says],
    [`cancel: ${name}`, (topic) => topic.cancel(wrong(key)), 'bad-key', says],
    [`cancelMany: ${name}`, (topic) => topic.cancelMany(wrong(['good', key])), 'bad-key', says],
    [`reschedule: ${name}`, (topic) => topic.reschedule(wrong(key), { delay: 1 }), 'bad-key', says],
    [`get: ${name}`, (topic) => topic.get(wrong(key)), 'bad-key', says],
    [`replay: ${name}`, (topic) => topic.dead.replay(wrong({ keys: [key] })), 'bad-key', says],
    [`purge: ${name}`, (topic) => topic.dead.purge(wrong({ keys: [key] })), 'bad-key', says],
  ]),
)

const BAD_TAGS: [name: string, tag: unknown, says: string][] = [
  ['empty', '', 'empty'],
  ['65 bytes', 't'.repeat(65), 'at most 64'],
  ['a tab', 'a\tb', 'control character'],
  ['a number', 7, 'not text'],
  ['null', null, 'not text'],
]

refuses('tags', [
  ...BAD_TAGS.flatMap(([name, tag, says]): Row[] => [
    [`schedule: ${name}`, scheduling({ tags: ['good', tag] }), 'bad-tags', says],
    [`cancelBy: ${name}`, (topic) => topic.cancelBy(wrong({ tag })), 'bad-tags', says],
    [`list: ${name}`, (topic) => topic.list(wrong({ tag })), 'bad-tags', says],
    [`purge: ${name}`, (topic) => topic.dead.purge(wrong({ tag })), 'bad-tags', says],
  ]),
  ['text instead of an array', scheduling({ tags: 'campaign:77' }), 'bad-tags', 'array'],
  ['null instead of an array', scheduling({ tags: null }), 'bad-tags', 'array'],
  ['five of them', scheduling({ tags: ['a', 'b', 'c', 'd', 'e'] }), 'bad-tags', 'at most 4'],
])

const BAD_PREFIXES: [name: string, prefix: unknown, says: string][] = [
  ['empty', '', 'empty'],
  ['with a colon', 'user-9:', "before its first ':'"],
  ['a part behind the colon', 'user-9:coupon', "before its first ':'"],
  ['257 bytes', 'p'.repeat(257), 'at most 256'],
  ['a number', 7, 'not text'],
]

refuses(
  'prefixes',
  BAD_PREFIXES.flatMap(([name, prefix, says]): Row[] => [
    [`cancelBy: ${name}`, (topic) => topic.cancelBy(wrong({ prefix })), 'bad-key', says],
    [
      `rescheduleBy: ${name}`,
      (topic) => topic.rescheduleBy(wrong({ prefix }), { delay: 1 }),
      'bad-key',
      says,
    ],
    [`list: ${name}`, (topic) => topic.list(wrong({ prefix })), 'bad-key', says],
    [`replay: ${name}`, (topic) => topic.dead.replay(wrong({ prefix })), 'bad-key', says],
  ]),
)

function cyclic(): object {
  const loop: Record<string, unknown> = {}
  loop['self'] = loop
  return loop
}

function nested(depth: number): unknown {
  let value: unknown = 'core'
  for (let i = 0; i < depth; i++) value = [value]
  return value
}

refuses('payloads', [
  ['undefined', payload(undefined), 'bad-payload', "use null for 'nothing'"],
  ['a function', payload(() => 1), 'bad-payload', "use null for 'nothing'"],
  ['a symbol', payload(Symbol('s')), 'bad-payload', "use null for 'nothing'"],
  ['a BigInt', payload({ n: 1n }), 'bad-payload', 'BigInt'],
  ['cyclic', payload(cyclic()), 'bad-payload', 'circular'],
  ['101 deep', payload(nested(101)), 'bad-payload', '100 levels'],
  ['5,000 deep', payload(nested(5_000)), 'bad-payload', '100 levels'],
  ['100,000 deep', payload(nested(100_000)), 'bad-payload', 'payload'],
  ['an own __proto__', payload(JSON.parse('{"a":[{"__proto__":{"x":1}}]}')), 'bad-payload', '__proto__'],
  ['a toJSON that throws', payload({ toJSON: throws }), 'bad-payload', 'out of order'],
  ['64 KiB and one', payload('x'.repeat(65_535)), 'payload-too-large', 'your own store'],
  ['64 KiB and one in UTF-8', payload('€'.repeat(21_845)), 'payload-too-large', '65536'],
  ['missing', (topic) => topic.schedule(wrong({ delay: '1m' })), 'bad-payload', "use null for 'nothing'"],
])

function throws(): never {
  throw new Error('out of order')
}

refuses('times', [
  ['neither', delay(undefined), 'bad-time', "{ delay: '30m' }"],
  ['both', scheduling({ at: '2026-11-11T00:00:00Z' }), 'bad-time', 'use one of them'],
  ['delay: NaN', delay(Number.NaN), 'bad-duration', 'milliseconds (90000)'],
  ['delay: -1', delay(-1), 'bad-duration', 'milliseconds (90000)'],
  ['delay: Infinity', delay(Number.POSITIVE_INFINITY), 'bad-duration', 'the longest is 36500d'],
  ["delay: ''", delay(''), 'bad-duration', "'1h30m'"],
  ["delay: '30'", delay('30'), 'bad-duration', "'30s', '30ms'"],
  ["delay: '-5m'", delay('-5m'), 'bad-duration', "'1h30m'"],
  ["delay: '5 min'", delay('5 min'), 'bad-duration', "write '5m'"],
  ["delay: '30m1h'", delay('30m1h'), 'bad-duration', "'1h30m'"],
  ["delay: '1.5h'", delay('1.5h'), 'bad-duration', "'1h30m'"],
  ["delay: '36501d'", delay('36501d'), 'bad-duration', 'the longest is 36500d'],
  ['delay: null', delay(null), 'bad-duration', "'1h30m'"],
  ['delay: a Date', delay(new Date(0)), 'bad-duration', "'1h30m'"],
  ['at: NaN', at(Number.NaN), 'bad-time', 'not a valid moment'],
  ['at: -1', at(-1), 'bad-time', 'before 1970'],
  ['at: seconds', at(1_790_000_000), 'bad-time', '1790000000000'],
  ['at: a bad Date', at(new Date(Number.NaN)), 'bad-time', 'not a valid moment'],
  ['at: no offset', at('2026-11-11T00:00:00'), 'bad-time', "add 'Z' or '+08:00'"],
  ['at: a day', at('2026-11-11'), 'bad-time', "like '2026-11-11T00:00:00Z'"],
  ['at: words', at('tomorrow'), 'bad-time', "like '2026-11-11T00:00:00Z'"],
  ['at: 30 February', at('2026-02-30T00:00:00Z'), 'bad-time', 'no such moment'],
  ['at: the year 3000', at('3000-01-01T00:00:00Z'), 'bad-time', '2255'],
  ['at: the year 3000 in ms', at(Date.UTC(3000, 0)), 'bad-time', '2255'],
  ['at: an object', at({}), 'bad-time', 'RFC 3339'],
  ['at: null', at(null), 'bad-time', 'RFC 3339'],
  ['at: Temporal without a number', at({ epochMilliseconds: '5' }), 'bad-time', 'RFC 3339'],
  ['reschedule neither', (topic) => topic.reschedule('k', wrong({})), 'bad-time', "{ delay: '30m' }"],
  ['reschedule null', (topic) => topic.reschedule('k', wrong(null)), 'bad-option', 'expected an object'],
  [
    'reschedule both',
    (topic) => topic.reschedule('k', wrong({ delay: 1, at: 1 })),
    'bad-time',
    'one of them',
  ],
  [
    'reschedule by shift',
    (topic) => topic.reschedule('k', wrong({ shift: '+10m' })),
    'bad-option',
    "unknown option 'shift'",
  ],
  ['shift without sign', (topic) => topic.rescheduleBy({ tag: 't' }, { shift: '10m' }), 'bad-time', "'+10m'"],
  [
    'shift as a number',
    (topic) => topic.rescheduleBy({ tag: 't' }, wrong({ shift: 5 })),
    'bad-time',
    "'+10m'",
  ],
  [
    'shift without unit',
    (topic) => topic.rescheduleBy({ tag: 't' }, { shift: '+10' }),
    'bad-duration',
    "'10s'",
  ],
  [
    'shift and delay',
    (topic) => topic.rescheduleBy({ tag: 't' }, wrong({ shift: '+10m', delay: '5m' })),
    'bad-time',
    'one of',
  ],
  ['rescheduleBy neither', (topic) => topic.rescheduleBy({ tag: 't' }, wrong({})), 'bad-time', 'delay'],
])

refuses('the other fields of a task', [
  ['priority: urgent', scheduling({ priority: 'urgent' }), 'bad-option', 'high, normal, low'],
  ['priority: hihg', scheduling({ priority: 'hihg' }), 'bad-option', "did you mean 'high'?"],
  ['priority: 1', scheduling({ priority: 1 }), 'bad-option', 'high, normal, low'],
  ['priority: null', scheduling({ priority: null }), 'bad-option', 'high, normal, low'],
  ['onConflict: ignore', scheduling({ onConflict: 'ignore' }), 'bad-option', 'replace, keep'],
  ['onConflict: replce', scheduling({ onConflict: 'replce' }), 'bad-option', "did you mean 'replace'?"],
  ["smear: '5 min'", scheduling({ smear: '5 min' }), 'bad-duration', "write '5m'"],
  ['smear: -1', scheduling({ smear: -1 }), 'bad-duration', 'smear'],
  ['smear: null', scheduling({ smear: null }), 'bad-duration', 'smear'],
  ['payLoad', scheduling({ payLoad: 1 }), 'bad-option', "did you mean 'payload'?"],
  ['dealy', scheduling({ dealy: '5m' }), 'bad-option', "did you mean 'delay'?"],
  ['tag', scheduling({ tag: 'x' }), 'bad-option', "did you mean 'tags'?"],
  ['something else', scheduling({ queueName: 'x' }), 'bad-option', 'known: payload, delay, at'],
])

refuses('something else than a task', [
  ...[null, undefined, 7, 'order-42', [], () => {}].flatMap((value): Row[] => [
    [
      `schedule: ${String(value)}`,
      (topic) => topic.schedule(wrong(value)),
      'bad-option',
      'expected an object',
    ],
    [
      `scheduleMany: ${String(value)}`,
      (topic) => topic.scheduleMany(wrong([value])),
      'bad-option',
      'expected an object',
    ],
  ]),
  ...[null, undefined, 7, 'text', { delay: '1m', payload: 1 }, () => {}].map((value): Row => [
    `scheduleMany of no array: ${JSON.stringify(value) ?? typeof value}`,
    (topic) => topic.scheduleMany(wrong(value)),
    'bad-option',
    'an array or something to loop over',
  ]),
  ['an array of holes', (topic) => topic.scheduleMany(new Array(3)), 'bad-option', 'expected an object'],
  [
    'an array with a hole behind a good one',
    (topic) => topic.scheduleMany(Object.assign(new Array(2), { 0: { delay: '1m', payload: null } })),
    'bad-option',
    'expected an object',
  ],
  ['keys: text', (topic) => topic.cancelMany(wrong('order-42')), 'bad-option', 'an array of keys'],
  ['keys: nothing', (topic) => topic.cancelMany(wrong(undefined)), 'bad-option', 'an array of keys'],
  ['keys: holes', (topic) => topic.cancelMany(new Array(3)), 'bad-key', 'not text'],
])

const TASK = { delay: '1m', payload: null } as const

refuses('unknown options', [
  ['schedule', (topic) => topic.schedule(TASK, wrong({ txn: 1 })), 'bad-option', "did you mean 'tx'?"],
  ['schedule null', (topic) => topic.schedule(TASK, wrong(null)), 'bad-option', 'expected an object'],
  [
    'schedule with what is for bulk',
    (topic) => topic.schedule(TASK, wrong({ onProgress: () => {} })),
    'bad-option',
    "unknown option 'onProgress'",
  ],
  ['scheduleMany', (topic) => topic.scheduleMany([TASK], wrong({ atomic: true })), 'bad-option', 'known: tx'],
  ['cancel', (topic) => topic.cancel('k', wrong({ force: true })), 'bad-option', "unknown option 'force'"],
  ['cancelMany', (topic) => topic.cancelMany(['k'], wrong({ force: true })), 'bad-option', 'known: tx'],
  [
    'cancelBy',
    (topic) => topic.cancelBy({ tag: 't' }, wrong({ onProgres: () => {} })),
    'bad-option',
    "did you mean 'onProgress'?",
  ],
  ['reschedule', (topic) => topic.reschedule('k', { delay: 1 }, wrong({ x: 1 })), 'bad-option', "'x'"],
  [
    'rescheduleBy',
    (topic) => topic.rescheduleBy({ tag: 't' }, { delay: 1 }, wrong({ onprogress: 1 })),
    'bad-option',
    "did you mean 'onProgress'?",
  ],
  ['list', (topic) => topic.list(wrong({ status: 'dead' })), 'bad-option', "did you mean 'state'?"],
  ['list null', (topic) => topic.list(wrong(null)), 'bad-option', 'expected an object'],
  ['forecast', (topic) => topic.forecast(wrong({ until: 1 })), 'bad-option', 'known: to, from, step'],
  ['forecast nothing', (topic) => topic.forecast(wrong(undefined)), 'bad-option', 'expected an object'],
  [
    'configure a setting',
    (topic) => topic.configure(wrong({ slot: 4 })),
    'bad-config',
    "did you mean 'slots'?",
  ],
  [
    'configure',
    (topic) => topic.configure({ slots: 4 }, wrong({ ifversion: 1 })),
    'bad-option',
    "did you mean 'ifVersion'?",
  ],
  [
    'consume',
    (topic) => topic.consume(async () => {}, wrong({ concurency: 1 })),
    'bad-option',
    "did you mean 'concurrency'?",
  ],
  ['consume null', (topic) => topic.consume(async () => {}, wrong(null)), 'bad-option', 'expected an object'],
  [
    'consumeBatch',
    (topic) => topic.consumeBatch(async () => {}, wrong({ batchSize: 1 })),
    'bad-option',
    'setting of the topic',
  ],
  [
    'stop',
    (topic) => topic.consume(async () => {}).stop(wrong({ timout: 1 })),
    'bad-option',
    "did you mean 'timeout'?",
  ],
  ['close', (_, toc) => toc.close(wrong({ timout: 1 })), 'bad-option', "did you mean 'timeout'?"],
  ['testTocsin', () => testTocsin(wrong({ nwo: 1 })), 'bad-option', "did you mean 'now'?"],
  ['open', () => Tocsin.open(wrong({ timetabel: 'memory:' })), 'bad-option', "did you mean 'timetable'?"],
  ['open a file', () => Tocsin.open(wrong('sqlite:./t.db')), 'bad-option', 'Tocsin.open({ ledger:'],
  ['open Redis', () => Tocsin.open(wrong('redis://:secret@h')), 'bad-option', 'Tocsin.open({ timetable:'],
  ['new Tocsin', async () => Reflect.construct(Tocsin, []), 'bad-option', 'await Tocsin.open()'],
  ['sqlite()', async () => sqlite(wrong(undefined)), 'bad-option', 'expected an object'],
  ['sqlite({})', async () => sqlite(wrong({})), 'bad-option', "one of 'path' and 'database'"],
  ['open null', () => Tocsin.open(wrong(null)), 'bad-option', 'expected an object'],
])

const tx = { query: async () => ({ rows: [] }) }

refuses('what needs a ledger', [
  ['schedule in a transaction', (topic) => topic.schedule(TASK, { tx }), 'ledger-required', 'ledger'],
  ['scheduleMany in one', (topic) => topic.scheduleMany([TASK], { tx }), 'ledger-required', 'ledger'],
  ['cancel in one', (topic) => topic.cancel('k', { tx }), 'ledger-required', 'ledger'],
  ['cancelMany in one', (topic) => topic.cancelMany(['k'], { tx }), 'ledger-required', 'ledger'],
  ['cancelBy in one', (topic) => topic.cancelBy({ tag: 't' }, { tx }), 'ledger-required', 'ledger'],
  ['reschedule in one', (topic) => topic.reschedule('k', { delay: 1 }, { tx }), 'ledger-required', 'ledger'],
  [
    'rescheduleBy in one',
    (topic) => topic.rescheduleBy({ tag: 't' }, { delay: 1 }, { tx }),
    'ledger-required',
    'ledger',
  ],
  ...(['done', 'cancelled', 'obsolete'] as const).map((state): Row => [
    `list of ${state}`,
    (topic) => topic.list({ state }),
    'ledger-required',
    'ledger',
  ]),
  [
    'a handler in a transaction',
    (topic) => topic.consume(async () => {}, { transaction: true }),
    'ledger-required',
    'ledger',
  ],
  [
    'a batch in a transaction',
    (topic) => topic.consumeBatch(async () => {}, { transaction: true }),
    'ledger-required',
    'ledger',
  ],
])

refuses('opening', [
  ['sentinel', () => Tocsin.open({ timetable: 'redis-sentinel://localhost/m' }), 'unsupported', 'memory:'],
  [
    'no name',
    () => Tocsin.open({ timetable: 'redis+sentinel://localhost' }),
    'bad-option',
    'the name of the',
  ],
  ['a Redis URL without a host', () => Tocsin.open({ timetable: 'redis:' }), 'bad-option', 'redis://'],
  ['a Redis database that is none', () => Tocsin.open({ timetable: 'redis://h/x' }), 'bad-option', 'number'],
  ['a typo', () => Tocsin.open({ timetable: 'memroy:' }), 'unsupported', 'memory:'],
  ['a number', () => Tocsin.open({ timetable: wrong(7) }), 'unsupported', 'memory:'],
  ['a ledger that is none', () => Tocsin.open({ ledger: 'sqlit:./t.db' }), 'unsupported', 'sqlit:./t.db'],
  ['a ledger without a path', () => Tocsin.open({ ledger: 'sqlite:' }), 'bad-option', 'path of a file'],
  [
    'a ledger with parameters',
    () => Tocsin.open({ ledger: 'sqlite:./t.db?schema=x' }),
    'bad-option',
    "such as '?schema=x'",
  ],
  ['a ledger in memory', () => Tocsin.open({ ledger: 'sqlite::memory:' }), 'bad-option', 'path of a file'],
  ['a MySQL', () => Tocsin.open({ ledger: 'mysql://u:secret@h/d' }), 'unsupported', '…@h/d'],
  [
    'a file as the ledger of Redis',
    () => Tocsin.open({ timetable: 'redis://localhost', ledger: 'sqlite:./t.db' }),
    'unsupported',
    'a Redis timetable with a SQLite file',
  ],
  ['a number as a ledger', () => Tocsin.open({ ledger: wrong(7) }), 'unsupported', 'ledger 7'],
  ['a prefix of a file', () => Tocsin.open({ prefix: 'x' }), 'bad-option', "'sqlite:./x.db'"],
  [
    'a prefix that is none',
    () => Tocsin.open({ timetable: 'memory:', prefix: 'a b' }),
    'bad-option',
    'letters, digits',
  ],
  ['logger: true', () => Tocsin.open({ timetable: 'memory:', logger: wrong(true) }), 'bad-option', 'pino'],
  ['logger: null', () => Tocsin.open({ timetable: 'memory:', logger: wrong(null) }), 'bad-option', 'pino'],
  [
    'half a logger',
    () => Tocsin.open({ timetable: 'memory:', logger: wrong({ error: () => {} }) }),
    'bad-option',
    'debug, info, warn and error',
  ],
  ['now: no offset', () => testTocsin({ now: '2026-11-11T00:00:00' }), 'bad-time', "add 'Z'"],
  ['patience: words', () => testTocsin({ patience: 'long' }), 'bad-duration', 'patience'],
  ['advance back', (_, toc) => toc.advance('-5m'), 'bad-duration', "'1h30m'"],
  ['advance by nothing', (_, toc) => toc.advance(wrong(undefined)), 'bad-duration', "'1h30m'"],
])

refuses('looking', [
  ...['', 'x', 'WzFd', '%%%', '../..', 'WzEsMl0', 7, {}].map((cursor): Row => [
    `cursor: ${JSON.stringify(cursor)}`,
    (topic) => topic.list({ cursor: wrong(cursor) }),
    'bad-cursor',
    'start again without it',
  ]),
  ...[0, -1, 1.5, Number.NaN, 1_001, Number.POSITIVE_INFINITY, '10'].map((limit): Row => [
    `limit: ${JSON.stringify(limit)}`,
    (topic) => topic.list({ limit: wrong(limit) }),
    'bad-option',
    'a whole number from 1 to 1000',
  ]),
  ['state: deed', (topic) => topic.list({ state: wrong('deed') }), 'bad-option', 'pending, claimed, dead'],
  ['state: null', (topic) => topic.list({ state: wrong(null) }), 'bad-option', 'pending, claimed, dead'],
  ['dueFrom: seconds', (topic) => topic.list({ dueFrom: 1_790_000_000 }), 'bad-time', 'seconds'],
  ['dueTo: words', (topic) => topic.list({ dueTo: 'soon' }), 'bad-time', 'dueTo'],
  ['forecast without an end', (topic) => topic.forecast(wrong({})), 'bad-time', 'to'],
  [
    'forecast backwards',
    (topic) => topic.forecast({ from: '2026-01-02T00:00:00Z', to: '2026-01-01T00:00:00Z' }),
    'bad-time',
    "'to' is not after 'from'",
  ],
  [
    'forecast step 0',
    (topic) => topic.forecast({ to: '2026-01-02T00:00:00Z', step: 0 }),
    'bad-option',
    'at most 10000 steps',
  ],
  [
    'forecast too fine',
    (topic) => topic.forecast({ to: '2036-01-02T00:00:00Z', step: '1s' }),
    'bad-option',
    'at most 10000 steps',
  ],
])

refuses('selectors', [
  [
    'cancelBy both',
    (topic) => topic.cancelBy(wrong({ tag: 't', prefix: 'p' })),
    'bad-option',
    "'tag' and 'prefix'",
  ],
  ['cancelBy neither', (topic) => topic.cancelBy(wrong({})), 'bad-option', "'tag' and 'prefix'"],
  ['cancelBy null', (topic) => topic.cancelBy(wrong(null)), 'bad-option', 'expected an object'],
  ['cancelBy text', (topic) => topic.cancelBy(wrong('campaign:77')), 'bad-option', 'expected an object'],
  ['cancelBy all', (topic) => topic.cancelBy(wrong({ all: true })), 'bad-option', "unknown option 'all'"],
  [
    'rescheduleBy neither',
    (topic) => topic.rescheduleBy(wrong({}), { delay: 1 }),
    'bad-option',
    "'tag' and 'prefix'",
  ],
  ['purge nothing', (topic) => topic.dead.purge(wrong({})), 'bad-option', "'tag' and 'prefix'"],
  ['purge undefined', (topic) => topic.dead.purge(wrong(undefined)), 'bad-option', 'expected an object'],
  ['purge all: false', (topic) => topic.dead.purge(wrong({ all: false })), 'bad-option', '{ all: true }'],
  ['purge all: 1', (topic) => topic.dead.purge(wrong({ all: 1 })), 'bad-option', '{ all: true }'],
  [
    'purge a tag and all',
    (topic) => topic.dead.purge(wrong({ tag: 't', all: true })),
    'bad-option',
    'one of',
  ],
  [
    'purge keys and all',
    (topic) => topic.dead.purge(wrong({ keys: ['k'], all: true })),
    'bad-option',
    'one of',
  ],
  [
    'purge keys and a tag',
    (topic) => topic.dead.purge(wrong({ keys: [], tag: 't' })),
    'bad-option',
    'one of',
  ],
  ['replay a key', (topic) => topic.dead.replay(wrong({ key: 'k' })), 'bad-option', "did you mean 'keys'?"],
  ['replay keys: text', (topic) => topic.dead.replay(wrong({ keys: 'k' })), 'bad-option', 'an array of keys'],
])

refuses('consumers', [
  ['no handler', (topic) => topic.consume(wrong(undefined)), 'bad-option', 'expected a function'],
  ['a handler that is none', (topic) => topic.consume(wrong({ handle() {} })), 'bad-option', 'a function'],
  ['no batch handler', (topic) => topic.consumeBatch(wrong(null)), 'bad-option', 'expected a function'],
  ['guard: true', (topic) => topic.consume(async () => {}, { guard: wrong(true) }), 'bad-option', 'guard'],
  ['guard: null', (topic) => topic.consume(async () => {}, { guard: wrong(null) }), 'bad-option', 'guard'],
  [
    "transaction: 'yes'",
    (topic) => topic.consume(async () => {}, { transaction: wrong('yes') }),
    'bad-option',
    'transaction',
  ],
  ...[0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 1e9, '8'].map((concurrency): Row => [
    `concurrency: ${JSON.stringify(concurrency)} ${String(concurrency)}`,
    (topic) => topic.consume(async () => {}, { concurrency: wrong(concurrency) }),
    'bad-option',
    'a whole number from 1 to',
  ]),
  ...['20', '-1s', 'soon', Number.NaN, -1].map((timeout): Row => [
    `stop timeout: ${String(timeout)}`,
    (topic) => topic.consume(async () => {}).stop({ timeout }),
    'bad-duration',
    'timeout',
  ]),
  ['close timeout: soon', (_, toc) => toc.close({ timeout: 'soon' }), 'bad-duration', 'timeout'],
  ['on: no such event', (_, toc) => toc.on(wrong('daed'), () => {}), 'bad-option', "did you mean 'dead'?"],
  ['on: no listener', (_, toc) => toc.on('dead', wrong(undefined)), 'bad-option', 'expected a function'],
])

describe('an array is refused as a whole', () => {
  const good = (n: number) => ({ key: `k-${n}`, delay: '1m', payload: n })

  it.each<[string, object, ErrorCode, string]>([
    ['a key', { key: '' }, 'bad-key', 'empty'],
    ['a time', { delay: '5 min' }, 'bad-duration', "write '5m'"],
    ['a payload', { payload: 1n }, 'bad-payload', 'BigInt'],
    ['tags', { tags: [''] }, 'bad-tags', 'empty'],
    ['an unknown field', { dealy: 1 }, 'bad-option', "did you mean 'delay'?"],
  ])('%s', async (_, change, code, says) => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const tasks = Array.from({ length: 2_500 }, (_, n) => good(n))
    tasks[2_345] = wrong({ ...good(2_345), ...change })
    const error = await refusal(() => topic.scheduleMany(tasks))
    expect(error.code).toBe(code)
    expect(error.details['index']).toBe(2_345)
    expect(error.message).toContain(says)
    expect(error.message).toContain('2345')
    expect((await topic.counts()).pending).toBe(0)
  })

  it('keys to cancel', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.scheduleMany([good(0), good(1)])
    const error = await refusal(() => topic.cancelMany(['k-0', 'k-1', '']))
    expect(error.code).toBe('bad-key')
    expect(error.details['index']).toBe(2)
    expect((await topic.counts()).pending).toBe(2)
  })

  it('keys of dead tasks', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const error = await refusal(() => topic.dead.purge({ keys: ['k-0', ''] }))
    expect(error.code).toBe('bad-key')
    expect(error.details['index']).toBe(1)
  })
})

describe('a stream that breaks', () => {
  const task = (n: number) => ({ key: `k-${n}`, delay: '1m', payload: n })
  const keysOf = async (topic: Topic<number, number>) => {
    const keys = await Promise.all(Array.from({ length: 2_000 }, (_, n) => topic.get(`k-${n}`)))
    return keys.filter((info) => info !== null).map((info) => info.payload)
  }
  const thousand = Array.from({ length: 1_000 }, (_, n) => n)

  it('at its 1,500th item, which is bad', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    function* tasks() {
      for (let n = 0; n < 1_499; n++) yield task(n)
      yield { ...task(1_499), delay: '5 min' }
      for (let n = 1_500; n < 2_000; n++) yield task(n)
    }
    const error = await refusal(() => topic.scheduleMany(tasks()))
    expect(error.code).toBe('interrupted')
    expect(error.details).toMatchObject({ accepted: 1_000 })
    expect(error.message).toContain('1000')
    expect(error.message).toContain('tasks[1499]')
    expect(error.cause).toMatchObject({ code: 'bad-duration', details: { index: 1_499 } })
    expect(await keysOf(topic)).toEqual(thousand)
  })

  it('at its third item, which is bad: nothing is in', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const error = await refusal(() => topic.scheduleMany(new Set([task(0), task(1), wrong(null)])))
    expect(error.code).toBe('bad-option')
    expect(error.details).toMatchObject({ index: 2 })
    expect((await topic.counts()).pending).toBe(0)
  })

  it('by a throw of its own', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const fault = new Error('the file ends here')
    async function* tasks() {
      for (let n = 0; n < 1_700; n++) yield task(n)
      throw fault
    }
    const error = await refusal(() => topic.scheduleMany(tasks()))
    expect(error.code).toBe('interrupted')
    expect(error.details).toEqual({ accepted: 1_000 })
    expect(error.message).toContain('the file ends here')
    expect(error.cause).toBe(fault)
    expect(await keysOf(topic)).toEqual(thousand)
  })

  it('by a throw before anything is in: the error is its own', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const fault = new Error('no such file')
    async function* tasks() {
      yield task(0)
      throw fault
    }
    await expect(topic.scheduleMany(tasks())).rejects.toBe(fault)
    expect((await topic.counts()).pending).toBe(0)
  })

  it('and its source is closed', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    let closed = false
    function* tasks() {
      try {
        for (let n = 0; ; n++) yield n === 1_200 ? wrong(null) : task(n)
      } finally {
        closed = true
      }
    }
    expect((await refusal(() => topic.scheduleMany(tasks()))).code).toBe('interrupted')
    expect(closed).toBe(true)
  })
})

describe('bad input changes nothing that is there', () => {
  it('a progress listener that is none', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    await topic.scheduleMany(['a', 'b'].map((key) => ({ key, delay: '1m', payload: null, tags: ['t'] })))
    const before = await topic.list()
    for (const call of [
      () => topic.cancelBy({ tag: 't' }, { onProgress: wrong(5) }),
      () => topic.rescheduleBy({ tag: 't' }, { delay: '9m' }, { onProgress: wrong('x') }),
    ])
      expect((await refusal(call)).code).toBe('bad-option')
    expect(await topic.list()).toEqual(before)
  })

  it('a task that is to be replaced', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<unknown>('order.unpaid')
    await topic.schedule({ key: 'k', delay: '1m', payload: 'old' })
    await refusal(() => topic.schedule({ key: 'k', delay: '1m', payload: 1n }))
    await refusal(() => topic.reschedule('k', { delay: '5 min' }))
    await refusal(() => topic.cancel('k', wrong({ force: true })))
    expect(await topic.get('k')).toMatchObject({ payload: 'old', dueAt: new Date('2026-01-01T00:01:00Z') })
  })

  it('a consumer that is told to stop in a wrong way goes on', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    let fired = 0
    const consumer = topic.consume(async () => void fired++)
    await refusal(() => consumer.stop({ timeout: 'soon' }))
    await refusal(() => toc.close({ timeout: 'soon' }))
    await topic.schedule({ delay: 1, payload: null })
    await toc.advance(1)
    expect(fired).toBe(1)
  })
})

describe('the clock of a test', () => {
  it('stands still when close was told something wrong', async () => {
    await using toc = await testTocsin()
    const before = toc.now()
    await refusal(() => toc.close({ timeout: 'soon' }))
    await toc.advance(0)
    expect(toc.now()).toEqual(before)
  })

  it('refuses as it answers: by its promise', async () => {
    await using toc = await testTocsin()
    let advancing: Promise<void> | undefined
    expect(() => {
      advancing = toc.advance('5 min')
    }).not.toThrow()
    expect((await refusal(() => advancing)).code).toBe('bad-duration')
  })
})

describe('after close', () => {
  const topicCalls: [string, (topic: Topic<null, null>) => unknown][] = [
    ['schedule', (topic) => topic.schedule({ delay: 1, payload: null })],
    ['scheduleMany', (topic) => topic.scheduleMany([])],
    ['scheduleMany of a stream', (topic) => topic.scheduleMany(new Set([{ delay: 1, payload: null }]))],
    ['cancel', (topic) => topic.cancel('k')],
    ['cancelMany', (topic) => topic.cancelMany([])],
    ['cancelBy', (topic) => topic.cancelBy({ tag: 't' })],
    ['reschedule', (topic) => topic.reschedule('k', { delay: 1 })],
    ['rescheduleBy', (topic) => topic.rescheduleBy({ prefix: 'p' }, { shift: '+1m' })],
    ['get', (topic) => topic.get('k')],
    ['list', (topic) => topic.list()],
    ['counts', (topic) => topic.counts()],
    ['forecast', (topic) => topic.forecast({ to: '2027-01-01T00:00:00Z' })],
    ['config', (topic) => topic.config()],
    ['configure', (topic) => topic.configure({ slots: 4 })],
    ['pause', (topic) => topic.pause()],
    ['resume', (topic) => topic.resume()],
    ['consume', (topic) => topic.consume(async () => {})],
    ['consumeBatch', (topic) => topic.consumeBatch(async () => {})],
    ['replay', (topic) => topic.dead.replay({ all: true })],
    ['purge', (topic) => topic.dead.purge({ keys: ['k'] })],
  ]

  it.each(topicCalls)('%s', async (_, call) => {
    const toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    await toc.close()
    const error = await refusal(() => call(topic))
    expect(error.code).toBe('closed')
    expect(error.message).toContain('open a new one')
  })

  it('topic', async () => {
    const toc = await testTocsin()
    await toc.close()
    expect((await refusal(() => toc.topic('order.unpaid'))).code).toBe('closed')
  })

  it('close and stop are idempotent', async () => {
    const toc = await testTocsin()
    const consumer = toc.topic('order.unpaid').consume(async () => {})
    await toc.close()
    await toc.close()
    expect(await consumer.stop()).toEqual({ finished: 0, released: 0 })
  })
})
