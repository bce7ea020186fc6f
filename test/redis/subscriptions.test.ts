/** Wakes from other processes, also right after a stop, a failed start, or a lost connection. */
import { type Consumer, Tocsin } from 'tocsin'
import { redis } from 'tocsin/redis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'
import { openOnVirtualClock } from '../contract/redis-harness.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

/** With a safety look of one hour, only a wake can make a task fire in time. */
const open = (url: string) => Tocsin.open({ timetable: redis({ url, safetyLook: '1h' }), logger: false })

const subscribers = async (topic: string) => {
  const reply = await server.cli('PUBSUB', 'SHARDNUMSUB', `toc:{${topic}:0}:wake`)
  return Number(reply.split(/\s+/).at(-1))
}

it('a consumer that follows another at once is woken like the first', async () => {
  await using producer = await open(server.url)
  await using worker = await open(server.url)
  const topic = worker.topic<null>('follows')
  for (let round = 0; round < 4; round++) {
    let tell = () => {}
    const handled = new Promise<void>((resolve) => {
      tell = resolve
    })
    const consumer: Consumer = topic.consume(async () => tell())
    await expect.poll(() => subscribers('follows')).toBe(1)
    await producer.topic<null>('follows').schedule({ key: `k${round}`, delay: 20, payload: null })
    await handled
    await consumer.stop()
  }
})

it('a subscription that could not be opened at first is opened once', async () => {
  await using proxy = await startProxy(server)
  await using toc = await open(proxy.url(server.url))
  proxy.refuse()
  const first = toc.topic<null>('first').consume(async () => {})
  await proxy.accept()
  const second = toc.topic<null>('second').consume(async () => {})
  await expect.poll(() => subscribers('first'), { timeout: 10_000 }).toBe(1)
  await expect.poll(() => subscribers('second'), { timeout: 10_000 }).toBe(1)
  expect(proxy.connections()).toBe(2)
  await Promise.all([first.stop(), second.stop()])
})

it('databases of one Redis do not wake each other', async () => {
  await using zero = await open(server.url)
  await using one = await open(`${server.url}/1`)
  const topic = one.topic<null>('databases')
  const consumer = topic.consume(async () => {})
  await expect
    .poll(async () => (await server.cli('PUBSUB', 'SHARDCHANNELS', 'toc:{databases:*')).includes('wake:1'))
    .toBe(true)
  expect(await subscribers('databases')).toBe(0)
  await zero.topic<null>('databases').schedule({ key: 'a', delay: '1h', payload: null })
  await consumer.stop()
})

it('a watcher that was cut off is told that it may have missed a cancel', async () => {
  const harness = await openOnVirtualClock(server)
  let missed = 0
  harness.timetable.watch(harness.topic, { wake() {}, fence() {}, limit() {}, missed: () => missed++ })
  await expect.poll(() => missed).toBe(1)
  await server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
  await expect.poll(() => missed).toBeGreaterThan(1)
  await harness.close()
})
