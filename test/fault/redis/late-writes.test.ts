/**
 * A write that reaches Redis after its caller was told 'unknown-outcome' changes nothing. A proxy holds the write back
 * until the same key was written again, directly, and that was acknowledged.
 */
import { Tocsin, type Topic } from 'tocsin'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { startProxy, type TcpProxy } from '../../real-servers/tcp-proxy.ts'
import { eventually } from '../helpers.ts'

const CALL_TIMEOUT_MS = 300

let redis: RedisServer
let proxy: TcpProxy
let direct: Tocsin
let behindProxy: Tocsin
beforeAll(async () => {
  redis = await startRedis()
  proxy = await startProxy(redis)
})
afterAll(async () => {
  await proxy.stop()
  await redis.stop()
})
beforeEach(async () => {
  await redis.cli('FLUSHALL')
  await redis.cli('CONFIG', 'RESETSTAT')
  direct = await Tocsin.open({ timetable: redis.url, logger: false })
  const timetable = proxy.url(redis.url)
  behindProxy = await Tocsin.open({ timetable, callTimeout: CALL_TIMEOUT_MS, logger: false })
})
afterEach(async () => {
  proxy.resume()
  await behindProxy.close({ timeout: 0 })
  await direct.close({ timeout: 0 })
})

type T = Topic<string, string>

/** How often a script found that it had come too late. */
async function lateCalls(): Promise<number> {
  const stats = await redis.cli('INFO', 'errorstats')
  return Number(/errorstat_TOCSINLATE:count=(\d+)/.exec(stats)?.[1] ?? 0)
}

const CASES: {
  name: string
  /** What the key is before. */
  first: (topic: T) => Promise<unknown>
  late: (topic: T) => Promise<unknown>
  /** What its caller, or another one, does after 'unknown-outcome'. */
  then: (topic: T) => Promise<unknown>
  payload: string | null
}[] = [
  {
    name: 'an old schedule does not replace the new task',
    first: async () => {},
    late: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'old' }),
    then: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'new' }),
    payload: 'new',
  },
  {
    name: 'after a cancel that found nothing there is nothing',
    first: async () => {},
    late: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'old' }),
    then: async (topic) => expect(await topic.cancel('k')).toMatchObject({ outcome: 'not-found' }),
    payload: null,
  },
  {
    name: 'an old cancel does not remove the new task',
    first: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'old' }),
    late: (topic) => topic.cancel('k'),
    then: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'new' }),
    payload: 'new',
  },
  {
    name: 'an old reschedule does not move the new task',
    first: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'old' }),
    late: (topic) => topic.reschedule('k', { delay: '9h' }),
    then: (topic) => topic.schedule({ key: 'k', delay: '1h', payload: 'new' }),
    payload: 'new',
  },
  {
    name: 'an old purge does not remove the dead task',
    first: async (topic) => {
      await using _consumer = topic.consume(async () => ({ dead: 'rejected' }))
      await topic.schedule({ key: 'k', delay: 0, payload: 'old' })
      await eventually('the task is dead', async () => (await topic.get('k'))?.state === 'dead')
    },
    late: (topic) => topic.dead.purge({ keys: ['k'] }),
    then: async () => {},
    payload: 'old',
  },
]

test.each(CASES)('$name', async ({ first, late, then, payload }) => {
  const topic = direct.topic<string>('late')
  await first(topic)
  const topicBehindProxy = behindProxy.topic<string>('late')
  // The topic exists, and Redis has the scripts.
  await topicBehindProxy.schedule({ key: 'other', delay: '1h', payload: '' })
  await topicBehindProxy.reschedule('other', { delay: '2h' })
  await topicBehindProxy.cancel('other')
  await topicBehindProxy.dead.purge({ keys: ['other'] })
  proxy.stall()
  await expect(late(topicBehindProxy)).rejects.toMatchObject({ code: 'unknown-outcome' })
  await then(topic)
  const before = await topic.get('k')
  proxy.resume()
  await eventually('the late call arrived', async () => (await lateCalls()) === 1)
  expect(await topic.get('k')).toEqual(before)
  expect(before?.payload ?? null).toBe(payload)
})

test('a caller is told only when the write has taken effect or never will', async () => {
  const topic = behindProxy.topic<string>('late')
  await topic.schedule({ key: 'warm', delay: '1h', payload: 'old' })
  proxy.stall()
  const startedMs = performance.now()
  const writing = topic.schedule({ key: 'k', delay: '1h', payload: 'old' })
  // The connection is gone at once; the write may still be on its way.
  proxy.cut()
  await expect(writing).rejects.toMatchObject({ code: 'unknown-outcome' })
  expect(performance.now() - startedMs).toBeGreaterThanOrEqual(CALL_TIMEOUT_MS - 5)
})

test('an old change of settings does not follow', async () => {
  const topic = behindProxy.topic<string>('late')
  await topic.configure({ batchSize: 50 })
  proxy.stall()
  await expect(topic.configure({ batchSize: 7 })).rejects.toMatchObject({ code: 'unknown-outcome' })
  proxy.resume()
  await eventually('the late call arrived', async () => (await lateCalls()) === 1)
  const { live } = await direct.topic<string>('late').config()
  expect(live).toMatchObject({ batchSize: 50 })
})
