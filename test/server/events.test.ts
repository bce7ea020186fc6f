import { pino } from 'pino'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../src/clock.ts'
import { systemRandom } from '../../src/random.ts'
import { Metrics } from '../../src/server/metrics.ts'
import { buildServer } from '../../src/server/server.ts'
import { TokenBook } from '../../src/server/token-book.ts'
import { startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'
import { EventReader } from './event-reader.ts'
import { TestServer } from './harness.ts'

let server: TestServer
beforeAll(async () => {
  server = await TestServer.start()
})
afterAll(() => server[Symbol.asyncDispose]())

let topics = 0
async function topicOf(config: object = {}, at = server): Promise<string> {
  const name = `events-${++topics}`
  await at.declare(name, config)
  return name
}

/** Schedules tasks that are due, claims them, and says how each of them went. */
async function goThrough(topic: string, keys: readonly string[], how: object): Promise<void> {
  const tasks = keys.map((key) => ({ key, delay: '0s', payload: null }))
  await server.post(`/v1/topics/${topic}/schedule`, { tasks })
  for (let left = keys.length; left > 0;) {
    const { json } = await server.post(`/v1/topics/${topic}/claim`, {
      limit: Math.min(left, 1_000),
      wait: '10s',
    })
    const claimed = json.tasks as { key: string; token: string }[]
    if (claimed.length === 0) continue
    await server.post(`/v1/topics/${topic}/settle`, {
      tasks: claimed.map(({ key, token }) => ({ key, token, ...how })),
    })
    left -= claimed.length
  }
}

describe('events', () => {
  it('a retry, a death, a task that was late, a change of settings', async () => {
    const topic = await topicOf({
      retry: { maxAttempts: 2, min: '1ms', max: '1ms', jitter: 0 },
      objective: { p99: '1ms' },
    })
    using reader = await EventReader.read(server.url, `?topic=${topic}`)
    expect(reader.response.headers['content-type']).toBe('text/event-stream')
    expect(reader.response.headers['cache-control']).toBe('no-store')
    await server.post(`/v1/topics/${topic}/tasks`, { key: 'a', at: '2020-01-01T00:00:00Z', payload: null })
    for (const reason of ['first', 'second']) {
      const [task] = (await server.post(`/v1/topics/${topic}/claim`, { wait: '10s' })).json.tasks
      const told = [{ key: 'a', token: task.token, outcome: 'retry', reason }]
      await server.post(`/v1/topics/${topic}/settle`, { tasks: told })
    }
    await server.request('PATCH', `/v1/topics/${topic}`, { body: { lease: '45s' } })
    await expect.poll(() => reader.of('config').length).toBeGreaterThan(0)
    expect(reader.of('retry').map(({ data }) => data)).toMatchObject([
      { topic, key: 'a', attempt: 1, error: 'first' },
    ])
    expect(reader.of('dead').map(({ data }) => data)).toMatchObject([
      { topic, key: 'a', cause: 'attempts', error: 'second' },
    ])
    expect(reader.of('late')[0]?.data).toMatchObject({ topic, key: 'a', objectiveMs: 1 })
    expect(reader.of('config').at(-1)?.data).toMatchObject({
      topic,
      effective: { lease: '45s' },
      paused: false,
    })
    expect(reader.comments[0]).toBe(': listening')
  })

  it('only of the topic and of the type that was asked for', async () => {
    const [topic, other] = [await topicOf(), await topicOf()]
    using ofTopic = await EventReader.read(server.url, `?topic=${topic}`)
    using ofType = await EventReader.read(server.url, '?type=dead')
    using ofBoth = await EventReader.read(server.url, `?topic=${topic}&type=retry`)
    await goThrough(other, ['x'], { outcome: 'dead' })
    await goThrough(other, ['y'], { outcome: 'retry', delay: '1h' })
    await goThrough(topic, ['a'], { outcome: 'dead' })
    await goThrough(topic, ['b'], { outcome: 'retry', delay: '1h' })
    await expect.poll(() => ofBoth.of('retry').length).toBe(1)
    const keysOf = (reader: EventReader) =>
      reader.seen.flatMap(({ name, data }) =>
        name === 'dead' || name === 'retry' ? [`${name} ${data.key}`] : [],
      )
    await expect.poll(() => keysOf(ofTopic)).toEqual(['dead a', 'retry b'])
    await expect.poll(() => keysOf(ofType)).toEqual(['dead x', 'dead a'])
    expect(keysOf(ofBoth)).toEqual(['retry b'])
    expect(ofType.seen.every(({ name }) => name === null || name === 'dead')).toBe(true)
  })

  it('of a type that there is none of is refused', async () => {
    const answer = await server.get('/v1/events?type=deat')
    expect([answer.status, answer.json.error.code]).toEqual([400, 'bad-request'])
  })

  it('a token of some topics sees these', async () => {
    await using locked = await TestServer.start({ adminToken: 'a-secret-of-some-length' })
    locked.token = 'a-secret-of-some-length'
    await locked.declare('mine.a')
    await locked.declare('theirs.a')
    const { json } = await locked.post('/v1/tokens', { name: 'x', scopes: ['read'], topicPrefix: 'mine.' })
    const refused = await locked.get('/v1/events?topic=theirs.a', { token: json.token })
    expect([refused.status, refused.json.error.code]).toEqual([403, 'forbidden'])
    const gone = new AbortController()
    const headers = { authorization: `Bearer ${json.token}` }
    const stream = await fetch(`${locked.url}/v1/events`, { headers, signal: gone.signal })
    const chunks = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    for (const topic of ['theirs.a', 'mine.a']) await locked.post(`/v1/topics/${topic}/pause`)
    while (!text.includes('mine.a')) text += (await chunks.read()).value
    expect(text).not.toContain('theirs.a')
    gone.abort()
  })

  it('HEAD gets no stream', async () => {
    const { status } = await fetch(`${server.url}/v1/events`, { method: 'HEAD' })
    expect(status).toBe(200)
    await using other = await TestServer.start()
    await fetch(`${other.url}/v1/events`, { method: 'HEAD' })
  })
})

it('a client that reads too slowly gets the number of missed events', { timeout: 60_000 }, async () => {
  const topic = await topicOf()
  using reader = await EventReader.open(server.url, `?topic=${topic}&type=dead`)
  const count = 12_000
  const keys = Array.from({ length: count }, (_, n) => `k${n}-${'x'.repeat(200)}`)
  for (let at = 0; at < count; at += 3_000)
    await goThrough(topic, keys.slice(at, at + 3_000), { outcome: 'dead', reason: 'y'.repeat(2_000) })
  reader.read()
  const told = () => reader.of('dead').length
  await expect.poll(told, { timeout: 10_000 }).toBeGreaterThan(0)
  let before = -1
  await expect.poll(() => before === (before = told()), { interval: 300, timeout: 20_000 }).toBe(true)
  await goThrough(topic, ['last'], { outcome: 'dead' })
  await expect.poll(() => reader.of('dead').some(({ data }) => data.key === 'last')).toBe(true)
  const missed = reader.of('missed').reduce((sum, { data }) => sum + (data.count ?? 0), 0)
  expect(missed).toBeGreaterThan(0)
  expect(told() + missed).toBe(count + 1)
})

it('an error is told by its code, without a stack', { timeout: 60_000 }, async () => {
  await using redis = await startRedis()
  await using proxy = await startProxy(redis)
  await using other = await TestServer.start({ timetable: proxy.url(redis.url) })
  const topic = await topicOf({}, other)
  using reader = await EventReader.read(other.url, '?type=error')
  const gone = new AbortController()
  const waiting = other
    .post(`/v1/topics/${topic}/claim`, { wait: '30s' }, { signal: gone.signal })
    .catch(() => null)
  await expect
    .poll(async () => (await other.get('/metrics')).text)
    .toContain(`tocsin_waiting_claims{topic="${topic}"} 1`)
  proxy.refuse()
  proxy.cut()
  await expect.poll(() => reader.of('error').length, { timeout: 20_000 }).toBeGreaterThan(0)
  for (const { data, text } of reader.of('error')) {
    expect(data).toMatchObject({
      doing: expect.any(String),
      error: { code: expect.any(String), message: expect.any(String) },
    })
    expect(Object.keys(data.error ?? {})).toEqual(['code', 'message'])
    expect(text).not.toMatch(/\\n\s+at |node_modules|\.ts:|\.js:/)
  }
  await proxy.accept()
  gone.abort()
  await waiting
})

it('pings keep an idle stream open', async () => {
  const soon: Clock = {
    ...systemClock,
    after: (ms, ring, isBackground) => systemClock.after(ms === 15_000 ? 10 : ms, ring, isBackground),
  }
  await using toc = await Tocsin.open({ timetable: 'memory:', logger: false })
  const app = await buildServer({
    toc,
    book: new TokenBook(toc.accessTokenBoard, soon, systemRandom, null),
    metrics: new Metrics(soon),
    clock: soon,
    random: systemRandom,
    logger: pino({ level: 'silent' }),
    isLoopback: true,
    rate: null,
    bodyBytesMax: 1_000_000,
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  using reader = await EventReader.read(url)
  await expect.poll(() => reader.comments.length).toBeGreaterThan(3)
  expect(new Set(reader.comments)).toEqual(new Set([': listening', ': ping']))
  await app.close()
})

it('ends when the server closes', async () => {
  const other = await TestServer.start()
  using reader = await EventReader.read(other.url)
  await expect.poll(() => reader.comments.length).toBe(1)
  await other.served.close()
  await reader.ended
  expect(reader.response.complete).toBe(true)
})
