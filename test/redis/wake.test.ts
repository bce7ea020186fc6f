/** Wakes between processes that poll only once an hour: a task that fires sooner was woken. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { redis } from 'tocsin/redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CELLS, cellOf } from '../../src/values/cell.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

/** A second is plenty; a busy machine gets ten. The next look would come after an hour. */
const WITHIN_MS = 10_000
const TIMEOUT_MS = 120_000

async function open(url = server.url): Promise<Tocsin> {
  return Tocsin.open({ timetable: redis({ url, safetyLook: '1h' }), logger: false })
}

/** Counts handler calls by key, and waits for a key. */
class Fired {
  readonly counts = new Map<string, number>()
  readonly handler = async ({ key }: { readonly key: string }): Promise<void> => {
    this.counts.set(key, (this.counts.get(key) ?? 0) + 1)
  }

  async has(key: string): Promise<void> {
    await expect
      .poll(() => [...this.counts.keys()], { timeout: WITHIN_MS, interval: 1, message: `${key} fires` })
      .toContain(key)
  }
}

describe('a consumer is woken by another process', () => {
  it(
    'a hundred times in a row, at once and after a short delay',
    async () => {
      await using producer = await open()
      await using consumer = await open()
      const fired = new Fired()
      consumer.topic<number>('across').consume(fired.handler)
      const topic = producer.topic<number>('across')
      for (let n = 0; n < 100; n++) {
        const key = `k${n}`
        await topic.schedule({ key, delay: n % 2 === 0 ? 0 : 20, payload: n })
        await fired.has(key)
      }
      expect([...fired.counts.values()]).toEqual(Array.from({ length: 100 }, () => 1))
    },
    TIMEOUT_MS,
  )

  it(
    'by each way in which a task comes nearer',
    async () => {
      await using producer = await open()
      await using consumer = await open()
      const fired = new Fired()
      consumer.topic<null>('ways').consume(async ({ key }) => {
        await fired.handler({ key })
        return key === 'dead' && fired.counts.get(key) === 1 ? { dead: 'the first time' } : undefined
      })
      const topic = producer.topic<null>('ways')
      const later = (key: string) => topic.schedule({ key, delay: '1d', payload: null })
      await later('replaced')
      await topic.schedule({ key: 'replaced', delay: 0, payload: null })
      await fired.has('replaced')
      await later('rescheduled')
      await topic.reschedule('rescheduled', { delay: 0 })
      await fired.has('rescheduled')
      await topic.scheduleMany([{ key: 'shifted', delay: '1d', payload: null, tags: ['t'] }])
      await topic.rescheduleBy({ tag: 't' }, { shift: '-1d' })
      await fired.has('shifted')
      await topic.schedule({ key: 'dead', delay: 0, payload: null })
      await fired.has('dead')
      const replay = async () => (await topic.dead.replay({ keys: ['dead'] })).replayed
      await expect.poll(replay, { timeout: WITHIN_MS, interval: 1 }).toBe(1)
      await expect.poll(() => fired.counts.get('dead'), { timeout: WITHIN_MS }).toBe(2)
    },
    TIMEOUT_MS,
  )

  it(
    'after its connections were cut and a task was scheduled meanwhile',
    async () => {
      await using proxy = await startProxy({ host: server.host, port: server.port })
      await using producer = await open()
      await using consumer = await open(proxy.url(server.url))
      const fired = new Fired()
      consumer.topic<number>('cut').consume(fired.handler)
      const topic = producer.topic<number>('cut')
      for (let n = 0; n < 5; n++) {
        await topic.schedule({ key: `before-${n}`, delay: 0, payload: n })
        await fired.has(`before-${n}`)
        proxy.refuse()
        proxy.cut()
        await topic.schedule({ key: `meanwhile-${n}`, delay: 0, payload: n })
        // Real time: cut off for a while, so that only the reconnect can wake it afterwards.
        await sleep(100)
        expect(fired.counts.has(`meanwhile-${n}`)).toBe(false)
        await proxy.accept()
        await fired.has(`meanwhile-${n}`)
      }
      expect(new Set(fired.counts.values())).toEqual(new Set([1]))
    },
    TIMEOUT_MS,
  )

  it(
    'after only its subscription was cut, by Redis, while tasks come in',
    async () => {
      await using producer = await open()
      await using consumer = await open()
      const fired = new Fired()
      consumer.topic<number>('deaf').consume(fired.handler)
      const topic = producer.topic<number>('deaf')
      await topic.schedule({ key: 'first', delay: 0, payload: 0 })
      await fired.has('first')
      for (let n = 0; n < 20; n++) {
        const [cut] = await Promise.all([
          server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub'),
          topic.schedule({ key: `k${n}`, delay: 0, payload: n }),
        ])
        await fired.has(`k${n}`)
        // Each process has one, for wakes and the board; it is not there to be cut while it comes back from before.
        expect(['0', '1', '2']).toContain(cut)
      }
    },
    TIMEOUT_MS,
  )
})

const TASKS = 20_000
const CHUNK = 500

describe('slots', () => {
  it(
    'change from 16 to 64 to 8 under load: nothing is lost or doubled, and nothing moves',
    async () => {
      await using producer = await open()
      await using consumer = await open()
      const consuming = consumer.topic<number>('slots')
      const topic = producer.topic<number>('slots')
      // One task for every cell that stays where it is, to be seen at the end.
      const far = keysOfAllCells()
      await topic.scheduleMany(far.map((key) => ({ key, delay: '365d', payload: 0 })))
      const before = await lanes('slots')
      expect(before.size).toBe(CELLS)

      const fired = new Fired()
      consuming.consume(fired.handler, { concurrency: 500 })
      const seen = new Set<number>()
      const owned = consumer.on('slots', ({ owned: slots }) => seen.add(slots.length))
      for (let from = 0; from < TASKS; from += CHUNK) {
        const tasks = Array.from({ length: CHUNK }, (_, n) => ({
          key: `k${from + n}`,
          delay: (from + n) % 300,
          payload: from + n,
        }))
        await topic.scheduleMany(tasks)
        if (from === TASKS / 4) await consuming.configure({ slots: 64 })
        if (from === TASKS / 2) await consuming.configure({ slots: 8 })
      }
      await expect.poll(() => fired.counts.size, { timeout: TIMEOUT_MS / 2 }).toBe(TASKS)
      // A task that is handled twice could still be claimed now.
      await expect.poll(async () => (await topic.counts()).claimed, { timeout: WITHIN_MS }).toBe(0)
      owned()

      expect(fired.counts.size).toBe(TASKS)
      expect([...fired.counts].filter(([, count]) => count > 1)).toEqual([])
      expect([...seen].toSorted((a, b) => a - b)).toEqual([8, 16, 64])
      expect(await topic.counts()).toEqual({ pending: CELLS, due: 0, claimed: 0, dead: 0 })
      expect(await lanes('slots')).toEqual(before)
    },
    TIMEOUT_MS,
  )
})

/** One key for each cell. */
function keysOfAllCells(): string[] {
  const keys = new Map<number, string>()
  for (let n = 0; keys.size < CELLS; n++) {
    const cell = cellOf(`far-${n}`, 'key')
    if (!keys.has(cell)) keys.set(cell, `far-${n}`)
  }
  return [...keys.values()]
}

/** What waits in each lane that there is, with its score. */
async function lanes(topic: string): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  const names = (await server.cli('KEYS', `toc:{${topic}:*}:*`)).split('\n')
  for (const name of names.filter((one) => /:(high|normal|low|suspects)$/.test(one)))
    found.set(name, await server.cli('ZRANGE', name, '0', '-1', 'WITHSCORES'))
  return found
}
