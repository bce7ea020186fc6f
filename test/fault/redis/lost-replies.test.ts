import type { Tocsin, Topic } from 'tocsin'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { loadScripts } from '../../../src/timetables/redis/scripts.ts'
import { gate } from '../../runtime/harness.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { startProxy, type TcpProxy } from '../../real-servers/tcp-proxy.ts'
import { openAlone } from '../alone.ts'
import { booksOf, imbalance } from './books.ts'
import { eventually, failureOf, scriptCalls } from '../helpers.ts'
import { type ReplyDropper, startDropper } from './reply-dropper.ts'

let redis: RedisServer
let proxy: TcpProxy
let toc: Tocsin
/** Past the proxy, to see what is true. */
let direct: Tocsin
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())
beforeEach(async () => {
  await redis.cli('FLUSHALL')
  proxy = await startProxy(redis)
  toc = await openAlone({ timetable: proxy.url(redis.url) })
  direct = await openAlone({ timetable: redis.url })
})
afterEach(async () => {
  await Promise.all([toc.close({ timeout: 0 }), direct.close()])
  await proxy.stop()
})

/** Runs a call whose reply is dropped, with the connection, after Redis has done what it asks for. */
async function withoutReply(call: () => Promise<unknown>): Promise<{ error: unknown; calls: number }> {
  const before = await scriptCalls(redis)
  const dropped = proxy.dropNextReply()
  const error = await failureOf(call())
  await dropped
  // It is not sent again later, either, when the connection is back.
  await eventually('the connection is back', () => toc.topic(TOPIC).counts())
  return { error, calls: (await scriptCalls(redis)) - before - COUNTS_CALLS }
}

const TOPIC = 'lost'
/** `counts` asks each cell, once. */
const COUNTS_CALLS = 64

describe('a write whose reply is lost', () => {
  let topic: Topic<string, string>
  let truth: Topic<string, string>
  beforeEach(async () => {
    topic = toc.topic<string>(TOPIC)
    truth = direct.topic<string>(TOPIC)
    // Redis knows the scripts: otherwise the first reply of each would only say that it does not.
    await topic.schedule({ key: 'warm', delay: '1h', payload: 'warm' })
    await topic.reschedule('warm', { delay: '2h' })
    await topic.cancel('warm')
    await topic.dead.replay({ keys: ['warm'] })
    await topic.counts()
  })

  const unknown = expect.objectContaining({ code: 'unknown-outcome', retryable: false })

  test('schedule: unknown, done once, not sent again', async () => {
    const { error, calls } = await withoutReply(() =>
      topic.schedule({ key: 'a', delay: '1h', payload: 'first' }),
    )
    expect(error).toEqual(unknown)
    expect(calls).toBe(1)
    expect(await truth.get('a')).toMatchObject({ state: 'pending', payload: 'first' })
    expect(await booksOf(redis, TOPIC)).toMatchObject({ scheduled: 2, pending: 1 })
  })

  test('cancel: unknown, done once, not sent again', async () => {
    await topic.schedule({ key: 'a', delay: '1h', payload: 'first' })
    const { error, calls } = await withoutReply(() => topic.cancel('a'))
    expect(error).toEqual(unknown)
    expect(calls).toBe(1)
    expect(await truth.get('a')).toBeNull()
    expect(await booksOf(redis, TOPIC)).toMatchObject({ scheduled: 2, cancelled: 2 })
  })

  test('reschedule: unknown, done once, not sent again', async () => {
    const { dueAt } = await topic.schedule({ key: 'a', delay: '1h', payload: 'first', tags: ['t'] })
    const { error, calls } = await withoutReply(() => topic.rescheduleBy({ tag: 't' }, { shift: '+1h' }))
    // A sweep looks first (which may be repeated) and moves then.
    expect(error).toEqual(expect.objectContaining({ code: 'timetable-unavailable' }))
    expect(calls).toBeGreaterThan(0)
    expect((await truth.get('a'))?.dueAt).toEqual(dueAt)
    const again = await withoutReply(() => topic.reschedule('a', { at: dueAt.getTime() + 60_000 }))
    expect(again).toEqual({ error: unknown, calls: 1 })
    expect((await truth.get('a'))?.dueAt.getTime()).toBe(dueAt.getTime() + 60_000)
  })

  test('dead.replay: unknown, done once, not sent again', async () => {
    await truth.schedule({ key: 'a', delay: 0, payload: 'first' })
    const killed = truth.consume(async () => ({ dead: 'enough' }))
    await eventually('dead', async () => (await truth.get('a'))?.state === 'dead')
    await killed.stop()
    const { error, calls } = await withoutReply(() => topic.dead.replay({ keys: ['a'] }))
    expect(error).toEqual(unknown)
    expect(calls).toBe(1)
    expect(await truth.get('a')).toMatchObject({ state: 'pending' })
    expect(await booksOf(redis, TOPIC)).toMatchObject({ scheduled: 2, pending: 1, dead: 0 })
  })

  test('scheduleMany over all cells: unknown, each at most once', async () => {
    const tasks = Array.from({ length: 500 }, (_, i) => ({ key: `k${i}`, delay: '1h', payload: 'x' }))
    const { error, calls } = await withoutReply(() => topic.scheduleMany(tasks))
    expect(error).toEqual(unknown)
    expect(calls).toBeLessThanOrEqual(64)
    const books = await booksOf(redis, TOPIC)
    expect(imbalance(books)).toBe(0)
    expect(books.pending).toBeLessThanOrEqual(500)
  })
})

describe('a consumer whose replies are lost', () => {
  const { claim, finish, extend } = loadScripts()
  let dropper: ReplyDropper
  let consuming: Tocsin
  beforeEach(async () => {
    dropper = await startDropper(redis)
    consuming = await openAlone({ timetable: dropper.url })
  })
  afterEach(async () => {
    await consuming.close({ timeout: 0 })
    await dropper[Symbol.asyncDispose]()
  })

  test('handles everything, and while leases last nothing twice', { timeout: 60_000 }, async () => {
    const settings = { lease: '10m' }
    const starts: string[] = []
    consuming.topic(TOPIC, settings).consume(async ({ key, dueAt }) => {
      starts.push(key)
      expect(Date.now()).toBeGreaterThanOrEqual(dueAt.getTime())
    })
    const producer = direct.topic<null>(TOPIC, settings)
    const keys: string[] = []
    for (let round = 0; round < 6; round++) {
      const dropped = dropper.dropReplyTo(round % 2 === 0 ? claim.sha : finish.sha)
      const tasks = Array.from({ length: 50 }, (_, i) => ({ key: `${round}-${i}`, delay: 0, payload: null }))
      keys.push(...(await producer.scheduleMany(tasks)).map(({ key }) => key))
      await dropped
      await eventually('all settled', async () => (await booksOf(redis, TOPIC)).done === keys.length)
    }
    expect(starts.toSorted()).toEqual(keys.toSorted())
    const books = await booksOf(redis, TOPIC)
    expect(books).toMatchObject({ scheduled: keys.length, pending: 0, claimed: 0, dead: 0 })
  })

  test('keeps its leases although a renewal went unanswered', { timeout: 60_000 }, async () => {
    const starts: number[] = []
    const reasons: unknown[] = []
    const end = gate()
    consuming.topic(TOPIC, { lease: '3s' }).consume(async ({ deliveries }, { signal }) => {
      starts.push(deliveries)
      signal.addEventListener('abort', () => reasons.push(signal.reason))
      await end.opened
    })
    // Would take it over the moment that its lease ran out.
    const others: string[] = []
    await direct.topic<null>(TOPIC).schedule({ key: 'a', delay: 0, payload: null })
    await eventually('started', () => starts.length === 1)
    const startedMs = performance.now()
    direct.topic<null>(TOPIC).consume(async ({ key }) => void others.push(key))
    await dropper.dropReplyTo(extend.sha)
    await eventually('its first lease is long over', () => performance.now() > startedMs + 4_500)
    end.open()
    await eventually('settled', async () => (await booksOf(redis, TOPIC)).done === 1)
    expect({ starts, reasons, others }).toEqual({ starts: [1], reasons: [], others: [] })
  })
})
