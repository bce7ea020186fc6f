import { Tocsin, type Topic } from 'tocsin'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { gate } from '../../runtime/harness.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { booksOf, imbalance } from './books.ts'
import { eventually, failureOf } from '../helpers.ts'

const TOPIC = 'full'
const MEMORY = '10mb'
const LARGE = 'x'.repeat(60_000)

let redis: RedisServer
let toc: Tocsin
let topic: Topic<string, string>
beforeAll(async () => {
  redis = await startRedis({ config: { maxmemory: MEMORY } })
})
afterAll(() => redis.stop())
beforeEach(async () => {
  await redis.cli('FLUSHALL')
  await redis.cli('CONFIG', 'SET', 'maxmemory', MEMORY)
  toc = await Tocsin.open({ timetable: redis.url, logger: false })
  topic = toc.topic<string>(TOPIC, { lease: '2s' })
})
afterEach(() => toc.close({ timeout: 0 }))

const full = { code: 'timetable-full', retryable: true, message: expect.stringContaining('maxmemory') }

/** Schedules until Redis takes no more. Answers the keys that are in, and the one that was refused. */
async function fill(): Promise<{ keys: string[]; refused: string }> {
  const keys: string[] = []
  for (;;) {
    const key = `fill-${keys.length}`
    try {
      await topic.schedule({ key, delay: '1h', payload: LARGE, tags: ['fill'] })
      keys.push(key)
    } catch (error) {
      expect(error).toMatchObject(full)
      return { keys, refused: key }
    }
  }
}

/** A little memory comes and goes with buffers; after this Redis is full without a doubt. */
async function fillForGood(): Promise<{ keys: string[]; refused: string }> {
  const filled = await fill()
  await redis.cli('CONFIG', 'SET', 'maxmemory', '2mb')
  return filled
}

describe('a Redis at its maxmemory', () => {
  test('takes no new task, and writes no half of one', async () => {
    const { keys, refused } = await fillForGood()
    expect(keys.length).toBeGreaterThan(50)
    const before = await booksOf(redis, TOPIC)
    for (let i = 0; i < 20; i++)
      expect(
        await failureOf(topic.schedule({ key: `more-${i}`, delay: '1h', payload: 'small' })),
      ).toMatchObject(full)
    const many = Array.from({ length: 100 }, (_, i) => ({ key: `many-${i}`, delay: '1h', payload: 'small' }))
    expect(await failureOf(topic.scheduleMany(many))).toMatchObject(full)
    // A key that has a task keeps it as it is: a replacement that was refused must not have ended it.
    expect(await failureOf(topic.schedule({ key: keys[0]!, delay: '2h', payload: 'other' }))).toMatchObject(
      full,
    )

    for (const key of [refused, 'more-0', 'many-0']) expect(await topic.get(key)).toBeNull()
    expect(await topic.get(keys[0]!)).toMatchObject({ state: 'pending', payload: LARGE })
    const books = await booksOf(redis, TOPIC)
    expect(books).toEqual(before)
    expect(imbalance(books)).toBe(0)
    expect(books.pending).toBe(keys.length)
  })

  test(
    'lets running handlers keep their leases and end, also those that fail',
    { timeout: 60_000 },
    async () => {
      const end = gate()
      const starts: string[] = []
      const reasons: unknown[] = []
      topic.consume(async ({ key, attempt }, { signal }) => {
        starts.push(`${key}/${attempt}`)
        signal.addEventListener('abort', () => reasons.push(signal.reason))
        await end.opened
        if (key === 'dies') return { dead: 'enough' }
        if (key === 'again' && attempt === 1) return { retry: '10ms' }
        return undefined
      })
      const running = ['a', 'b', 'again', 'dies']
      await topic.scheduleMany(running.map((key) => ({ key, delay: 0, payload: key })))
      await eventually('they run', () => starts.length === running.length)
      const startedMs = performance.now()
      await fillForGood()
      await eventually('two leases are over', () => performance.now() > startedMs + 4_100)
      // Still full, still theirs.
      expect(await failureOf(topic.schedule({ key: 'new', delay: 0, payload: 'x' }))).toMatchObject(full)
      expect(await topic.get('a')).toMatchObject({ state: 'claimed', deliveries: 1 })
      end.open()
      await eventually('all ended', async () => (await booksOf(redis, TOPIC)).done === 3)
      expect(starts.toSorted()).toEqual(['a/1', 'again/1', 'again/2', 'b/1', 'dies/1'])
      expect(reasons).toEqual([])
      const books = await booksOf(redis, TOPIC)
      expect(imbalance(books)).toBe(0)
      expect(books).toMatchObject({ done: 3, dead: 1, claimed: 0 })
    },
  )

  test('lets tasks be cancelled, moved and looked at, and takes new ones when there is room', async () => {
    const { keys } = await fill()
    const [first, second] = keys as [string, string]
    expect(await topic.reschedule(first, { delay: '2h' })).toMatchObject({ outcome: 'rescheduled' })
    expect(await topic.cancel(second)).toEqual({ key: second, outcome: 'cancelled' })
    expect(await topic.counts()).toMatchObject({ pending: keys.length - 1 })
    expect(await topic.cancelBy({ tag: 'fill' })).toEqual({ cancelled: keys.length - 1, inFlight: 0 })
    await eventually('room again', () => topic.schedule({ key: 'new', delay: '1h', payload: 'small' }))
    expect(await topic.get('new')).toMatchObject({ state: 'pending' })
    expect(imbalance(await booksOf(redis, TOPIC))).toBe(0)
  })

  test('takes new ones as soon as it may have more memory', async () => {
    await fill()
    await redis.cli('CONFIG', 'SET', 'maxmemory', '64mb')
    expect(await topic.schedule({ key: 'new', delay: '1h', payload: 'small' })).toMatchObject({
      outcome: 'created',
    })
  })
})
