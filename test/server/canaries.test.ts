/** Plants secrets wherever secrets are configured, and searches all output of the server for them. */
import { inspect } from 'node:util'
import { type ServeOptions, serve } from 'tocsin/server'
import { expect, it } from 'vitest'
import { startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'
import { type Answer, TestServer } from './harness.ts'
import { raw, request } from './raw-socket.ts'

/** By what they stand for. Letters and digits, so that no encoding hides them. */
const planted = new Map<string, string>()
function canary(name: string): string {
  const known = planted.get(name)
  if (known !== undefined) return known
  const made = `canary${planted.size}x${Math.random().toString(36).slice(2, 12)}`
  planted.set(name, made)
  return made
}

/** What was said, and where: in the log, in an error, in figures. */
class Overheard {
  readonly #said: { where: string; text: string }[] = []

  add(where: string, text: string): void {
    this.#said.push({ where, text })
  }

  found(secrets: ReadonlyMap<string, string> = planted): string[] {
    return [...secrets].flatMap(([name, secret]) =>
      this.#said
        .filter(({ text }) => text.includes(secret))
        .map(
          ({ where, text }) =>
            `${name} in ${where}: ${text.slice(Math.max(0, text.indexOf(secret) - 150), text.indexOf(secret) + 60)}`,
        ),
    )
  }

  get length(): number {
    return this.#said.length
  }
}

it('finds what it looks for', () => {
  const heard = new Overheard()
  heard.add('a log', `password=${canary('a test')}`)
  expect(heard.found()).toHaveLength(1)
  planted.clear()
})

it('a server that does not start does not reveal its credentials', async () => {
  const heard = new Overheard()
  const secret = canary('configuration')
  const WRONG: ServeOptions[] = [
    { timetable: `redis://:${secret}@127.0.0.1:1` },
    { timetable: `redis://user:${secret}@127.0.0.1:1/0?x=${secret}` },
    { timetable: `rediss://user:${secret}@127.0.0.1:1` },
    { timetable: `mysql://user:${secret}@127.0.0.1:1` },
    { timetable: `user:${secret}@127.0.0.1:6379` },
    { timetable: `redis://:${secret}@127.0.0.1:1`, ledger: `sqlite:./x.db` },
    { ledger: `postgres://user:${secret}@127.0.0.1:1/db` },
    { ledger: `postgres://user:${secret}@no-such-host.invalid/db?application_name=${secret}` },
    { ledger: `postgres://user:${secret}@[::/db` },
    { ledger: `mysql://user:${secret}@127.0.0.1/db` },
    { ledger: [`postgres://user:${secret}@127.0.0.1:1/a`, `postgres://user:${secret}@127.0.0.1:1/b`] },
    { timetable: 'memory:', host: '0.0.0.0', adminToken: secret.slice(0, 19) },
  ]
  for (const options of WRONG) {
    const log = { write: (line: string) => heard.add('the log', line) }
    const started = serve({
      port: 0,
      logLevel: 'debug',
      logTo: log,
      callTimeout: '300ms',
      ...options,
    } as ServeOptions)
    const error: unknown = await started.then(
      (served) => served.close(),
      (thrown: unknown) => thrown,
    )
    expect(error, inspect(options)).toBeInstanceOf(Error)
    const { message, stack = '', details } = error as Error & { details?: object }
    heard.add('an error', `${message}\n${stack}\n${JSON.stringify(details)}`)
    // With its causes, which are printed, too.
    heard.add('a printed error', inspect(error, { depth: 10 }))
  }
  expect(heard.found()).toEqual([])
}, 60_000)

it('a server at work keeps what it was told', async () => {
  const heard = new Overheard()
  const warn = (warning: Error) => heard.add('a warning', inspect(warning))
  process.on('warning', warn)
  await using redis = await startRedis({ config: { requirepass: canary('Redis password') } })
  await using proxy = await startProxy({ host: redis.host, port: redis.port })
  const timetable = proxy.url(`redis://default:${canary('Redis password')}@${redis.host}:${redis.port}`)
  const admin = `admin${canary('admin token')}`
  await using server = await TestServer.start({
    timetable,
    adminToken: admin,
    callTimeout: '5s',
    logLevel: 'debug',
    bodyBytesMax: 200_000,
  })
  server.token = admin
  const T = '/v1/topics/orders'
  const refused = new Set<number>()

  const hear = (
    what: string,
    answer: { status: number; text: string; headers: unknown },
    mayShow = false,
  ): void => {
    if (answer.status >= 400) refused.add(answer.status)
    if (mayShow && answer.status < 400) return
    heard.add(`${what} → ${answer.status}`, answer.text)
    heard.add(
      `headers of ${what}`,
      inspect(answer.headers instanceof Headers ? Object.fromEntries(answer.headers) : answer.headers),
    )
  }
  const say = async (
    method: string,
    path: string,
    options: Parameters<TestServer['request']>[2] = {},
    mayShow = false,
  ): Promise<Answer> => {
    const answer = await server.request(method, path, options)
    hear(`${method} ${path.split('?')[0]}`, answer, mayShow)
    return answer
  }
  const unasked = async (method: string, path: string, headers: Record<string, string>, body?: string) =>
    hear(
      `raw ${method}`,
      await raw(
        server.url,
        request(server.url, method, path, { headers, ...(body === undefined ? {} : { body }) }),
      ),
    )

  await server.declare('orders', { retry: { maxAttempts: 1 } })
  const gone = new AbortController()
  const { body: events } = await fetch(`${server.url}/v1/events`, {
    headers: { authorization: `Bearer ${admin}` },
    signal: gone.signal,
  })
  const listening = (async () => {
    for await (const chunk of events as unknown as AsyncIterable<Uint8Array>)
      heard.add('events', Buffer.from(chunk).toString())
  })().catch(() => {})

  // Tokens: their secrets are shown once.
  const made = await say('POST', '/v1/tokens', { body: { name: 'a', scopes: ['read'] } }, true)
  planted.set('a token', made.json.token.split('_').slice(2).join('_'))
  const rotated = await say('POST', `/v1/tokens/${made.json.id}/rotate`, { body: { overlap: '0s' } }, true)
  planted.set('a rotated token', rotated.json.token.split('_').slice(2).join('_'))
  await say('GET', '/v1/tokens')
  await say('GET', '/v1/tokens', { token: rotated.json.token })
  await say('GET', '/v1/topics', { token: made.json.token })

  // Headers and URLs.
  const bearer = `Bearer ${admin}`
  await say('GET', '/v1/topics', {
    token: `tocsin_${'0'.repeat(12)}_${canary('unknown token')}${'A'.repeat(20)}`,
  })
  await say('GET', '/v1/topics', { token: null, headers: { authorization: `Basic ${canary('basic')}` } })
  await say('GET', '/v1/topics', {
    headers: {
      cookie: `session=${canary('cookie')}`,
      'x-api-key': canary('api key'),
      'user-agent': canary('user agent'),
    },
  })
  await say('PATCH', T, { body: { slots: 4 }, headers: { 'if-match': canary('if-match') } })
  await say('GET', `${T}/tasks?access_token=${canary('query')}`)
  await say('GET', `${T}/tasks?cursor=${canary('cursor')}`)
  await say('GET', `/v1/stats?topic=${canary('query').toUpperCase()}&topic=x&token=${canary('query')}`)
  await say('GET', `/healthz?token=${canary('query of a probe')}`)
  await unasked('GET', `/nowhere?token=${canary('query of nothing')}`, {
    authorization: `Bearer ${canary('token of nothing')}`,
  })
  await unasked('GET', `/v1/topics/%ff?token=${canary('query of a bad path')}`, { authorization: bearer })
  await unasked('GET', '/v1/topics', {
    authorization: bearer,
    'proxy-authorization': canary('proxy'),
    'x-request-id': `no id: ${canary('request id')}`,
  })
  await unasked('POST', `${T}/tasks`, { authorization: bearer, 'content-type': canary('content type') }, '{}')
  await unasked('GET', '/v1/topics', { authorization: bearer, 'bad header': canary('garbage') })
  await unasked('GET', '/v1/topics', { authorization: bearer, flood: canary('flood').repeat(1_500) })

  // Payloads: may be seen by those who ask for the task, and nowhere else.
  const payload = { card: canary('payload') }
  const tasks = ['a', 'b', 'c'].map((key) => ({ key, delay: '0s', payload }))
  await say('POST', `${T}/tasks`, {
    body: { key: 'late', delay: '1h', payload: { deep: [{ card: canary('deep payload') }] } },
  })
  await say('POST', `${T}/schedule`, { body: { tasks } })
  const lines = `${JSON.stringify({ delay: '1h', payload })}\n{"delay":"1x","payload":"${canary('payload of a bad line')}"}\n${canary('no line')}\n`
  await say('POST', `${T}/schedule`, { raw: lines, headers: { 'content-type': 'application/x-ndjson' } })
  // Of a short text V8 quotes the whole, of a long one what is around the mistake.
  for (const text of [canary('malformed'), `{"delay":"1h","payload":${canary('malformed')}}`])
    await say('POST', `${T}/tasks`, { raw: text, headers: { 'content-type': 'application/json' } })
  await say('POST', `${T}/tasks`, { body: { delay: '1h', payload: canary('large payload').repeat(4_000) } })
  await say('POST', `${T}/tasks`, { body: { delay: '1h', payload: canary('large body').repeat(20_000) } })
  await say('POST', `${T}/tasks`, { body: { delay: 'soon', payload: canary('payload without a time') } })
  await say('POST', '/v1/topics/ordres/tasks', {
    body: { delay: '1h', payload: canary('payload of no topic') },
  })
  const claimed = await say('POST', `${T}/claim`, { body: { limit: 3, wait: '5s' } }, true)
  expect(claimed.text).toContain(canary('payload'))
  const [first] = claimed.json.tasks
  planted.set('proof of a claim', first.token)
  await say('POST', `${T}/settle`, {
    body: { tasks: [{ key: first.key, token: first.token, outcome: 'retry', reason: 'no luck' }] },
  })
  await say('POST', `${T}/settle`, {
    body: { tasks: [{ key: first.key, token: canary('no proof'), outcome: 'done' }] },
  })
  expect((await say('GET', `${T}/tasks/late`, {}, true)).text).toContain(canary('deep payload'))
  expect((await say('GET', `${T}/tasks`, {}, true)).text).toContain(canary('payload'))
  await say('DELETE', `${T}/tasks/late`)

  // The store is away, in two ways, and comes back.
  const waiting = say('POST', `${T}/claim`, { body: { wait: '3s' } }, true)
  for (const away of [() => proxy.stall(), () => (proxy.refuse(), proxy.cut())]) {
    away()
    const bodies = [
      { delay: '1h', payload: canary('payload while away') },
      { delay: 'x', payload: canary('payload while away') },
    ]
    await Promise.all(bodies.map((body) => say('POST', `${T}/tasks`, { body })))
    await Promise.all(
      ['/v1/stats', '/v1/tokens', '/metrics', '/v1/nodes'].map((path) =>
        say('GET', path).catch((error: unknown) => heard.add(`GET ${path}`, inspect(error))),
      ),
    )
    hear('readyz', await server.get('/readyz'))
    proxy.resume()
  }
  await proxy.accept()
  await waiting
  await expect.poll(async () => (await server.get('/v1/stats')).status, { timeout: 15_000 }).toBe(200)

  for (const path of [
    '/metrics',
    '/openapi.json',
    '/v1/topics',
    '/v1/stats',
    '/v1/nodes',
    '/v1/tokens',
    '/healthz',
    '/readyz',
    T,
  ])
    await say('GET', path)
  gone.abort()
  await listening
  await server.served.close()
  process.off('warning', warn)
  // The log may name the addresses of the stores; answers to clients must not.
  expect(heard.found(new Map([['the address of Redis', new URL(timetable).host]]))).toEqual([])
  for (const line of server.log) heard.add('the log', line)
  expect(heard.found(new Map([['the address of Redis', new URL(timetable).host]]))).not.toEqual([])

  expect(planted.size).toBeGreaterThanOrEqual(20)
  expect(server.log.some((line) => line.includes('timetable-unavailable'))).toBe(true)
  expect(refused).toEqual(new Set([400, 401, 403, 404, 413, 415, 431, 503]))
  expect(heard.length).toBeGreaterThan(100)
  expect(heard.found()).toEqual([])
}, 90_000)
