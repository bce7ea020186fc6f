import { Tocsin, type Topic } from 'tocsin'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { startProxy, type TcpProxy } from '../../real-servers/tcp-proxy.ts'
import { booksOf, imbalance } from './books.ts'
import { eventually, timed } from '../helpers.ts'

const CALL_TIMEOUT_MS = 1_000
/** Loosely: on a machine with other things to do. */
const PATIENCE_MS = 3 * CALL_TIMEOUT_MS

type Call = (topic: Topic<number, number>) => Promise<unknown>

/** Must not be repeated when their answer is lost. */
const WRITES: Record<string, Call> = {
  schedule: (topic) => topic.schedule({ key: 'new', delay: '1h', payload: 1 }),
  'schedule-many': (topic) =>
    topic.scheduleMany(Array.from({ length: 200 }, (_, i) => ({ key: `n${i}`, delay: '1h', payload: i }))),
  cancel: (topic) => topic.cancel('old'),
  reschedule: (topic) => topic.reschedule('old', { delay: '3h' }),
  replay: (topic) => topic.dead.replay({ keys: ['old'] }),
  purge: (topic) => topic.dead.purge({ keys: ['old'] }),
}
/** May be repeated: what reads, and what begins with a read. */
const LOOKS: Record<string, Call> = {
  get: (topic) => topic.get('old'),
  list: (topic) => topic.list(),
  counts: (topic) => topic.counts(),
  forecast: (topic) => topic.forecast({ to: Date.now() + 3_600_000 }),
  'cancel-by': (topic) => topic.cancelBy({ tag: 'none' }),
}
const CALLS = Object.entries({ ...WRITES, ...LOOKS })

let redis: RedisServer
let proxy: TcpProxy
let direct: Tocsin
let toc: Tocsin
beforeAll(async () => {
  redis = await startRedis()
  proxy = await startProxy(redis)
  direct = await Tocsin.open({ timetable: redis.url, logger: false })
})
afterAll(async () => {
  await direct.close()
  await proxy.stop()
  await redis.stop()
})
beforeEach(async () => {
  await redis.cli('FLUSHALL')
  // One topic for each call: none of them waits for another.
  for (const [name] of CALLS)
    await direct.topic<number>(name).schedule({ key: 'old', delay: '1h', payload: 0 })
  // Redis knows the scripts.
  for (const call of Object.values({ ...WRITES, ...LOOKS })) await call(direct.topic<number>('warm'))
  toc = await Tocsin.open({ timetable: proxy.url(redis.url), callTimeout: CALL_TIMEOUT_MS, logger: false })
})
afterEach(async () => {
  proxy.resume()
  await proxy.accept()
  await toc.close({ timeout: 0 })
})

const recovers = () =>
  eventually('a call works again', () =>
    toc.topic<number>('after').schedule({ key: 'a', delay: '1h', payload: 2 }),
  )

/** The connections over TCP, by what Redis says of them. */
async function clients(): Promise<{ id: string; resp: string }[]> {
  const lines = (await redis.cli('CLIENT', 'LIST'))
    .split('\n')
    .filter((line) => line.includes(' addr=127.0.0.1'))
  const field = (line: string, name: string) => new RegExp(`(?:^| )${name}=(\\S*)`).exec(line)?.[1] ?? ''
  return lines.map((line) => ({ id: field(line, 'id'), resp: field(line, 'resp') }))
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

const codeOf = (error: unknown) => (error as { code?: string } | undefined)?.code

describe('a network that has gone silent', () => {
  test('every call ends by its deadline: the outcome of a write is unknown, a read may be retried', async () => {
    proxy.stall()
    const ends = await Promise.all(
      CALLS.map(async ([name, call]) => ({ name, ...(await timed(() => call(toc.topic<number>(name)))) })),
    )
    for (const { name, error, ms } of ends) {
      const code = name in WRITES ? 'unknown-outcome' : 'timetable-unavailable'
      expect({ name, code: codeOf(error) }).toEqual({ name, code })
      expect(error).toMatchObject({ retryable: code === 'timetable-unavailable' })
      expect(ms).toBeLessThan(PATIENCE_MS)
    }
    proxy.resume()
    await recovers()
    for (const [name] of CALLS) expect(imbalance(await booksOf(redis, name))).toBe(0)
  })

  test('a thousand calls at once all end, and those after them at once', async () => {
    const topic = toc.topic<number>('thousand')
    const call = (i: number) => timed(() => topic.schedule({ key: `k${i}`, delay: '1h', payload: i }))
    proxy.stall()
    const first = await Promise.all(Array.from({ length: 1_000 }, (_, i) => call(i)))
    const later = await Promise.all(Array.from({ length: 100 }, (_, i) => call(i)))
    for (const { ms, error } of [...first, ...later]) {
      expect(['unknown-outcome', 'timetable-unavailable']).toContain(codeOf(error))
      expect(ms).toBeLessThan(PATIENCE_MS)
    }
    for (const { error } of later) expect(codeOf(error)).toBe('timetable-unavailable')
    proxy.resume()
    await recovers()
    expect(imbalance(await booksOf(redis, 'thousand'))).toBe(0)
  })

  test('a consumer goes on by itself when the network is back', { timeout: 60_000 }, async () => {
    const handled: string[] = []
    const producer = direct.topic<number>('consumed')
    toc.topic<number>('consumed').consume(async ({ key }) => void handled.push(key))
    const schedule = (key: string) => producer.schedule({ key, delay: 0, payload: 1 })
    await schedule('before')
    await eventually('before', () => handled.includes('before'))
    proxy.stall()
    await schedule('during')
    await eventually(
      'noticed',
      async () => (await timed(() => toc.topic('consumed').counts())).error !== undefined,
    )
    expect(handled).toEqual(['before'])
    proxy.resume()
    await eventually('during', () => handled.includes('during'))
    await schedule('then')
    await eventually('then', () => handled.includes('then'))
    expect(handled).toEqual(['before', 'during', 'then'])
  })
})

test('a server that refuses connections: every call fails without being sent, and may be retried', async () => {
  proxy.refuse()
  proxy.cut()
  await eventually(
    'the loss is noticed',
    async () => (await timed(() => toc.topic('x').counts())).error !== undefined,
  )
  for (const [name, call] of CALLS) {
    const { error } = await timed(() => call(toc.topic<number>(name)))
    expect(error).toMatchObject({ code: 'timetable-unavailable', retryable: true })
    // At once, that is: it did not take a deadline to find out.
    expect((error as Error).message).toContain('nothing was sent')
  }
  await proxy.accept()
  await recovers()
})

test('a new connection that is never answered is given up, and the next one taken', async () => {
  const known = new Set((await clients()).map(({ id }) => id))
  proxy.dropReplies()
  proxy.cut()
  await eventually('it has connected anew, and said HELLO', async () =>
    (await clients()).some(({ id, resp }) => !known.has(id) && resp === '3'),
  )
  // What Redis said has reached the proxy by now, and was swallowed.
  await turn()
  await turn()
  // New connections are answered from now on; the old connection has lost the reply that it waits for.
  proxy.resume()
  await eventually('a call works again', () => toc.topic('x').counts())
})
