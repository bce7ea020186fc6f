/** What a caller is told when it goes wrong, and whether to try again. */
import { TocsinClient } from 'tocsin/client'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { freePort } from '../real-servers/free-port.ts'
import { type Pair, refusalOf, startPair, STARTS_WITHIN_MS } from './harness.ts'
import { answering, httpServer, silentServer } from './strange-server.ts'

const TASK = { key: 'k', delay: '1h', payload: 0 }
const JSON_TYPE = { 'content-type': 'application/json' }
const HTML = { 'content-type': 'text/html' }

let pair: Pair
beforeAll(async () => {
  pair = await startPair()
}, STARTS_WITHIN_MS)
afterAll(() => pair.close())

const clientOf = (url: string, timeout: string | number = '10s') => new TocsinClient({ url, timeout })

describe('a server that is not there', () => {
  it('is unreachable, also for writes: nothing was sent', async () => {
    const client = clientOf(`http://127.0.0.1:${await freePort()}`)
    const read = await refusalOf(client.topics())
    expect(read).toMatchObject({ code: 'unreachable', retryable: true, message: /connection refused/ })
    expect(await refusalOf(client.topic('t').schedule(TASK))).toMatchObject({ code: 'unreachable' })
    expect(await refusalOf(client.topic('t').scheduleMany([TASK].values()))).toMatchObject({
      code: 'unreachable',
    })
    expect(await refusalOf(client.ready())).toMatchObject({ code: 'unreachable' })
    const events = client.events()
    expect(await refusalOf(events.next())).toMatchObject({ code: 'unreachable' })
  })

  it('has an unknown host name', async () => {
    const client = clientOf('http://no-such-host.invalid:7420')
    const error = await refusalOf(client.topic('t').schedule(TASK))
    expect(error).toMatchObject({ code: 'unreachable', message: /host not found/ })
  })
})

describe('a server that does not answer', () => {
  it('times out at the deadline: reads may be retried, the outcome of writes is unknown', async () => {
    await using server = await silentServer()
    const client = clientOf(server.url, 50)
    const topic = client.topic('t')
    expect(await refusalOf(client.stats())).toMatchObject({
      code: 'unreachable',
      retryable: true,
      message: /no answer within 50ms/,
    })
    expect(await refusalOf(topic.schedule(TASK))).toMatchObject({ code: 'unknown-outcome', retryable: false })
    expect(await refusalOf(topic.cancel('k'))).toMatchObject({ code: 'unknown-outcome' })
    // What may be repeated says so.
    expect(await refusalOf(topic.claim())).toMatchObject({ code: 'unreachable' })
    expect(await refusalOf(topic.settle([{ key: 'k', token: 't', outcome: 'done' }]))).toMatchObject({
      code: 'unreachable',
    })
    expect(await refusalOf(topic.extend([{ key: 'k', token: 't' }]))).toMatchObject({ code: 'unreachable' })
    expect(await refusalOf(client.events().next())).toMatchObject({ code: 'unreachable' })
  })

  it('is given up also in the middle of an answer', async () => {
    await using server = await httpServer(
      (_, response) => void response.writeHead(200, JSON_TYPE).write('{"top'),
    )
    expect(await refusalOf(clientOf(server.url, 50).topics())).toMatchObject({ code: 'unreachable' })
  })

  it('is waited for when it was asked to wait', async () => {
    await using server = await httpServer((request, response) => {
      request.resume()
      setTimeout(() => response.writeHead(200, JSON_TYPE).end('{"tasks":[]}'), 300)
    })
    expect(await clientOf(server.url, 100).topic('t').claim({ wait: '5s' })).toEqual([])
  })

  it('cuts the connection', async () => {
    await using server = await silentServer((socket) => socket.once('data', () => socket.destroy()))
    const client = clientOf(server.url)
    expect(await refusalOf(client.topics())).toMatchObject({ code: 'unreachable' })
    expect(await refusalOf(client.topic('t').schedule(TASK))).toMatchObject({ code: 'unknown-outcome' })
  })
})

describe('a call that is not wanted any more', () => {
  it('ends with the reason that was given, and hangs up', async () => {
    await pair.client.declare('t')
    const topic = pair.client.topic('t')
    const stop = new AbortController()
    const reason = new Error('shutting down')
    const claiming = topic.claim({ wait: '60s', signal: stop.signal })
    setTimeout(() => stop.abort(reason), 50)
    await expect(claiming).rejects.toBe(reason)
    await expect(topic.claim({ signal: stop.signal })).rejects.toBe(reason)
    // Once the server has noticed the disconnect, the next client gets the task.
    await vi.waitFor(async () =>
      expect(await pair.client.metrics()).toContain('tocsin_waiting_claims{topic="t"} 0'),
    )
    await topic.schedule({ key: 'k', delay: 0, payload: 0 })
    expect(await topic.claim({ wait: '5s' })).toHaveLength(1)
  })

  it('leaves nothing on a signal that serves many', async () => {
    await using server = await answering(200, JSON_TYPE, '{"tasks":[]}')
    const { signal } = new AbortController()
    let listeners = 0
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args))
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (listeners--, remove(...args))
    const topic = clientOf(server.url).topic('t')
    for (let n = 0; n < 5; n++) await topic.claim({ signal })
    expect(listeners).toBe(0)
  })
})

describe('a refusal', () => {
  it('comes with the code, the message and the details of the server', async () => {
    await pair.client.declare('order.unpaid')
    const error = await refusalOf(pair.client.topic('order.unpiad').schedule(TASK))
    expect(error).toMatchObject({
      code: 'unknown-topic',
      status: 404,
      retryable: false,
      details: {
        field: 'topic',
        hint: "did you mean 'order.unpaid'?",
        requestId: expect.any(String) as string,
      },
    })
    // A topic that is not there is not a task that is not there.
    expect(await refusalOf(pair.client.topic('order.unpiad').cancel('k'))).toMatchObject({
      code: 'unknown-topic',
    })
    expect(await refusalOf(pair.client.topic('order.unpiad').get('k'))).toMatchObject({
      code: 'unknown-topic',
    })
  })

  it('of a wrong token shows nothing of it', async () => {
    await using locked = await startPair({ adminToken: 'the-admin-token-of-this-server' })
    const secret = 'tocsin_aaaaaaaaaaaa_0123456789012345678901234567890123456789'
    const client = new TocsinClient({ url: locked.url, token: secret })
    const error = await refusalOf(client.topics())
    expect(error).toMatchObject({ code: 'unauthorized', status: 401, retryable: false })
    const { inspect } = await import('node:util')
    expect(inspect(error, { depth: 9 }) + inspect(client, { depth: 9 })).not.toContain('0123456789')
  })

  it('of too many requests says how long to wait', async () => {
    await using locked = await startPair({
      adminToken: 'the-admin-token-of-this-server',
      rate: { limit: 1, per: '1h' },
    })
    const admin = new TocsinClient({ url: locked.url, token: 'the-admin-token-of-this-server' })
    await admin.topics()
    const error = await refusalOf(admin.topics())
    expect(error).toMatchObject({ code: 'rate-limited', retryable: true })
    expect(error.details['retryInMs']).toBeGreaterThan(3_000_000)
  })

  it('may come from a proxy', async () => {
    await using limiter = await answering(429, { ...HTML, 'retry-after': '7' }, '<h1>slow down</h1>')
    expect(await refusalOf(clientOf(limiter.url).topic('t').schedule(TASK))).toMatchObject({
      code: 'rate-limited',
      details: { status: 429, retryInMs: 7_000 },
    })
    await using missing = await answering(404, HTML, '<h1>not here</h1>')
    const topic = clientOf(missing.url).topic('t')
    expect(await refusalOf(topic.cancel('k'))).toMatchObject({
      code: 'bad-request',
      message: /not by Tocsin/,
    })
    expect(await refusalOf(topic.get('k'))).toMatchObject({ code: 'bad-request' })
    await using broken = await answering(502, HTML, '<h1>bad gateway</h1>')
    expect(await refusalOf(clientOf(broken.url).topics())).toMatchObject({ code: 'unreachable' })
    expect(await refusalOf(clientOf(broken.url).topic('t').schedule(TASK))).toMatchObject({
      code: 'unknown-outcome',
    })
    await using away = await answering(503, HTML, '')
    expect(await refusalOf(clientOf(away.url).topic('t').schedule(TASK))).toMatchObject({
      code: 'unreachable',
    })
  })

  it('with a code of a newer server goes by its status', async () => {
    const body = (retryable: boolean) =>
      JSON.stringify({ error: { code: 'brand-new', message: 'what now', retryable } })
    await using client4 = await answering(422, JSON_TYPE, body(false))
    expect(await refusalOf(clientOf(client4.url).topics())).toMatchObject({
      code: 'bad-request',
      message: 'brand-new: what now',
      details: { status: 422 },
    })
    await using server5 = await answering(507, JSON_TYPE, body(true))
    expect(await refusalOf(clientOf(server5.url).topic('t').schedule(TASK))).toMatchObject({
      code: 'unreachable',
    })
    await using inherited = await answering(400, JSON_TYPE, '{"error":{"code":"constructor","message":"x"}}')
    expect(await refusalOf(clientOf(inherited.url).topics())).toMatchObject({ code: 'bad-request' })
  })

  it('of a path that is not there is not taken for a task that is not there', async () => {
    const topic = clientOf(`${pair.url}/elsewhere`).topic('t')
    expect(await refusalOf(topic.cancel('k'))).toMatchObject({ code: 'not-found' })
    expect(await refusalOf(topic.get('k'))).toMatchObject({ code: 'not-found' })
  })
})

describe('another server at the address', () => {
  it.each([
    ['a page', HTML, '<html></html>'],
    ['half of JSON', JSON_TYPE, '{"topics":['],
    ['other JSON', JSON_TYPE, '{"hello":"world"}'],
    ['a list', JSON_TYPE, '[]'],
    ['null', JSON_TYPE, 'null'],
  ])('answers with %s', async (_, headers, body) => {
    await using server = await answering(200, headers, body)
    const client = clientOf(server.url)
    expect(await refusalOf(client.topics())).toMatchObject({ code: 'unreachable' })
    expect(await refusalOf(client.topic('t').schedule(TASK))).toMatchObject({ code: 'unknown-outcome' })
  })

  it('leads elsewhere, where the token does not go', async () => {
    let arrived = 0
    await using other = await httpServer((_, response) => {
      arrived++
      response.end()
    })
    await using server = await answering(307, { location: `${other.url}/v1/topics` }, '')
    const client = new TocsinClient({ url: server.url, token: 'a-secret' })
    expect(await refusalOf(client.topics())).toMatchObject({ code: 'bad-option', message: /redirects/ })
    expect(await refusalOf(client.topic('t').schedule(TASK))).toMatchObject({ code: 'bad-option' })
    expect(arrived).toBe(0)
  })
})

describe('a client', () => {
  it.each([
    [{ url: 'localhost:7420' }, /is not a URL/],
    [{ url: 'ftp://localhost' }, /is not a URL/],
    [{ url: 'http://me:secret@localhost' }, /pass the access token as `token`/],
    [{ url: 'me:secret@localhost' }, /is not a URL/],
    [{ url: 'http://me:a/secret@localhost' }, /is not a URL/],
    [{ url: 'http://localhost/?a=1' }, /leave out/],
    [{ url: 7 }, /is not a URL/],
    [{ token: 'two words' }, /one word/],
    [{ token: '' }, /one word/],
    [{ token: 'line\r\nx: y' }, /one word/],
    [{ timeout: 0 }, /at least 1ms/],
    [{ timeout: 'soon' }, /not a duration/],
    [{ tokne: 'x' }, /did you mean 'token'/],
  ])('is not made of %j', (options, message) => {
    const make = () => new TocsinClient(options as object)
    expect(make).toThrow(message)
    expect(make).not.toThrow(/secret|two words/)
  })

  it('lives also under a path', () => {
    expect(clientOf('https://example.com/tocsin/').url).toBe('https://example.com/tocsin')
    expect(new TocsinClient().url).toBe('http://127.0.0.1:7420')
  })
})
