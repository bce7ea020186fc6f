/** Whatever is sent, the answer is one of ours, says what was wrong and nothing of our insides, and nothing is written. */
import { once } from 'node:events'
import fastify from 'fastify'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { asTocsinError, errorBody } from '../../src/server/api-error.ts'
import { useBodies } from '../../src/server/bodies.ts'
import { type Answer, TestServer } from './harness.ts'
import { open, raw, type RawAnswer, request } from './raw-socket.ts'

const BYTES_MAX = 4_000_000
const T = '/v1/topics/orders'
/** A stack, a file of ours or of a package, a name of what we are built with. */
const INSIDES = /\n\s+at |node_modules|\/src\/|\.ts\b|\.js\b|node:|fastify|FST_|ajv|HPE_|ERR_/i

let server: TestServer
let written: unknown
beforeAll(async () => {
  server = await TestServer.start({ bodyBytesMax: BYTES_MAX })
  await server.declare('orders')
  await server.declare('refunds')
  await server.post(`${T}/tasks`, { key: 'here', delay: '1h', payload: 1 })
  written = await state()
})
afterAll(() => server[Symbol.asyncDispose]())

/** All that a request could have changed. */
async function state(): Promise<unknown> {
  const { toc } = server.served
  await toc.refreshTopics()
  const topics = toc.topicNames()
  const of = (name: string) => Promise.all([toc.handle(name).counts(), toc.handle(name).config()])
  const tokens = await toc.accessTokenBoard.tokens()
  return {
    topics,
    each: await Promise.all(topics.map(of)),
    tokens,
    polluted: ({} as Record<string, unknown>)['polluted'],
  }
}

afterEach(async () => {
  const before = written
  // What one test lets through is not held against the next.
  written = await state()
  const failures = server.log.splice(0).filter((line) => JSON.parse(line).level >= 50)
  expect(written).toEqual(before)
  expect((await server.get('/healthz')).status).toBe(200)
  expect(failures).toEqual([])
})

function expectRefusal(
  what: unknown,
  { status, json, text }: Answer | RawAnswer,
  expected: [number, string, object?],
): void {
  const [wantedStatus, code, more = {}] = expected
  expect([what, status, json?.error]).toMatchObject([what, wantedStatus, { code, retryable: false, ...more }])
  expect([what, text]).toEqual([what, expect.not.stringMatching(INSIDES)])
  expect(text.length).toBeLessThan(2_000)
}

const send = (method: string, path: string, body?: string | Uint8Array, headers?: Record<string, string>) =>
  raw(
    server.url,
    request(server.url, method, path, {
      ...(body === undefined ? {} : { body }),
      ...(headers === undefined ? {} : { headers }),
    }),
  )
const allowOf = ({ headers }: RawAnswer) => headers['allow']
const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))))

describe('bodies', () => {
  const deep = (depth: number, open_ = '[', close = ']') =>
    `{"delay":"1h","payload":${open_.repeat(depth)}1${close.repeat(depth)}}`
  const ok = '"delay":"1h","payload":1'
  const BAD: [what: string, body: string | Uint8Array, code: string, more?: object][] = [
    ['nothing', '', 'bad-request'],
    ['a word', 'hello', 'bad-request'],
    ['half of it', `{${ok}`, 'bad-request'],
    ['too much of it', `{${ok}} {}`, 'bad-request'],
    ['a comma too many', `{${ok},}`, 'bad-request'],
    ['single quotes', "{'payload':1}", 'bad-request'],
    ['a comment', `{${ok}/**/}`, 'bad-request'],
    ['NaN', '{"delay":"1h","payload":NaN}', 'bad-request'],
    ['a control character', '{"delay":"1h","payload":"a\u0000"}', 'bad-request'],
    ['two BOMs', `\uFEFF\uFEFF{${ok}}`, 'bad-request'],
    ['UTF-16', Buffer.from(`{${ok}}`, 'utf16le'), 'bad-request'],
    ['invalid UTF-8', bytes('{"delay":"1h","payload":"', [0xff, 0xfe], '"}'), 'bad-request'],
    ['overlong UTF-8', bytes('{"delay":"1h","payload":"', [0xc0, 0xaf], '"}'), 'bad-request'],
    ['a half pair in UTF-8', bytes('{"delay":"1h","payload":"', [0xed, 0xa0, 0x80], '"}'), 'bad-request'],
    ['null', 'null', 'bad-request'],
    ['a number', '1', 'bad-request'],
    ['a text', '"payload"', 'bad-request'],
    ['an array', `[{${ok}}]`, 'bad-request'],
    ['__proto__', `{${ok},"__proto__":{"polluted":1}}`, 'bad-request'],
    [
      '__proto__, escaped',
      String.raw`{"delay":"1h","payload":{"\u005f_proto__":{"polluted":1}}}`,
      'bad-request',
    ],
    [
      '__proto__ in the payload',
      '{"delay":"1h","payload":{"a":[{"__proto__":{"polluted":1}}]}}',
      'bad-request',
    ],
    [
      'constructor.prototype',
      '{"delay":"1h","payload":{"constructor":{"prototype":{"polluted":1}}}}',
      'bad-request',
    ],
    ['constructor', `{${ok},"constructor":1}`, 'bad-request', { field: 'constructor' }],
    ['5,000 deep', deep(5_000), 'bad-payload', { field: 'payload' }],
    ['1,000,000 deep', deep(1_000_000), 'bad-payload', { field: 'payload' }],
    ['5,000 objects deep', deep(5_000, '{"a":', '}'), 'bad-payload', { field: 'payload' }],
    [
      '5,000 deep, elsewhere',
      `{${ok},"tags":${'['.repeat(5_000)}${']'.repeat(5_000)}}`,
      'bad-request',
      { field: 'tags[0]' },
    ],
    ['5,000 deep, unfinished', `{"payload":${'['.repeat(5_000)}`, 'bad-request'],
    [
      'a misspelt field',
      '{"delai":"1h","payload":1}',
      'bad-request',
      { field: 'delai', hint: "did you mean 'delay'?" },
    ],
    ['another field', `{${ok},"color":"red"}`, 'bad-request', { field: 'color' }],
    ['a field of 100,000 characters', `{${ok},"${'x'.repeat(100_000)}":1}`, 'bad-request'],
    ['no payload', '{"delay":"1h"}', 'bad-request', { field: 'payload' }],
    ['no time', '{"payload":1}', 'bad-time'],
    ['two times', `{${ok},"at":"2100-01-01T00:00:00Z"}`, 'bad-time'],
    ['a delay as a number', '{"delay":30,"payload":1}', 'bad-request', { field: 'delay' }],
    ['a delay without a unit', '{"delay":"30","payload":1}', 'bad-duration', { field: 'delay' }],
    ['a negative delay', '{"delay":"-5m","payload":1}', 'bad-duration', { field: 'delay' }],
    ['a delay in words', '{"delay":"5 min","payload":1}', 'bad-duration', { field: 'delay' }],
    ['an endless delay', `{"delay":"${'9'.repeat(400)}s","payload":1}`, 'bad-duration', { field: 'delay' }],
    ['a date in seconds', '{"at":1700000000,"payload":1}', 'bad-request', { field: 'at' }],
    ['a date in seconds, as text', '{"at":"1700000000","payload":1}', 'bad-time', { field: 'at' }],
    ['a date without an offset', '{"at":"2100-01-01T00:00:00","payload":1}', 'bad-time', { field: 'at' }],
    ['February 30', '{"at":"2100-02-30T00:00:00Z","payload":1}', 'bad-time', { field: 'at' }],
    ['the year 9999', '{"at":"9999-01-01T00:00:00Z","payload":1}', 'bad-time', { field: 'at' }],
    ['a key that is none', `{${ok},"key":".."}`, 'bad-key', { field: 'key' }],
    ['a key with NUL', String.raw`{"delay":"1h","payload":1,"key":"a\u0000"}`, 'bad-key', { field: 'key' }],
    [
      'a key of half a pair',
      String.raw`{"delay":"1h","payload":1,"key":"\ud800"}`,
      'bad-key',
      { field: 'key' },
    ],
    ['a long key', `{${ok},"key":"${'ä'.repeat(129)}"}`, 'bad-key', { field: 'key' }],
    ['an empty key', `{${ok},"key":""}`, 'bad-request', { field: 'key' }],
    ['a key as a number', `{${ok},"key":7}`, 'bad-request', { field: 'key' }],
    ['five tags', `{${ok},"tags":["a","b","c","d","e"]}`, 'bad-request', { field: 'tags' }],
    ['a long tag', `{${ok},"tags":["${'x'.repeat(65)}"]}`, 'bad-tags', { field: 'tags[0]' }],
    ['no such priority', `{${ok},"priority":"urgent"}`, 'bad-request', { field: 'priority' }],
    ['no such conflict', `{${ok},"onConflict":"merge"}`, 'bad-request', { field: 'onConflict' }],
    ['smear in seconds', `{${ok},"smear":5}`, 'bad-request', { field: 'smear' }],
  ]
  for (const [what, body, code, more] of BAD)
    it(what, async () => {
      expectRefusal(what, await send('POST', `${T}/tasks`, body), [400, code, more ?? {}])
    })

  it('a payload that is too large is told from a body that is', async () => {
    const payload = 'x'.repeat(65_535)
    expectRefusal('payload', await server.post(`${T}/tasks`, { delay: '1h', payload }), [
      413,
      'payload-too-large',
    ])
  })

  it('do not come back in the answer', async () => {
    for (const body of ['{"payload": my-secret }', '{"payload":"my-secret" x}', 'my-secret', '{"my-secret'])
      expect((await send('POST', `${T}/tasks`, body)).text).not.toContain('my-secret')
  })

  it('a BOM at the beginning does no harm', async () => {
    expectRefusal('BOM', await send('PATCH', `${T}/tasks/none`, '\uFEFF{"delay":"1h"}'), [404, 'not-found'])
  })

  it('arrays have 10,000 items at most, and are checked as a whole', async () => {
    const many = Array.from({ length: 10_001 }, (_, n) => ({ key: `k${n}`, delay: '1h', payload: n }))
    expectRefusal('tasks', await server.post(`${T}/schedule`, { tasks: many }), [
      400,
      'bad-request',
      { field: 'tasks' },
    ])
    const keys = many.map(({ key }) => key)
    for (const path of ['cancel', 'reschedule', 'dead/purge', 'dead/replay'])
      expectRefusal(path, await server.post(`${T}/${path}`, { keys }), [
        400,
        'bad-request',
        { field: 'keys' },
      ])
    const claims = keys.map((key) => ({ key, token: 'x', outcome: 'done' }))
    expectRefusal('settle', await server.post(`${T}/settle`, { tasks: claims }), [
      400,
      'bad-request',
      { field: 'tasks' },
    ])
    const last = [...many.slice(0, 9_998), { key: 'last', delay: '1x', payload: 1 }]
    const refused = await server.post(`${T}/schedule`, { tasks: last })
    expectRefusal('the last', refused, [400, 'bad-duration', { field: 'delay', index: 9_998 }])
    const typed = await server.post(`${T}/schedule`, {
      tasks: [...many.slice(0, 7), { ...many[7], delai: 1 }],
    })
    const hint = "did you mean 'delay'?"
    expectRefusal('typed', typed, [400, 'bad-request', { field: 'tasks[7].delai', index: 7, hint }])
  })

  it('of other calls are held to their shapes, too', async () => {
    const BAD_CALLS: [method: string, path: string, body: unknown, code: string, field?: string][] = [
      ['PATCH', `${T}/tasks/here`, { delay: '1h', payload: 2 }, 'bad-request', 'payload'],
      ['PATCH', `${T}/tasks/here`, {}, 'bad-time'],
      ['POST', `${T}/cancel`, {}, 'bad-option', 'keys'],
      ['POST', `${T}/cancel`, { keys: [] }, 'bad-request', 'keys'],
      ['POST', `${T}/cancel`, { keys: ['here'], tag: 'x' }, 'bad-option', 'keys'],
      ['POST', `${T}/cancel`, { keys: 'here' }, 'bad-request', 'keys'],
      ['POST', `${T}/cancel`, { prefix: 'a:b' }, 'bad-key', 'prefix'],
      ['POST', `${T}/cancel`, { all: true }, 'bad-request', 'all'],
      ['POST', `${T}/reschedule`, { keys: ['here'] }, 'bad-time'],
      ['POST', `${T}/reschedule`, { keys: ['here'], shift: '+1h' }, 'bad-option'],
      ['POST', `${T}/reschedule`, { tag: 'x', shift: '1 hour' }, 'bad-time'],
      ['POST', `${T}/claim`, { limit: 0 }, 'bad-request', 'limit'],
      ['POST', `${T}/claim`, { limit: 1_001 }, 'bad-request', 'limit'],
      ['POST', `${T}/claim`, { limit: 1.5 }, 'bad-request', 'limit'],
      ['POST', `${T}/claim`, { limit: '1' }, 'bad-request', 'limit'],
      ['POST', `${T}/claim`, { wait: '61s' }, 'bad-option', 'wait'],
      ['POST', `${T}/claim`, { wait: 5 }, 'bad-request', 'wait'],
      ['POST', `${T}/claim`, { lease: '0s' }, 'bad-option', 'lease'],
      ['POST', `${T}/claim`, { lease: '2d' }, 'bad-option', 'lease'],
      ['POST', `${T}/settle`, { tasks: [] }, 'bad-request', 'tasks'],
      [
        'POST',
        `${T}/settle`,
        { tasks: [{ key: 'here', token: 't', outcome: 'great' }] },
        'bad-request',
        'tasks[0].outcome',
      ],
      [
        'POST',
        `${T}/settle`,
        { tasks: [{ key: 'here', token: '', outcome: 'done' }] },
        'bad-token',
        'tasks[0].token',
      ],
      ['POST', `${T}/extend`, { tasks: [{ key: 'here' }] }, 'bad-request', 'tasks[0].token'],
      ['PUT', '/v1/topics/new', { slots: 3 }, 'bad-config'],
      ['PUT', '/v1/topics/new', { slots: null }, 'bad-request', 'slots'],
      ['PUT', '/v1/topics/new', { slotz: 4 }, 'bad-request', 'slotz'],
      ['PUT', '/v1/topics/new', { retry: { maxAttempt: 1 } }, 'bad-request', 'retry.maxAttempt'],
      ['PATCH', T, { slots: 1e21 }, 'bad-config'],
      ['PATCH', T, { slots: '4' }, 'bad-request', 'slots'],
      ['PATCH', T, { slotBy: 'prefix' }, 'bad-request', 'slotBy'],
      ['PATCH', T, { lease: '-1s' }, 'bad-duration'],
      ['PATCH', T, { rate: { limit: 1 } }, 'bad-request', 'rate.per'],
      ['POST', `${T}/pause`, { now: true }, 'bad-request', 'now'],
      ['POST', `${T}/dead/purge`, { all: false }, 'bad-request', 'all'],
      ['POST', `${T}/dead/purge`, {}, 'bad-option'],
      ['POST', `${T}/dead/purge`, { all: true, tag: 'x' }, 'bad-option'],
    ]
    for (const [method, path, body, code, field] of BAD_CALLS) {
      const answer = await server.request(method, path, { body })
      expectRefusal([method, path, body], answer, [400, code, field === undefined ? {} : { field }])
    }
  })

  it('lines whose chunks are garbage end without a summary, and no second answer gets into the first', async () => {
    const lines = `POST ${T}/schedule HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n`
    const socket = open(server.url)
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString()))
    socket.on('error', () => {})
    socket.write(`${lines}2\r\n{\n\r\n`)
    await expect.poll(() => text).toContain('HTTP/1.1 200')
    socket.write('zz\r\n')
    await once(socket, 'close')
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1)
    expect(text).not.toContain('summary')
  })

  it('lines with what must not be merged are refused, each by itself', async () => {
    const lines = [
      '{"delay":"1h","payload":{"__proto__":{"polluted":1}}}',
      '{"delay":"1h","payload":1,"__proto__":{"polluted":1}}',
      '{',
      '[]',
      'null',
      '7',
    ]
    const answer = await send('POST', `${T}/schedule`, lines.join('\n'), {
      'content-type': 'application/x-ndjson',
    })
    const told = answer.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(new Set(told.map(({ line }) => line))).toEqual(new Set([1, 2, 3, 4, 5, 6, undefined]))
    expect(told).toHaveLength(7)
    for (const { error } of told.slice(0, 6)) expect(error.code).toMatch(/^bad-/)
    expect(told.at(-1)).toEqual({ summary: { created: 0, replaced: 0, kept: 0, failed: 6 } })
    expect(answer.text).not.toMatch(INSIDES)
  })
})

describe('what is said of a body', () => {
  it('another type is 415', async () => {
    const body = '{"delay":"1h","payload":1}'
    const TYPES = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/xml',
      '',
      'json',
      '*/*',
      'application/json/x',
      'application/jsonx',
      'text/html, application/json',
      '\u0001',
    ]
    for (const type of TYPES)
      if (type !== '\u0001')
        expectRefusal(type, await send('POST', `${T}/tasks`, body, { 'content-type': type }), [
          415,
          'bad-media-type',
        ])
    // Only where lines are read, lines are taken; and only where patches are, patches.
    for (const type of ['application/x-ndjson', 'application/merge-patch+json'])
      expectRefusal(type, await send('POST', `${T}/tasks`, body, { 'content-type': type }), [
        415,
        'bad-media-type',
      ])
    const encoded = await send('POST', `${T}/tasks`, body, { 'content-encoding': 'gzip' })
    expectRefusal('gzip', encoded, [415, 'bad-media-type'])
    const head = `POST ${T}/tasks HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}`
    expectRefusal('no type', await raw(server.url, [head]), [415, 'bad-media-type'])
  })

  it('where none is wanted, one is refused', async () => {
    const body = '{"delay":"1h"}'
    for (const [method, path] of [
      ['GET', `${T}/tasks`],
      ['DELETE', `${T}/tasks/here`],
      ['GET', '/healthz'],
      ['HEAD', '/healthz'],
      ['DELETE', '/v1/tokens/x'],
    ] as const) {
      const answer = await send(method, path, body)
      if (method === 'HEAD') expect(answer.status).toBe(400)
      else expectRefusal([method, path], answer, [400, 'bad-request'])
    }
  })

  it('none is as good as an empty one', async () => {
    for (const headers of [{}, { 'content-type': 'application/json' }]) {
      expect((await send('POST', `${T}/claim`, undefined, headers)).status).toBe(200)
      const missing = await send('POST', `${T}/settle`, undefined, headers)
      expectRefusal('settle', missing, [400, 'bad-request', { field: 'tasks' }])
      // An empty body must not reset all settings.
      for (const method of ['PUT', 'PATCH'])
        expectRefusal(method, await send(method, T, undefined, headers), [400, 'bad-request'])
    }
  })

  it('its length is told once, and in one way', async () => {
    const head = `POST ${T}/tasks HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n`
    const WAYS = [
      'content-length: 2\r\ncontent-length: 3\r\n\r\n{}',
      'content-length: 2\r\ncontent-length: 2\r\n\r\n{}',
      'content-length: 2, 2\r\n\r\n{}',
      'content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      'transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n',
      'transfer-encoding: gzip\r\n\r\n{}',
      'transfer-encoding: chunked, gzip\r\n\r\n{}',
      'transfer-encoding: chunkedx\r\n\r\n{}',
      'transfer-encoding : chunked\r\n\r\n0\r\n\r\n',
      'content-length: -2\r\n\r\n{}',
      'content-length: +2\r\n\r\n{}',
      'content-length: 0x2\r\n\r\n{}',
      'content-length: 99999999999999999999999\r\n\r\n{}',
      'content-length: \r\n\r\n{}',
      'transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
      'transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n',
      'transfer-encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n',
      'transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}',
    ]
    for (const way of WAYS) expectRefusal(way, await raw(server.url, [head + way]), [400, 'bad-request'])
    const extended = `${head}transfer-encoding: chunked\r\n\r\n2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`
    expectRefusal('chunk extensions', await raw(server.url, [extended]), [413, 'too-large'])
  })

  it('more than is taken is refused at once, said or not, while it comes', async () => {
    const said = await raw(server.url, [
      `POST ${T}/tasks HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${BYTES_MAX + 1}\r\n\r\n{`,
    ])
    expectRefusal('said', said, [413, 'too-large'])
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
    const head = `POST ${T}/tasks HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`
    // Never ended: the answer does not wait for it.
    expectRefusal('not said', await raw(server.url, [head, ...Array.from({ length: 80 }, () => chunk)]), [
      413,
      'too-large',
    ])
    // Without a route the body is neither read nor parsed.
    expectRefusal('nowhere', await send('POST', '/v1/nowhere', '{'.repeat(10_000)), [404, 'not-found'])
    expectRefusal('nowhere', await send('POST', '/v1/nowhere', 'x', { 'content-type': 'text/plain' }), [
      404,
      'not-found',
    ])
  })
})

describe('a body that does not come', () => {
  it('is waited for until its deadline, by our clock', async () => {
    const clock = new VirtualClock(Date.parse('2026-11-11T00:00:00Z'))
    const app = fastify()
    app.setErrorHandler((thrown, _request, reply) => {
      const error = asTocsinError(thrown)
      if (error === null) throw thrown
      return reply.code(error.status).header('connection', 'close').send(errorBody(error))
    })
    useBodies(app, clock, { bytesMax: 1_000, deadlineMs: 30_000 })
    app.post('/', { schema: { body: { type: 'object' } } }, async () => 'read')
    await app.listen({ host: '127.0.0.1', port: 0 })
    const { port } = app.server.address() as { port: number }
    const url = `http://127.0.0.1:${port}`
    const socket = open(url)
    try {
      socket.write(
        'POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{',
      )
      let text = ''
      socket.on('data', (chunk) => (text += chunk.toString()))
      await expect.poll(() => clock.timerCount).toBe(1)
      clock.moveTo(29_999)
      // A byte now and then does not help.
      socket.write('"')
      expect(clock.timerCount).toBe(1)
      clock.moveTo(30_000)
      await once(socket, 'close')
      expect(text).toMatch(/^HTTP\/1\.1 408 /)
      const error = { code: 'request-timeout', message: 'body: not received within 30 s', retryable: true }
      expect(JSON.parse(text.split('\r\n\r\n')[1] as string)).toEqual({ error })
      // One that does come leaves no timer behind.
      const headers = { 'content-type': 'application/json' }
      expect(await (await fetch(url, { method: 'POST', body: '{}', headers })).text()).toBe('read')
      expect(clock.timerCount).toBe(0)
    } finally {
      socket.destroy()
      await app.close()
    }
  })

  it('and whose sender disconnects is not logged as a failure', async () => {
    const socket = open(server.url)
    socket.write(
      request(server.url, 'POST', `${T}/tasks`, {
        headers: { 'content-type': 'application/json', 'content-length': '100' },
      })[0] as string,
    )
    socket.write('{"delay":')
    await server.get('/healthz')
    socket.destroy()
    // No client is left to answer; nothing is logged, and the next request is served.
    expect((await server.get('/healthz')).status).toBe(200)
    expect(server.log.filter((line) => line.includes('"level":50'))).toEqual([])
  })
})

describe('paths', () => {
  const long = 'a'.repeat(5_000)
  const KEYS: [string, number, string][] = [
    ['..', 400, 'bad-key'],
    ['.', 400, 'bad-key'],
    ['%2e%2e', 400, 'bad-key'],
    ['%2E', 400, 'bad-key'],
    ['.%2e', 400, 'bad-key'],
    ['%00', 400, 'bad-key'],
    ['a%0d%0aSet-Cookie:x', 400, 'bad-key'],
    ['%7f', 400, 'bad-key'],
    ['', 400, 'bad-key'],
    ['%ff', 400, 'bad-request'],
    ['%c0%af', 400, 'bad-request'],
    ['%ed%a0%80', 400, 'bad-request'],
    ['%', 400, 'bad-request'],
    ['%zz', 400, 'bad-request'],
    ['%2', 400, 'bad-request'],
    ['a'.repeat(257), 400, 'bad-key'],
    ['%C3%A4'.repeat(129), 400, 'bad-key'],
    [long, 400, 'bad-request'],
    ['%2f', 404, 'not-found'],
    ['%2e%2e%2fhere', 404, 'not-found'],
    ['..%2f..%2f..%2fetc%2fpasswd', 404, 'not-found'],
    ['%252e%252e', 404, 'not-found'],
    ['__proto__', 404, 'not-found'],
    ['here/', 404, 'not-found'],
    ['../here', 404, 'not-found'],
    ['here;x=1', 404, 'not-found'],
    ['HERE', 404, 'not-found'],
  ]
  it('keys are not fooled', async () => {
    for (const method of ['GET', 'DELETE'])
      for (const [key, status, code] of KEYS)
        expectRefusal([method, key], await send(method, `${T}/tasks/${key}`), [status, code])
  })

  it('nor is what a query asks for', async () => {
    for (const tag of ['%ff', '%c0%af', '%ed%a0%80', '%', '%zz', '%2'])
      expectRefusal(tag, await send('GET', `${T}/tasks?tag=${tag}`), [400, 'bad-request'])
    expect((await send('GET', `${T}/tasks?tag=%C3%A4`)).status).toBe(200)
    expect((await send('GET', '/healthz?%ff')).status).toBe(200)
  })

  const TOPICS: [string, number, string][] = [
    ['..', 400, 'bad-topic'],
    ['%2e%2e', 400, 'bad-topic'],
    ['%2f', 400, 'bad-topic'],
    ['%00', 400, 'bad-topic'],
    ['', 400, 'bad-topic'],
    ['ORDERS', 400, 'bad-topic'],
    ['{orders}', 400, 'bad-topic'],
    ['orders%7Dx', 400, 'bad-topic'],
    ['a:b', 400, 'bad-topic'],
    ['orders%20', 400, 'bad-topic'],
    ['orders%0a', 400, 'bad-topic'],
    ['%ff', 400, 'bad-request'],
    [long, 400, 'bad-request'],
    ['a'.repeat(65), 400, 'bad-topic'],
    ['__proto__', 400, 'bad-topic'],
    ['constructor', 404, 'unknown-topic'],
    ['orders.%2e', 404, 'unknown-topic'],
  ]
  it('nor are topics, also not where they would be created', async () => {
    for (const [name, status, code] of TOPICS) {
      for (const path of ['', '/tasks'])
        expectRefusal([name, path], await send('GET', `/v1/topics/${name}${path}`), [status, code])
      expectRefusal([name], await send('POST', `/v1/topics/${name}/tasks`, '{"delay":"1h","payload":1}'), [
        status,
        code,
      ])
      if (status === 400) expectRefusal([name], await send('PUT', `/v1/topics/${name}`, '{}'), [status, code])
    }
  })

  it('an undeclared topic is not created by using it, and a likely typo gets a hint', async () => {
    const calls: [string, string, unknown?][] = [
      ['POST', 'tasks', { delay: '1h', payload: 1 }],
      ['GET', 'tasks'],
      ['POST', 'schedule', { tasks: [{ delay: '1h', payload: 1 }] }],
      ['POST', 'cancel', { tag: 'x' }],
      ['POST', 'claim', {}],
      ['POST', 'settle', { tasks: [{ key: 'a', token: 'x', outcome: 'done' }] }],
      ['POST', 'pause', {}],
      ['POST', 'dead/purge', { all: true }],
      ['DELETE', 'tasks/a'],
      ['GET', 'tasks/a'],
    ]
    const hint = "did you mean 'orders'?"
    for (const [method, path, body] of calls) {
      const answer = await server.request(method, `/v1/topics/ordres/${path}`, { body })
      expectRefusal([method, path], answer, [404, 'unknown-topic', { field: 'topic', hint }])
      expect(answer.json.error.message).toContain(hint)
    }
    for (const path of [
      '/v1/topics/ordres',
      '/v1/stats?topic=ordres',
      '/v1/forecast?to=2100-01-01T00:00:00Z&step=36500d&topic=ordres',
    ])
      expectRefusal(path, await server.get(path), [404, 'unknown-topic', { hint }])
    const far = await server.get('/v1/topics/quite-another')
    expectRefusal('far', far, [404, 'unknown-topic', { hint: 'declare it first: PUT /v1/topics/{topic}' }])
    expectRefusal('patch', await server.request('PATCH', '/v1/topics/ordres', { body: { slots: 4 } }), [
      404,
      'unknown-topic',
      { hint },
    ])
  })

  it('what is not there is not there, whatever the method', async () => {
    for (const path of [
      '/',
      '/v2/topics',
      '/v1',
      '/V1/topics',
      '//v1/topics',
      '/v1//topics',
      '/v1/topics;x',
      '/v1/topics/orders/tasks/here/x',
      '/%76%32',
      '/favicon.ico',
      '/.env',
      '/v1/../metrics',
    ])
      expectRefusal(path, await send('GET', path), [404, 'not-found'])
    for (const method of ['OPTIONS', 'TRACE', 'PROPFIND', 'QUERY', 'PUT', 'DELETE', 'PATCH', 'PURGE'])
      expectRefusal(method, await send(method, '/v1/nowhere'), [404, 'not-found'])
    expectRefusal('FOO', await send('FOO', '/v1/topics'), [400, 'bad-request'])
    expect((await send('CONNECT', '127.0.0.1:22')).status).toBe(0)
  })

  it('a method that a path does not take is refused with those that it does', async () => {
    for (const method of ['TRACE', 'PROPFIND', 'QUERY', 'POST', 'PUT', 'DELETE', 'PATCH', 'PURGE']) {
      const answer = await send(method, '/v1/topics')
      expectRefusal(method, answer, [405, 'method-not-allowed'])
      expect([method, allowOf(answer)]).toEqual([method, 'GET, HEAD, OPTIONS'])
    }
    for (const [method, path, allowed] of [
      ['POST', T, 'GET, HEAD, PATCH, PUT, OPTIONS'],
      ['PUT', `${T}/tasks/here`, 'DELETE, GET, HEAD, PATCH, OPTIONS'],
      ['PUT', `${T}/tasks/%2f?x=1`, 'DELETE, GET, HEAD, PATCH, OPTIONS'],
      ['GET', `${T}/claim`, 'POST, OPTIONS'],
      ['GET', '/v1/topics/ORDERS/dead/purge', 'POST, OPTIONS'],
      ['POST', '/v1/%73tats', 'GET, HEAD, OPTIONS'],
      ['POST', '/healthz', 'GET, HEAD, OPTIONS'],
    ] as const) {
      const answer = await send(method, path, method === 'GET' ? undefined : '{')
      expectRefusal([method, path], answer, [405, 'method-not-allowed'])
      expect([path, allowOf(answer)]).toEqual([path, allowed])
    }
    const head = await send('HEAD', `${T}/claim`)
    expect([head.status, head.text, allowOf(head)]).toEqual([405, '', 'POST, OPTIONS'])
    expectRefusal('bad path', await send('PROPFIND', '/v1/%ff'), [400, 'bad-request'])
  })

  it('OPTIONS says which methods a path takes', async () => {
    const answer = await send('OPTIONS', `${T}/tasks`)
    expect([answer.status, answer.text, allowOf(answer)]).toEqual([204, '', 'GET, HEAD, POST, OPTIONS'])
    // Nothing of it lets a page of another site in.
    expect(answer.all.toLowerCase()).not.toContain('access-control')
  })
})

describe('queries', () => {
  const LIST = `${T}/tasks`
  const BAD: [query: string, code: string, field?: string][] = [
    ['limit=0', 'bad-request', 'limit'],
    ['limit=-1', 'bad-request', 'limit'],
    ['limit=1001', 'bad-request', 'limit'],
    ['limit=1e309', 'bad-request', 'limit'],
    ['limit=9007199254740993', 'bad-request', 'limit'],
    ['limit=1.5', 'bad-request', 'limit'],
    ['limit=ten', 'bad-request', 'limit'],
    ['limit=', 'bad-request', 'limit'],
    ['limit=true', 'bad-request', 'limit'],
    ['limit=1&limit=2', 'bad-request', 'limit'],
    ['limit[]=1', 'bad-request', 'limit[]'],
    ['limt=1', 'bad-request', 'limt'],
    ['__proto__=1', 'bad-request', '__proto__'],
    ['constructor=1', 'bad-request', 'constructor'],
    ['toString=1', 'bad-request', 'toString'],
    ['state=lost', 'bad-request', 'state'],
    ['state=done', 'ledger-required'],
    ['tag=', 'bad-tags', 'tag'],
    ['prefix=%00', 'bad-key', 'prefix'],
    ['prefix=a:b', 'bad-key', 'prefix'],
    ['dueFrom=1700000000', 'bad-time', 'dueFrom'],
    ['dueTo=tomorrow', 'bad-time', 'dueTo'],
    ['cursor=', 'bad-cursor', 'cursor'],
    ['cursor=abc', 'bad-cursor', 'cursor'],
    ['cursor=%00', 'bad-cursor', 'cursor'],
    [`cursor=${'A'.repeat(8_000)}`, 'bad-cursor', 'cursor'],
    [`cursor=${cursor({ ringMs: 1 })}`, 'bad-cursor', 'cursor'],
    [`cursor=${cursor([1, 'x', 'key'])}`, 'bad-cursor', 'cursor'],
    [`cursor=${cursor(['2100-01-01', 0, 'key'])}`, 'bad-cursor', 'cursor'],
  ]
  function cursor(of: unknown): string {
    return Buffer.from(JSON.stringify(of)).toString('base64url')
  }
  it('of a list', async () => {
    for (const [query, code, field] of BAD)
      expectRefusal(query, await send('GET', `${LIST}?${query}`), [
        400,
        code,
        field === undefined ? {} : { field },
      ])
  })

  it('of the others, also of those that take none', async () => {
    const OTHERS: [path: string, code: string, field?: string][] = [
      ['/v1/stats?topik=orders', 'bad-request', 'topik'],
      ['/v1/stats?topic=ORDERS', 'bad-topic'],
      ['/v1/stats?topic=a&topic=b', 'bad-request', 'topic'],
      ['/v1/forecast', 'bad-request', 'to'],
      ['/v1/forecast?to=2100', 'bad-time', 'to'],
      ['/v1/forecast?to=2100-01-01T00:00:00Z&step=1ms', 'bad-option'],
      ['/v1/forecast?to=2100-01-01T00:00:00Z&step=60', 'bad-duration', 'step'],
      ['/v1/forecast?to=2100-01-01T00:00:00Z&step=0s', 'bad-option'],
      ['/v1/forecast?to=2000-01-01T00:00:00Z', 'bad-time'],
      ['/v1/events?type=fire', 'bad-request', 'type'],
      ['/v1/events?topic=A', 'bad-topic'],
      ['/v1/topics?prefix=a', 'bad-request', 'prefix'],
      ['/v1/audit?topic=orders', 'bad-request', 'topic'],
      ['/v1/nodes?x', 'bad-request', 'x'],
      ['/metrics?x=1', 'bad-request', 'x'],
    ]
    for (const [path, code, field] of OTHERS)
      expectRefusal(path, await send('GET', path), [400, code, field === undefined ? {} : { field }])
    const { hint } = (await server.get('/v1/stats?topik=x')).json.error
    expect(hint).toBe("did you mean 'topic'?")
    expectRefusal('post', await send('POST', `${LIST}?dry=1`, '{"delay":"1h","payload":1}'), [
      400,
      'bad-request',
      { field: 'dry' },
    ])
    // Probes add what they like.
    expect((await send('GET', '/healthz?x=1')).status).toBe(200)
  })

  it('If-Match', async () => {
    const BAD_TAGS = [
      'x',
      '3',
      '"x"',
      '"-1"',
      'W/"0"',
      '"0", "1"',
      '',
      '"',
      '"1e3"',
      '"99999999999999999999"',
      '"0"x',
      "'0'",
    ]
    for (const tag of BAD_TAGS)
      expectRefusal(tag, await send('PATCH', T, '{"slots":8}', { 'if-match': tag }), [
        400,
        'bad-request',
        { field: 'if-match' },
      ])
    expectRefusal('old', await send('PATCH', T, '{"slots":8}', { 'if-match': '"7"' }), [
      412,
      'version-conflict',
    ])
  })
})

describe('the connection', () => {
  it('a flood of headers is 431', async () => {
    expectRefusal('one', await send('GET', '/healthz', undefined, { x: 'a'.repeat(20_000) }), [
      431,
      'headers-too-large',
    ])
    const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`x-${n}`, 'a']))
    expectRefusal('many', await send('GET', '/healthz', undefined, many), [431, 'headers-too-large'])
    expectRefusal('path', await send('GET', `/${'a'.repeat(20_000)}`), [431, 'headers-too-large'])
  })

  it('garbage is answered once, and the connection is closed', async () => {
    const GARBAGE = [
      Buffer.from([0, 1, 2, 255, 13, 10, 13, 10]),
      Buffer.from('16030100ff010000fb0303', 'hex'),
      'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      'hello\r\n\r\n',
      'GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n',
      'GET / HTTP/1.1\r\nhost: x\r\na\u0000b: c\r\n\r\n',
      'GET / HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n',
      'GET /a b HTTP/1.1\r\nhost: x\r\n\r\n',
      'GET / HTTP/1.1\nhost: x\r\n\rx: y\r\n\r\n',
      '*1\r\n$4\r\nPING\r\n',
      'GET\u0000/ HTTP/1.1\r\n\r\n',
      'GET / HTTP/1.1\r\nhost: x\r\nx: \u0001\r\n\r\n',
    ]
    for (const bytes_ of GARBAGE) {
      const answer = await raw(server.url, [bytes_])
      expectRefusal(bytes_, answer, [400, 'bad-request'])
      expect(answer.headers).toMatchObject({ connection: 'close', 'x-content-type-options': 'nosniff' })
      expect(answer.all.match(/HTTP\/1\.1/g)).toHaveLength(1)
    }
  })

  it('garbage after a request does not get into its answer', async () => {
    const claim = '{"wait":"300ms"}'
    const [head = '', body = ''] = request(server.url, 'POST', `${T}/claim`, {
      body: claim,
      headers: { connection: 'keep-alive' },
    })
    expectRefusal('claim', await raw(server.url, [head, body, '\0\0\r\n\r\n']), [400, 'bad-request'])
  })

  it('HTTP/1.0, and no Host', async () => {
    const { host } = new URL(server.url)
    expect((await raw(server.url, ['GET /healthz HTTP/1.0\r\n\r\n'])).status).toBe(200)
    expectRefusal('0.9', await raw(server.url, ['GET /\r\n\r\n']), [404, 'not-found'])
    expect((await raw(server.url, [`GET /v1/topics HTTP/1.0\r\nhost: ${host}\r\n\r\n`])).status).toBe(200)
    expectRefusal('1.0', await raw(server.url, ['GET /v1/topics HTTP/1.0\r\n\r\n']), [403, 'forbidden'])
    // Node answers this by itself, in no words.
    expect(await raw(server.url, ['GET /v1/topics HTTP/1.1\r\n\r\n'])).toMatchObject({
      status: 400,
      text: '',
    })
    expect((await send('GET', '/healthz', undefined, { expect: 'the-unexpected' })).status).toBe(417)
    expect((await send('GET', `http://evil.example${T}`, undefined, { host: 'evil.example' })).status).toBe(
      403,
    )
  })

  it('a client that half-closes still gets its answer, and nothing if it sent no request', async () => {
    const asked = request(server.url, 'GET', `${T}/tasks/here`)
    expect((await raw(server.url, asked, { isHalfClosed: true })).status).toBe(200)
    expect((await raw(server.url, [''], { isHalfClosed: true })).all).toBe('')
    expectRefusal('half', await raw(server.url, ['GET /healthz HTTP/1.1\r\nho'], { isHalfClosed: true }), [
      400,
      'bad-request',
    ])
    const started = request(server.url, 'POST', `${T}/tasks`, {
      headers: { 'content-type': 'application/json', 'content-length': '50' },
    })
    expectRefusal('body', await raw(server.url, [...started, '{"delay'], { isHalfClosed: true }), [
      400,
      'bad-request',
    ])
  })

  it('one on which nothing comes, or half a request, holds up close() for seconds only', async () => {
    const other = await TestServer.start()
    const sockets = [open(other.url), open(other.url)]
    sockets[1]?.write('POST /v1/topics/x/tasks HTTP/1.1\r\nhost: a\r\ncontent-le')
    await other.get('/healthz')
    const startedMs = performance.now()
    await other.served.close()
    expect(performance.now() - startedMs).toBeLessThan(18_000)
    for (const socket of sockets) socket.destroy()
  })

  it('many requests on one connection are each answered, in order', async () => {
    const [last] = request(server.url, 'GET', '/v1/nowhere')
    const one = (last as string).replace('connection: close', 'connection: keep-alive')
    const { all } = await raw(server.url, [
      one.repeat(50).replaceAll('/v1/nowhere', '/healthz') + (last as string),
    ])
    expect(all.match(/HTTP\/1\.1 \d+/g)).toEqual([
      ...Array.from({ length: 50 }, () => 'HTTP/1.1 200'),
      'HTTP/1.1 404',
    ])
  })
})
