import { Tocsin } from 'tocsin'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type RedisServer, startRedis, startReplica } from '../../real-servers/redis-server.ts'
import { startProxy } from '../../real-servers/tcp-proxy.ts'
import { eventually, failureOf, timed } from '../helpers.ts'

const TOPIC = 'replicated'
const CALL_TIMEOUT_MS = 2_000
const PATIENCE_MS = 3 * CALL_TIMEOUT_MS

let redis: RedisServer
let replica: RedisServer
beforeAll(async () => {
  redis = await startRedis()
  replica = await startReplica(redis)
})
afterAll(async () => {
  await replica.stop()
  await redis.stop()
})

let toc: Tocsin
let careless: Tocsin
beforeEach(async () => {
  const common = { timetable: redis.url, callTimeout: CALL_TIMEOUT_MS, logger: false } as const
  toc = await Tocsin.open({ ...common, waitReplicas: 1 })
  careless = await Tocsin.open(common)
})
afterEach(async () => {
  replica.resume()
  await Promise.all([toc.close({ timeout: 0 }), careless.close()])
})

/** Whether the replica has the body of a task. */
async function isReplicated(key: string): Promise<boolean> {
  const pools = (await replica.ask('KEYS', 'toc:*:pool')) as string[]
  const found = await Promise.all(pools.map((pool) => replica.ask('HEXISTS', pool, key)))
  return found.includes(1)
}

test('what is answered is on the replica', async () => {
  const topic = toc.topic<null>(TOPIC)
  expect(await topic.schedule({ key: 'a', delay: '1h', payload: null })).toMatchObject({ outcome: 'created' })
  expect(await isReplicated('a')).toBe(true)
  expect(await topic.cancel('a')).toMatchObject({ outcome: 'cancelled' })
  expect(await isReplicated('a')).toBe(false)
})

test('without a replica that confirms, the outcome is unknown; who asks for none does not care', async () => {
  replica.pause()
  const { ms, error } = await timed(() =>
    toc.topic<null>(TOPIC).schedule({ key: 'b', delay: '1h', payload: null }),
  )
  expect(error).toMatchObject({
    code: 'unknown-outcome',
    retryable: false,
    details: { confirmed: 0, wanted: 1 },
  })
  expect((error as Error).message).toContain('0 of 1')
  expect(ms).toBeLessThan(PATIENCE_MS)
  const other = careless.topic<null>(TOPIC)
  expect(await other.get('b')).toMatchObject({ state: 'pending' })
  expect(await other.schedule({ key: 'c', delay: '1h', payload: null })).toMatchObject({ outcome: 'created' })

  replica.resume()
  await eventually('confirmed again', () =>
    toc.topic<null>(TOPIC).schedule({ key: 'd', delay: '1h', payload: null }),
  )
  expect(await isReplicated('d')).toBe(true)
})

test(
  'many calls without confirmation all end in time, and say what is true',
  { timeout: 60_000 },
  async () => {
    const topic = toc.topic<null>(TOPIC)
    replica.pause()
    const calls = Array.from({ length: 200 }, async (_, i) => {
      // Not all in one turn of the event loop.
      for (let turns = i % 7; turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
      const key = `many-${i}`
      return { key, ...(await timed(() => topic.schedule({ key, delay: '1h', payload: null }))) }
    })
    const ends = await Promise.all(calls)
    const withCode = (code: string) =>
      ends.filter(({ error }) => (error as { code?: string } | undefined)?.code === code)
    const without = withCode('timetable-unavailable')
    expect(without.length + withCode('unknown-outcome').length).toBe(ends.length)
    expect(Math.max(...ends.map(({ ms }) => ms))).toBeLessThan(PATIENCE_MS)
    const there = await Promise.all(without.map(({ key }) => careless.topic<null>(TOPIC).get(key)))
    expect(there.filter((task) => task !== null).map((task) => task.key)).toEqual([])
  },
)

test('a confirmation that is lost leaves the outcome unknown: the write itself was done', async () => {
  await using proxy = await startProxy(redis)
  await using far = await Tocsin.open({ timetable: proxy.url(redis.url), waitReplicas: 1, logger: false })
  const topic = far.topic<null>(TOPIC)
  await topic.schedule({ key: 'warm', delay: '1h', payload: null })
  // With the replica paused, the write is answered, and the confirmation is waited for.
  replica.pause()
  const call = failureOf(topic.schedule({ key: 'e', delay: '1h', payload: null }))
  await eventually('written', async () => (await careless.topic<null>(TOPIC).get('e')) !== null)
  await eventually('waiting', async () => (await redis.cli('CLIENT', 'LIST')).includes('cmd=wait'))
  proxy.cut()
  expect(await call).toMatchObject({ code: 'unknown-outcome', retryable: false })
})
