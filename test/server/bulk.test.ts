import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LINE_BYTES_MAX } from '../../src/server/bulk-schedule.ts'
import { startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'
import { BulkClient, linesIn } from './bulk-client.ts'
import { type Answer, TestServer } from './harness.ts'

let server: TestServer
beforeAll(async () => {
  server = await TestServer.start()
})
afterAll(() => server[Symbol.asyncDispose]())

let topics = 0
async function topicOf(at = server): Promise<string> {
  const name = `bulk-${++topics}`
  await at.declare(name)
  return name
}

const NDJSON = { 'content-type': 'application/x-ndjson' }
const task = (key: string, more: object = {}) => ({ key, delay: '1h', payload: { key }, ...more })
const text = (...lines: (object | string)[]) =>
  lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n')
const put = (topic: string, raw: string | Buffer, query = ''): Promise<Answer> =>
  server.request('POST', `/v1/topics/${topic}/schedule${query}`, { raw: raw as string, headers: NDJSON })
const pendingIn = async (topic: string, at = server) =>
  (await at.get(`/v1/stats?topic=${topic}`)).json.topics[0].pending as number

describe('lines', () => {
  it('good and bad ones mixed: each bad one is told with its number, the others are in', async () => {
    const topic = await topicOf()
    const body = [
      task('a'),
      '',
      '{"key": "b", ',
      task('c'),
      '[1,2]',
      'null',
      '"text"',
      task('d', { colour: 'red' }),
      task('e', { delay: '1 fortnight' }),
      task('f', { delay: 1_000 }),
      { key: 'g', delay: '1h' },
      { key: 'h', payload: 1 },
      task('i', { delay: undefined, at: '2031-01-01T00:00:00Z' }),
      task('a', { onConflict: 'keep' }),
      task('c'),
    ]
    const answer = await put(topic, text(...body))
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson'])
    const lines = linesIn(answer.text)
    expect(lines.at(-1)).toEqual({ summary: { created: 3, replaced: 1, kept: 1, failed: 9 } })
    const bad = lines.slice(0, -1).toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
    expect(bad.map(({ line, error }) => [line, error?.code, error?.field])).toEqual([
      [3, 'bad-request', undefined],
      [5, 'bad-request', undefined],
      [6, 'bad-request', undefined],
      [7, 'bad-request', undefined],
      [8, 'bad-request', 'colour'],
      [9, 'bad-duration', 'delay'],
      [10, 'bad-request', 'delay'],
      [11, 'bad-request', 'payload'],
      [12, 'bad-time', 'task'],
    ])
    expect(await pendingIn(topic)).toBe(3)
  })

  it('of Windows, and a last one that nothing ends', async () => {
    const topic = await topicOf()
    const { text: answer } = await put(
      topic,
      `${text(task('a'))}\r\n\r\n${text(task('b'))}\r\n${text(task('c'))}`,
    )
    expect(linesIn(answer)).toEqual([{ summary: { created: 3, replaced: 0, kept: 0, failed: 0 } }])
  })

  it('none at all', async () => {
    const topic = await topicOf()
    const nothing = [{ summary: { created: 0, replaced: 0, kept: 0, failed: 0 } }]
    for (const body of ['', '\n', '\r\n\n']) expect(linesIn((await put(topic, body)).text)).toEqual(nothing)
  })

  it('one that is too long, and one that is just not: the next ones are read', async () => {
    const topic = await topicOf()
    const long = 'x'.repeat(LINE_BYTES_MAX)
    const { text: answer } = await put(topic, [text(task('a')), long, `${long}x`, text(task('b'))].join('\n'))
    expect(linesIn(answer)).toMatchObject([
      { line: 2, error: { code: 'bad-request', message: 'line: not JSON' } },
      { line: 3, error: { code: 'too-large' } },
      { summary: { created: 2, failed: 2 } },
    ])
  })

  it('a payload of the largest size, escaped as badly as can be, is in', async () => {
    const topic = await topicOf()
    const escaped = String.raw`\u0061`.repeat(65_536 - 2)
    const { text: answer } = await put(topic, `{"key":"a","delay":"1h","payload":"${escaped}"}`)
    expect(linesIn(answer)).toMatchObject([{ summary: { created: 1, failed: 0 } }])
  })

  it('one that is no UTF-8', async () => {
    const topic = await topicOf()
    const bad = Buffer.concat([Buffer.from('{"key":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')])
    const body = [Buffer.from(text(task('ä'))), bad, Buffer.from(text(task('😀')))]
    const newline = Buffer.from('\n')
    const { text: answer } = await put(topic, Buffer.concat(body.flatMap((line) => [line, newline])))
    expect(linesIn(answer)).toMatchObject([
      { line: 2, error: { code: 'bad-request', message: 'line: not valid UTF-8' } },
      { summary: { created: 2, failed: 1 } },
    ])
    expect((await server.get(`/v1/topics/${topic}/tasks/${encodeURIComponent('😀')}`)).status).toBe(200)
  })

  it('what a key says last counts', async () => {
    const topic = await topicOf()
    const body = Array.from({ length: 5_000 }, (_, n) => ({ key: 'a', delay: '1h', payload: n }))
    const { text: answer } = await put(topic, text(...body))
    expect(linesIn(answer)).toMatchObject([{ summary: { created: 1, replaced: 4_999 } }])
    expect((await server.get(`/v1/topics/${topic}/tasks/a`)).json.payload).toBe(4_999)
  })

  it('of an unknown topic create nothing', async () => {
    const answer = await put('unknown', text(task('a')))
    expect([answer.status, answer.json.error.code]).toEqual([404, 'unknown-topic'])
  })
})

describe('?results=all', () => {
  it('answers each line while more are sent, and sums up at the end', async () => {
    const topic = await topicOf()
    using client = new BulkClient(server.url, topic, '?results=all')
    for (let n = 1; n <= 5; n++) {
      client.send(task(`k${n}`))
      expect(await client.next()).toMatchObject({
        line: n,
        key: `k${n}`,
        outcome: 'created',
        inFlight: false,
      })
    }
    client.send('nonsense')
    expect(await client.next()).toMatchObject({ line: 6, error: { code: 'bad-request' } })
    client.end()
    expect(await client.rest()).toEqual([{ summary: { created: 5, replaced: 0, kept: 0, failed: 1 } }])
  })

  it('answers every line once, whatever the pieces were', async () => {
    const topic = await topicOf()
    const keys = Array.from({ length: 20_000 }, (_, n) => `k${n + 1}`)
    using client = new BulkClient(server.url, topic, '?results=all')
    const reading = client.rest()
    for (let at = 0; at < keys.length; at += 300)
      client.send(...keys.slice(at, at + 300).map((key) => task(key)))
    client.end()
    const lines = await reading
    expect(lines.pop()?.summary).toEqual({ created: keys.length, replaced: 0, kept: 0, failed: 0 })
    const told = lines.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0))
    expect(told.map(({ line, key }) => [line, key])).toEqual(keys.map((key, n) => [n + 1, key]))
  })

  it(
    'a client that does not read is slowed down, and gets everything once it does',
    { timeout: 60_000 },
    async () => {
      const topic = await topicOf()
      using client = new BulkClient(server.url, topic, '?results=all')
      await client.response
      const piece = Array.from({ length: 100 }, (_, n) => JSON.stringify(task(`k${n}`)))
      let sent = 0
      const limit = 1_000_000
      for (let isStuck = false; !isStuck && sent < limit;) {
        const hasRoom = client.send(...piece)
        sent += piece.length
        if (hasRoom) continue
        isStuck = await Promise.race([client.drained().then(() => false), sleep(1_500, true)])
      }
      // What is on its way lies in the buffers of the system: so much, and no more.
      expect(sent).toBeLessThan(limit)
      const reading = client.rest()
      client.end()
      const lines = await reading
      expect(lines.length).toBe(sent + 1)
      expect(lines.at(-1)?.summary).toEqual({ created: 100, replaced: sent - 100, kept: 0, failed: 0 })
    },
  )
})

describe('there is no summary', () => {
  it('when the client hangs up; what was answered is in', async () => {
    const topic = await topicOf()
    const before = server.log.length
    const client = new BulkClient(server.url, topic, '?results=all')
    client.send(task('a'), task('b'))
    expect([(await client.next())?.key, (await client.next())?.key]).toEqual(['a', 'b'])
    client.request.destroy()
    expect(await pendingIn(topic)).toBe(2)
    expect((await put(topic, text(task('c')))).status).toBe(200)
    expect(server.log.slice(before).filter((line) => JSON.parse(line).level >= 40)).toEqual([])
  })

  it(
    'when the store fails: an error says so, at once, and the connection ends',
    { timeout: 60_000 },
    async () => {
      await using redis = await startRedis()
      await using proxy = await startProxy(redis)
      await using other = await TestServer.start({ timetable: proxy.url(redis.url) })
      const topic = await topicOf(other)
      using client = new BulkClient(other.url, topic, '?results=all')
      client.send(task('a'))
      expect(await client.next()).toMatchObject({ key: 'a', outcome: 'created' })
      proxy.refuse()
      proxy.cut()
      client.send(task('b'))
      const lines = await client.rest()
      expect(lines).toMatchObject([{ error: { requestId: expect.any(String) } }])
      // By when it was cut: before it was sent, or after.
      expect(['timetable-unavailable', 'unknown-outcome']).toContain(lines[0]?.error?.code)
      await proxy.accept()
      await expect.poll(async () => (await other.get('/readyz')).status, { timeout: 20_000 }).toBe(200)
    },
  )

  it('when the server closes: an error says so, and it does not wait for the rest', async () => {
    const other = await TestServer.start()
    const topic = await topicOf(other)
    using client = new BulkClient(other.url, topic, '?results=all')
    client.send(task('a'))
    expect(await client.next()).toMatchObject({ key: 'a', outcome: 'created' })
    const closed = other.served.close()
    expect(await client.rest()).toMatchObject([{ error: { code: 'closed' } }])
    client.end()
    await closed
  })

  it('when the server shuts down, and the client neither reads nor ends', { timeout: 60_000 }, async () => {
    const other = await TestServer.start()
    const topic = await topicOf(other)
    using client = new BulkClient(other.url, topic, '?results=all')
    await client.response
    const timer = setInterval(() => client.send(...Array.from({ length: 2_000 }, (_, n) => task(`k${n}`))), 5)
    await expect.poll(() => pendingIn(topic, other), { timeout: 20_000 }).toBe(2_000)
    await other.served.close()
    clearInterval(timer)
  })
})
