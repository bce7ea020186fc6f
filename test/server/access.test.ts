/** Who may do what: every route of the served document, every scope, every way of being wrong. */
import type crypto from 'node:crypto'
import { createHash, timingSafeEqual } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from 'tocsin/server'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { SCOPES, type Scope } from '../../src/values/access-token.ts'
import { startRedis } from '../real-servers/redis-server.ts'
import { type Answer, TestServer } from './harness.ts'
import { raw, request } from './raw-socket.ts'

vi.mock('node:crypto', async (original) => {
  const real = await original<typeof crypto>()
  return { ...real, timingSafeEqual: vi.fn(real.timingSafeEqual) }
})

const ADMIN = 'admin-token-of-the-tests-0123456789'
const LOOK_EVERY_MS = 20

interface Expected {
  readonly scope: Scope | null
  readonly reach: 'topic' | 'filtered' | 'whole' | 'none'
  /** Status for `body` and `query` with sufficient access. */
  readonly right: number
  readonly body?: unknown
  readonly query?: string
}

/** The other half of the table: a route that is not here is red. */
const topic = (scope: Scope, right: number, body?: unknown): Expected => ({
  scope,
  reach: 'topic',
  right,
  body,
})
const T = '/v1/topics/{topic}'
const task = { delay: '1h', payload: 1 }
const ROUTES: Record<string, Expected> = {
  [`POST ${T}/tasks`]: topic('schedule', 201, task),
  [`GET ${T}/tasks`]: topic('read', 200),
  [`GET ${T}/tasks/{key}`]: topic('read', 404),
  [`PATCH ${T}/tasks/{key}`]: topic('schedule', 404, { delay: '1h' }),
  [`DELETE ${T}/tasks/{key}`]: topic('schedule', 404),
  [`POST ${T}/schedule`]: topic('schedule', 200, { tasks: [task] }),
  [`POST ${T}/cancel`]: topic('schedule', 200, { keys: ['none'] }),
  [`POST ${T}/reschedule`]: topic('schedule', 200, { keys: ['none'], delay: '1h' }),
  [`POST ${T}/claim`]: topic('consume', 200, { wait: '0s' }),
  [`POST ${T}/settle`]: topic('consume', 400, { tasks: [{ key: 'a', token: 'none', outcome: 'done' }] }),
  [`POST ${T}/extend`]: topic('consume', 400, { tasks: [{ key: 'a', token: 'none' }] }),
  [`GET ${T}`]: topic('read', 200),
  [`PUT ${T}`]: topic('admin', 200, {}),
  [`PATCH ${T}`]: topic('admin', 200, { batchSize: 7 }),
  [`POST ${T}/pause`]: topic('admin', 200, {}),
  [`POST ${T}/resume`]: topic('admin', 200, {}),
  [`POST ${T}/dead/replay`]: topic('admin', 200, { all: true }),
  [`POST ${T}/dead/purge`]: topic('admin', 200, { all: true }),
  'GET /v1/topics': { scope: 'read', reach: 'filtered', right: 200 },
  'GET /v1/stats': { scope: 'read', reach: 'filtered', right: 200 },
  'GET /v1/forecast': {
    scope: 'read',
    reach: 'filtered',
    right: 200,
    query: '?to=2100-01-01T00:00:00Z&step=36500d',
  },
  'GET /v1/audit': { scope: 'admin', reach: 'filtered', right: 200 },
  'GET /v1/events': { scope: 'read', reach: 'filtered', right: 200 },
  'GET /v1/nodes': { scope: 'read', reach: 'whole', right: 200 },
  'GET /metrics': { scope: 'read', reach: 'whole', right: 200 },
  'GET /v1/tokens': { scope: 'admin', reach: 'whole', right: 200 },
  'POST /v1/tokens': { scope: 'admin', reach: 'whole', right: 201, body: { name: 'made', scopes: ['read'] } },
  'POST /v1/tokens/{id}/rotate': { scope: 'admin', reach: 'whole', right: 404, body: {} },
  'DELETE /v1/tokens/{id}': { scope: 'admin', reach: 'whole', right: 404 },
  'GET /healthz': { scope: null, reach: 'none', right: 200 },
  'GET /readyz': { scope: null, reach: 'none', right: 200 },
  'GET /openapi.json': { scope: null, reach: 'none', right: 200 },
}

const WAYS = ['none', 'unknown', 'malformed', 'expired', 'revoked', 'wrong prefix', 'right'] as const
type Way = (typeof WAYS)[number]

/** By the rules alone: what a request has to be answered with. */
function due({ scope, reach, right }: Expected, has: Scope, way: Way): [status: number, code: string | null] {
  if (scope === null) return [right, null]
  if (way !== 'right' && way !== 'wrong prefix') return [401, 'unauthorized']
  if (has !== scope && has !== 'admin') return [403, 'forbidden']
  if (way === 'wrong prefix' && reach !== 'filtered') return [403, 'forbidden']
  return [right, null]
}

async function make(
  server: TestServer,
  more: object,
  as: string | null = ADMIN,
): Promise<{ id: string; token: string }> {
  const { status, json, text } = await server.post(
    '/v1/tokens',
    { name: 'a test', scopes: ['admin'], ...more },
    { token: as },
  )
  if (status !== 201) throw new Error(`no token: ${status} ${text}`)
  return json
}

/** Looks until it is so; how long that took. */
async function until(isSo: () => Promise<boolean>): Promise<number> {
  const startMs = performance.now()
  while (!(await isSo())) {
    if (performance.now() - startMs > 15_000) throw new Error('it did not come to pass')
    await sleep(LOOK_EVERY_MS)
  }
  return performance.now() - startMs
}

/** The audit needs books. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tocsin-access-'))
})
afterAll(() => rm(folder, { recursive: true }))
const ledgerOf = (name: string) => `sqlite:${join(folder, `${name}.db`)}`

const statusOf = async (server: TestServer, token: string | null, path = '/v1/topics') =>
  (await server.get(path, { token })).status

describe('the table', () => {
  let server: TestServer
  /** By way and scope. */
  const headers = new Map<string, Record<string, string>>()
  beforeAll(async () => {
    server = await TestServer.start({ adminToken: ADMIN, ledger: ledgerOf('table') })
    server.token = ADMIN
    await server.declare('orders')
    for (const scope of SCOPES) {
      const bear = (way: Way, token: string) =>
        headers.set(`${way} ${scope}`, { authorization: `Bearer ${token}` })
      headers.set(`none ${scope}`, {})
      bear('unknown', `tocsin_${'0'.repeat(12)}_${'A'.repeat(32)}`)
      const right = await make(server, { scopes: [scope] })
      bear('right', right.token)
      headers.set(`malformed ${scope}`, { authorization: `Basic ${right.token}` })
      const expired = await make(server, { scopes: [scope], expiresIn: '1ms' })
      bear('expired', expired.token)
      await until(async () => (await statusOf(server, expired.token)) === 401)
      const revoked = await make(server, { scopes: [scope] })
      await server.request('DELETE', `/v1/tokens/${revoked.id}`)
      bear('revoked', revoked.token)
      bear('wrong prefix', (await make(server, { scopes: [scope], topicPrefix: 'other' })).token)
    }
  })
  afterAll(() => server[Symbol.asyncDispose]())

  it('knows every route of the document, and no other', () => {
    const served = Object.entries(server.document.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(served.toSorted()).toEqual(Object.keys(ROUTES).toSorted())
  })

  for (const [route, expected] of Object.entries(ROUTES))
    it(route, async () => {
      const [method = '', template = ''] = route.split(' ')
      const path = template.replace('{topic}', 'orders').replace('{key}', 'none').replace('{id}', 'none')
      const wrong: string[] = []
      for (const way of WAYS)
        for (const scope of SCOPES) {
          const [status, code] = due(expected, scope, way)
          const { body, query = '' } = expected
          const own = headers.get(`${way} ${scope}`) as Record<string, string>
          const isStream = path === '/v1/events' && status === 200
          const given = isStream
            ? await opened(`${server.url}${path}`, own)
            : await server.request(method, `${path}${query}`, { headers: own, token: null, body })
          const got = `${given.status} ${status < 400 ? '' : given.json?.error.code}`
          const isRight = given.status === status && (code === null || given.json.error.code === code)
          const isTold =
            status !== 401 || given.headers.get('www-authenticate')?.startsWith('Bearer') === true
          if (!isRight || !isTold) wrong.push(`${way}, ${scope}: ${got}, expected ${status} ${code ?? ''}`)
        }
      expect(wrong).toEqual([])
    })

  it('HEAD is held to the same', async () => {
    for (const [path, status] of [
      ['/v1/topics', 401],
      ['/v1/tokens', 401],
      ['/healthz', 200],
    ] as const)
      expect([path, (await fetch(`${server.url}${path}`, { method: 'HEAD' })).status]).toEqual([path, status])
  })

  it('a method that a path does not take is refused with 401 first, where the path needs a token', async () => {
    for (const method of ['DELETE', 'OPTIONS']) {
      const refused = await server.request(method, '/v1/topics', { token: null })
      expect([method, refused.status, refused.json.error.code]).toEqual([method, 401, 'unauthorized'])
      expect(refused.headers.get('allow')).toBeNull()
      expect(refused.headers.get('www-authenticate')).toBe('Bearer')
    }
    const { token } = await make(server, { scopes: ['consume'], topicPrefix: 'other' })
    const allowed = await server.request('DELETE', '/v1/topics', { token })
    expect([allowed.status, allowed.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
    const open = await server.request('DELETE', '/healthz', { token: null })
    expect([open.status, open.headers.get('allow')]).toEqual([405, 'GET, HEAD, OPTIONS'])
    const { token: slow } = await make(server, { scopes: ['read'], rate: { limit: 1, per: '1h' } })
    expect((await server.request('DELETE', '/v1/topics', { token: slow })).status).toBe(405)
    expect((await server.request('DELETE', '/v1/topics', { token: slow })).status).toBe(429)
  })

  it('whatever is no bearer token is refused alike', async () => {
    const { token } = await make(server, {})
    const lines = [
      'Bearer',
      'Bearer ',
      token,
      `Basic ${token}`,
      `Bearer ${token} x`,
      `Bearer ${token},x`,
      `Bearer  ${token}`,
    ]
    lines.push(
      `Bearer ${token.slice(0, -1)}`,
      `Bearer ${token}A`,
      `Bearer ${token.toUpperCase()}`,
      `Bearer ${'x'.repeat(8_000)}`,
    )
    lines.push(
      `Bearer ${ADMIN}x`,
      'Bearer __proto__',
      'Bearer tocsin_constructor0_x',
      `Token token=${token}`,
      'Bearer lock',
    )
    for (const authorization of lines) {
      const answer = await server.get('/v1/topics', { token: null, headers: { authorization } })
      expect([authorization, answer.status, answer.json.error.code]).toEqual([
        authorization,
        401,
        'unauthorized',
      ])
      expect(answer.text).not.toContain(token)
    }
    expect(await statusOf(server, null, '/v1/topics?access_token=x')).toBe(401)
    const small = { authorization: `bearer ${token}` }
    expect((await server.get('/v1/topics', { token: null, headers: small })).status).toBe(200)
  })
})

/** Only its head: the rest never ends. */
async function opened(url: string, headers: Record<string, string>): Promise<Answer> {
  const gone = new AbortController()
  const { status, headers: answered } = await fetch(url, { headers, signal: gone.signal })
  gone.abort()
  return { status, headers: answered, text: '', json: null }
}

describe('without tokens', () => {
  it('this machine may come in, and pages of other sites may not', async () => {
    await using server = await TestServer.start()
    const { port } = new URL(server.url)
    const ask = (headers: Record<string, string>, path = '/v1/topics') =>
      raw(server.url, request(server.url, 'GET', path, { headers }))
    for (const host of [
      'localhost',
      `localhost:${port}`,
      '127.0.0.1',
      `127.0.0.1:${port}`,
      '[::1]:1',
      'LOCALHOST',
    ])
      expect([host, (await ask({ host })).status]).toEqual([host, 200])
    const foreign = [
      'evil.example',
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      '',
      '0.0.0.0',
      '127.0.0.1:1:2',
      '127.1',
      '[::2]',
    ]
    for (const host of [
      ...foreign,
      'localhost:80@evil.example',
      'evil.example:80/localhost',
      '2130706433',
      'localhost.',
    ])
      expect([host, await ask({ host })]).toMatchObject([
        host,
        { status: 403, json: { error: { code: 'forbidden' } } },
      ])
    const host = `127.0.0.1:${port}`
    expect((await ask({ host, origin: `http://${host}` })).status).toBe(200)
    for (const origin of [
      'http://evil.example',
      'null',
      '',
      `https://${host}`,
      'http://127.0.0.1',
      `http://localhost:${port}`,
    ])
      expect([origin, (await ask({ host, origin })).status]).toEqual([origin, 403])
    expect((await ask({ host, 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await ask({ host, 'sec-fetch-site': 'same-origin' })).status).toBe(200)
    // Public paths do not check the host.
    expect((await ask({ host: 'evil.example' }, '/healthz')).status).toBe(200)
  })

  it('the first token locks the door, and revoking the last does not open it, not even to a server that starts later', async () => {
    const ledger = ledgerOf('lock')
    {
      await using server = await TestServer.start({ ledger })
      expect(await statusOf(server, null)).toBe(200)
      const { id, token } = await make(server, {}, null)
      expect(await statusOf(server, null)).toBe(401)
      expect(await statusOf(server, token)).toBe(200)
      const { json } = await server.get('/v1/tokens', { token })
      expect(json.tokens.map((one: { id: string }) => one.id)).toEqual([id])
      for (const hidden of ['lock', 'environment'])
        expect((await server.request('DELETE', `/v1/tokens/${hidden}`, { token })).status).toBe(404)
      expect((await server.request('DELETE', `/v1/tokens/${id}`, { token })).status).toBe(200)
      for (const one of [null, token]) expect(await statusOf(server, one)).toBe(401)
    }
    await using later = await TestServer.start({ ledger })
    expect(await statusOf(later, null)).toBe(401)
  })

  it('the first token must be able to create others, so that the server is not locked', async () => {
    await using server = await TestServer.start()
    for (const grant of [{ scopes: ['read', 'schedule'] }, { scopes: ['admin'], topicPrefix: 'shop.' }]) {
      const { status, json } = await server.post('/v1/tokens', { name: 'first', ...grant })
      expect([status, json.error.code, json.error.field]).toEqual([400, 'bad-request', 'scopes'])
    }
    expect(await statusOf(server, null)).toBe(200)
    const { token } = await make(server, { scopes: ['admin'] }, null)
    await make(server, { scopes: ['read'] }, token)
    expect(await statusOf(server, token)).toBe(200)
  })

  it('who forgets to write Bearer is told', async () => {
    await using server = await TestServer.start({ adminToken: ADMIN })
    const { status, json } = await server.get('/v1/topics', {
      headers: { authorization: ADMIN },
      token: null,
    })
    expect(status).toBe(401)
    expect(json.error.message).toContain("write 'Bearer', a space, and the token")
  })

  it('no door to the network is opened', async () => {
    const open = { host: '0.0.0.0', port: 0, timetable: 'memory:', logLevel: 'silent' } as const
    for (const host of ['0.0.0.0', '::', '127.0.0.1.evil.example', ''])
      await expect(serve({ ...open, host }), host).rejects.toMatchObject({
        code: 'bad-option',
        details: { field: 'host' },
      })
    for (const adminToken of ['', 'short', 'with spaces and more spaces', 'ümläute-and-more-of-them'])
      await expect(serve({ ...open, adminToken }), adminToken).rejects.toMatchObject({ code: 'bad-option' })
    await using served = await serve({ ...open, adminToken: ADMIN })
    const url = served.url.replace('0.0.0.0', '127.0.0.1')
    expect((await fetch(`${url}/v1/topics`)).status).toBe(401)
    expect((await fetch(`${url}/v1/topics`, { headers: { authorization: `Bearer ${ADMIN}` } })).status).toBe(
      200,
    )
  })
})

describe('tokens', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await TestServer.start({ adminToken: ADMIN, bodyBytesMax: 2_000, ledger: ledgerOf('tokens') })
    server.token = ADMIN
    await server.declare('shop-a.orders')
    await server.declare('shop-b.orders')
  })
  afterAll(() => server[Symbol.asyncDispose]())

  it('are long, recognisable, each another, and only their SHA-256 is kept', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => make(server, {})))
    expect(new Set(made.map(({ token }) => token)).size).toBe(20)
    const kept = await server.served.toc.accessTokenBoard.tokens()
    const listed = await server.get('/v1/tokens')
    for (const { id, token } of made) {
      const secret = /^tocsin_[a-z0-9]{12}_([A-Za-z0-9_-]{32})$/.exec(token)?.[1] as string
      expect(Buffer.from(secret, 'base64url').length * 8).toBeGreaterThanOrEqual(160)
      const hash = createHash('sha256').update(token).digest('hex')
      expect(kept.find((one) => one.id === id)).toMatchObject({ hash })
      expect(JSON.stringify(kept)).not.toContain(secret)
      expect(listed.text).not.toContain(secret)
      expect(listed.text).not.toContain(hash)
      expect(server.log.join('')).not.toContain(secret)
    }
    expect(JSON.stringify(kept)).not.toContain(ADMIN)
  })

  it('are compared in constant time, over digests of equal length, whether they are known or not', async () => {
    const compare = vi.mocked(timingSafeEqual)
    const { token } = await make(server, {})
    for (const given of [
      token,
      `${token.slice(0, -1)}_`,
      ADMIN,
      `tocsin_${'0'.repeat(12)}_${'A'.repeat(32)}`,
      'x',
    ]) {
      compare.mockClear()
      await server.get('/v1/topics', { token: given })
      expect(compare.mock.calls.map((digests) => digests.map(({ byteLength }) => byteLength))).toEqual([
        [32, 32],
      ])
    }
  })

  it('are refused where they could do no good', async () => {
    const wrong: [object, string, string][] = [
      [{ scopes: [] }, 'bad-request', 'scopes'],
      [{ scopes: ['root'] }, 'bad-request', 'scopes[0]'],
      [{ scopes: ['read', 'read'] }, 'bad-request', 'scopes'],
      [{ name: '' }, 'bad-request', 'name'],
      [{ name: 'a\u0000b' }, 'bad-request', 'name'],
      [{ name: '\ud800' }, 'bad-request', 'name'],
      [{ topicPrefix: '' }, 'bad-request', 'topicPrefix'],
      [{ topicPrefix: 'A{b}' }, 'bad-request', 'topicPrefix'],
      [{ expiresIn: '0s' }, 'bad-duration', 'expiresIn'],
      [{ expiresIn: '5' }, 'bad-duration', 'expiresIn'],
      [{ rate: { limit: 1, per: '0s' } }, 'bad-duration', 'rate.per'],
      [{ rate: { limit: 0, per: '1s' } }, 'bad-request', 'rate.limit'],
      [{ bodyBytesMax: 0 }, 'bad-request', 'bodyBytesMax'],
      [{ hash: 'mine' }, 'bad-request', 'hash'],
    ]
    const before = (await server.served.toc.accessTokenBoard.tokens()).length
    for (const [more, code, field] of wrong) {
      const { status, json } = await server.post('/v1/tokens', { name: 'x', scopes: ['read'], ...more })
      expect([more, status, json.error]).toMatchObject([more, 400, { code, field }])
    }
    expect(await server.served.toc.accessTokenBoard.tokens()).toHaveLength(before)
  })

  it('are rotated with an overlap, in which both work', async () => {
    const old = await make(server, { scopes: ['read'], topicPrefix: 'shop-a' })
    const startMs = performance.now()
    const rotated = await server.post(`/v1/tokens/${old.id}/rotate`, { overlap: '400ms' })
    expect(rotated).toMatchObject({ status: 201, json: { scopes: ['read'], topicPrefix: 'shop-a' } })
    expect(rotated.json.id).not.toBe(old.id)
    expect(await statusOf(server, rotated.json.token)).toBe(200)
    await until(async () => (await statusOf(server, old.token)) === 401)
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(400)
    expect(await statusOf(server, rotated.json.token)).toBe(200)
    expect(await statusOf(server, rotated.json.token, '/v1/topics/shop-b.orders')).toBe(403)
  })

  it('an overlap does not lengthen a life', async () => {
    const old = await make(server, { expiresIn: '1h' })
    await server.post(`/v1/tokens/${old.id}/rotate`, { overlap: '36500d' })
    const { json } = await server.get('/v1/tokens')
    const { createdAt, expiresAt } = json.tokens.find(({ id }: { id: string }) => id === old.id)
    const lifeMs = Date.parse(expiresAt) - Date.parse(createdAt)
    // The clock is read once for each.
    expect(lifeMs).toBeLessThanOrEqual(3_600_000)
    expect(lifeMs).toBeGreaterThan(3_590_000)
  })

  it('are held to their rate, and told when to come again', async () => {
    const { token } = await make(server, { rate: { limit: 3, per: '1m' } })
    const other = await make(server, {})
    for (let n = 0; n < 3; n++) expect(await statusOf(server, token)).toBe(200)
    const limited = await server.get('/v1/topics', { token })
    expect(limited).toMatchObject({ status: 429, json: { error: { code: 'rate-limited', retryable: true } } })
    const seconds = Number(limited.headers.get('retry-after'))
    expect(seconds).toBeGreaterThan(30)
    expect(seconds).toBeLessThanOrEqual(61)
    expect(await statusOf(server, other.token)).toBe(200)
    // Nor does it help to ask for what one may not have, or for what is wrong.
    expect(await statusOf(server, token, '/v1/tokens')).toBe(429)
  })

  it('what has no rate of its own is held to the server’s, each for itself', async () => {
    await using limited = await TestServer.start({ adminToken: ADMIN, rate: { limit: 2, per: '1m' } })
    const { token } = await make(limited, { rate: { limit: 100, per: '1m' } })
    const usual = await make(limited, {})
    expect(await statusOf(limited, ADMIN)).toBe(429)
    const statuses = async (one: string) => [
      await statusOf(limited, one),
      await statusOf(limited, one),
      await statusOf(limited, one),
    ]
    expect(await statuses(token)).toEqual([200, 200, 200])
    expect(await statuses(usual.token)).toEqual([200, 200, 429])
  })

  it('may send bodies up to their own size, and up to the server’s, also without saying how large', async () => {
    const { token } = await make(server, { bodyBytesMax: 300 })
    const path = '/v1/topics/shop-a.orders/tasks'
    const bodyOf = (bytes: number) => JSON.stringify({ delay: '1h', payload: 'x'.repeat(bytes) })
    const send = (bearer: string, bytes: number) =>
      server.request('POST', path, {
        token: bearer,
        raw: bodyOf(bytes),
        headers: { 'content-type': 'application/json' },
      })
    const stream = (bearer: string, bytes: number) => {
      const headers = {
        authorization: `Bearer ${bearer}`,
        'content-type': 'application/json',
        'transfer-encoding': 'chunked',
      }
      const pieces = bodyOf(bytes).match(/.{1,100}/g) as string[]
      const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
      return raw(server.url, [...request(server.url, 'POST', path, { headers }), ...chunks, '0\r\n\r\n'])
    }
    for (const way of [send, stream]) {
      expect((await way(token, 200)).status).toBe(201)
      expect(await way(token, 400)).toMatchObject({ status: 413, json: { error: { code: 'too-large' } } })
      expect((await way(ADMIN, 1_500)).status).toBe(201)
      expect(await way(ADMIN, 2_500)).toMatchObject({ status: 413, json: { error: { code: 'too-large' } } })
    }
  })

  describe('of some topics', () => {
    let token: string
    beforeAll(async () => {
      token = (await make(server, { topicPrefix: 'shop-a' })).token
      for (const name of ['a', 'b'])
        await server.post(`/v1/topics/shop-${name}.orders/tasks`, {
          key: 'far',
          at: '2090-01-01T00:00:00Z',
          payload: 1,
        })
    })

    it('see their own alone', async () => {
      const names = ({ json }: Answer) => json.topics.map((one: { topic: string }) => one.topic)
      for (const path of [
        '/v1/topics',
        '/v1/stats',
        '/v1/forecast?to=2100-01-01T00:00:00Z&step=36500d',
        '/v1/audit',
      ]) {
        expect([path, names(await server.get(path))]).toEqual([path, ['shop-a.orders', 'shop-b.orders']])
        const seen = await server.get(path, { token })
        expect([path, names(seen)]).toEqual([path, ['shop-a.orders']])
        expect(seen.text).not.toContain('shop-b')
      }
      const [all, own] = [await server.get('/v1/stats'), await server.get('/v1/stats', { token })]
      expect(all.json.total.pending).toBeGreaterThan(own.json.total.pending)
      expect(own.json.total.pending).toBe(own.json.topics[0].pending)
    })

    it('do not reach others by a query', async () => {
      const forecast = '/v1/forecast?to=2100-01-01T00:00:00Z&step=36500d'
      for (const path of [
        '/v1/stats?topic=shop-b.orders',
        `${forecast}&topic=shop-b.orders`,
        '/v1/events?topic=shop-b.orders',
      ])
        expect([path, await server.get(path, { token })]).toMatchObject([
          path,
          { status: 403, json: { error: { code: 'forbidden' } } },
        ])
      for (const path of ['/v1/nodes', '/metrics', '/v1/tokens'])
        expect([path, await statusOf(server, token, path)]).toEqual([path, 403])
      expect(await server.post('/v1/tokens', { name: 'more', scopes: ['admin'] }, { token })).toMatchObject({
        status: 403,
      })
    })

    it('are not told the names of others where a topic is unknown', async () => {
      await server.declare('shop-b.unique')
      const { status, text } = await server.get('/v1/topics/shop-a.unique', { token })
      expect([status, text.includes('shop-b')]).toEqual([404, false])
      expect((await server.get('/v1/topics/shop-a.unique')).text).toContain('shop-b.unique')
    })

    it('declare topics of their own and no others', async () => {
      const put = (name: string) => server.request('PUT', `/v1/topics/${name}`, { token, body: {} })
      expect((await put('shop-a.new')).status).toBe(201)
      expect((await put('shop-c')).status).toBe(403)
      expect(server.served.toc.topicNames()).not.toContain('shop-c')
      await server.served.toc.refreshTopics()
    })

    it('hear of their own alone', async () => {
      const gone = new AbortController()
      const listen = async (bearer: string) => {
        const headers = { authorization: `Bearer ${bearer}` }
        const { body } = await fetch(`${server.url}/v1/events?type=config`, { headers, signal: gone.signal })
        const heard = { text: '' }
        const reading = (async () => {
          for await (const chunk of body as unknown as AsyncIterable<Uint8Array>)
            heard.text += Buffer.from(chunk).toString()
        })().catch(() => {})
        await until(async () => heard.text.includes('listening'))
        return { heard, reading }
      }
      const [own, all] = [await listen(token), await listen(ADMIN)]
      await server.post('/v1/topics/shop-b.orders/pause')
      await server.post('/v1/topics/shop-a.orders/pause')
      await until(
        async () => own.heard.text.includes('shop-a.orders') && all.heard.text.includes('shop-a.orders'),
      )
      expect(all.heard.text).toContain('shop-b.orders')
      expect(own.heard.text).not.toContain('shop-b')
      gone.abort()
      await Promise.all([own.reading, all.reading])
    })
  })
})

it('what is revoked on one server is good for nothing on the other a second later, and a first token locks both', async () => {
  await using redis = await startRedis()
  await using one = await TestServer.start({ timetable: redis.url })
  await using other = await TestServer.start({ timetable: redis.url })
  expect([await statusOf(one, null), await statusOf(other, null)]).toEqual([200, 200])
  const { id, token } = await make(one, {}, null)
  const { token: admin } = await make(one, {}, token)
  await until(async () => (await statusOf(other, null)) === 401)
  expect(await statusOf(other, token)).toBe(200)
  await one.request('DELETE', `/v1/tokens/${id}`, { token: admin })
  expect(await statusOf(one, token)).toBe(401)
  const tookMs = await until(async () => (await statusOf(other, token)) === 401)
  // A second, and what a busy machine adds.
  expect(tookMs).toBeLessThan(3_000)
  expect(await statusOf(other, admin)).toBe(200)
  const keys = (await redis.cli('KEYS', '*token*')).split('\n')
  const kept = (await Promise.all(keys.map((key) => redis.cli('HVALS', key)))).join('\n')
  expect(kept).toContain(createHash('sha256').update(admin).digest('hex'))
  expect(kept).not.toContain(admin.split('_').slice(2).join('_'))
})
