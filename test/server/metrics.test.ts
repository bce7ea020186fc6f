import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'
import { Figures } from './exposition.ts'
import { TestServer } from './harness.ts'

let server: TestServer
beforeAll(async () => {
  server = await TestServer.start()
})
afterAll(() => server[Symbol.asyncDispose]())

let topics = 0
async function topicOf(config: object = {}, at = server): Promise<string> {
  const name = `figures-${++topics}`
  await at.declare(name, config)
  return name
}
const schedule = (topic: string, task: object) =>
  server.post(`/v1/topics/${topic}/tasks`, { payload: null, ...task })
const claim = async (topic: string, limit = 100) =>
  (await server.post(`/v1/topics/${topic}/claim`, { limit, wait: '10s' })).json.tasks as {
    key: string
    token: string
  }[]
const settle = (topic: string, task: object | undefined, how: object) =>
  server.post(`/v1/topics/${topic}/settle`, {
    tasks: [{ key: (task as { key: string }).key, token: (task as { token: string }).token, ...how }],
  })
const figures = async (at = server) => new Figures((await at.get('/metrics')).text)
const ago = (ms: number) => new Date(Date.now() - ms).toISOString()

it('is of the type that Prometheus asks for, and has every figure', async () => {
  const topic = await topicOf()
  await schedule(topic, { key: 'a', delay: '0s' })
  await settle(topic, (await claim(topic))[0], { outcome: 'done' })
  const { headers } = await server.get('/metrics')
  expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const { types } = await figures()
  expect(Object.fromEntries(types)).toEqual({
    tocsin_lateness_seconds: 'histogram',
    tocsin_fired_total: 'counter',
    tocsin_outcomes_total: 'counter',
    tocsin_safety_net_total: 'counter',
    tocsin_store_call_seconds: 'histogram',
    tocsin_http_request_seconds: 'histogram',
    tocsin_tasks: 'gauge',
    tocsin_oldest_overdue_seconds: 'gauge',
    tocsin_due_per_second: 'gauge',
    tocsin_slots_owned: 'gauge',
    tocsin_paused: 'gauge',
    tocsin_loader_lag_seconds: 'gauge',
    tocsin_in_flight: 'gauge',
    tocsin_waiting_claims: 'gauge',
    tocsin_store_up: 'gauge',
  })
})

describe('what happens here', () => {
  it('lateness is counted from due, by topic', async () => {
    const [topic, other] = [await topicOf(), await topicOf()]
    await schedule(topic, { key: 'late', at: ago(100_000) })
    await schedule(other, { key: 'soon', delay: '0s' })
    await Promise.all([claim(topic), claim(other)])
    const seen = await figures()
    expect(seen.get('tocsin_lateness_seconds_count', { topic })).toBe(1)
    expect(seen.get('tocsin_lateness_seconds_sum', { topic })).toBeGreaterThanOrEqual(100)
    expect(seen.get('tocsin_lateness_seconds_bucket', { topic, le: '60' })).toBe(0)
    expect(seen.get('tocsin_lateness_seconds_bucket', { topic, le: '600' })).toBe(1)
    expect(seen.get('tocsin_lateness_seconds_bucket', { topic: other, le: '60' })).toBe(1)
    expect(seen.get('tocsin_fired_total', { topic })).toBe(1)
  })

  it('what was to wait is not late for having waited', async () => {
    const [pulled, handled] = [await topicOf(), await topicOf()]
    await schedule(pulled, { key: 'a', at: ago(100_000) })
    await settle(pulled, (await claim(pulled))[0], { outcome: 'snooze', delay: '1ms' })
    await claim(pulled)
    await schedule(handled, { key: 'a', at: ago(100_000) })
    let calls = 0
    const done = new Promise<void>((resolve) => {
      server.served.toc.topic(handled).consume(async () => {
        if (++calls === 1) return { snooze: 1 }
        resolve()
      })
    })
    await done
    const seen = await figures()
    for (const topic of [pulled, handled]) {
      expect(seen.get('tocsin_lateness_seconds_count', { topic })).toBe(2)
      expect(seen.get('tocsin_lateness_seconds_sum', { topic })).toBeLessThan(190)
    }
  })

  it('outcomes, each by its name', async () => {
    const topic = await topicOf({ retry: { min: '1ms', max: '1ms', jitter: 0 } })
    await schedule(topic, { key: 'a', delay: '0s' })
    const says = [
      { outcome: 'retry' },
      { outcome: 'snooze', delay: '1ms' },
      { outcome: 'retry' },
      { outcome: 'dead' },
    ]
    for (const how of says) await settle(topic, (await claim(topic))[0], how)
    await schedule(topic, { key: 'b', delay: '0s' })
    const [task] = await claim(topic)
    await settle(topic, task, { outcome: 'done' })
    await settle(topic, task, { outcome: 'done' })
    const seen = await figures()
    const counts = ['retry', 'snooze', 'dead', 'done'].map((outcome) =>
      seen.get('tocsin_outcomes_total', { topic, outcome }),
    )
    expect(counts).toEqual([2, 1, 1, 1])
    expect(seen.get('tocsin_fired_total', { topic })).toBe(5)
  })

  it('outcomes of tasks that are too late to be pulled', async () => {
    const topic = await topicOf({ slotBy: 'prefix', late: { after: '10s', then: 'drop' } })
    await schedule(topic, { key: 'a:late', at: ago(100_000) })
    await schedule(topic, { key: 'a:punctual', delay: '0s' })
    expect(await claim(topic)).toMatchObject([{ key: 'a:punctual' }])
    const seen = await figures()
    expect(seen.get('tocsin_outcomes_total', { topic, outcome: 'obsolete' })).toBe(1)
    expect(seen.get('tocsin_fired_total', { topic })).toBe(1)
  })

  it('calls to the store', async () => {
    const topic = await topicOf()
    const count = async (call: string) =>
      (await figures()).get('tocsin_store_call_seconds_count', { call, result: 'ok' }) ?? 0
    const before = await count('schedule')
    await schedule(topic, { key: 'a', delay: '1h' })
    await schedule(topic, { key: 'b', delay: '1h' })
    expect(await count('schedule')).toBe(before + 2)
    const cancelled = await count('cancel')
    await server.request('DELETE', `/v1/topics/${topic}/tasks/a`)
    expect(await count('cancel')).toBe(cancelled + 1)
  })

  it('requests, by what they asked for and how they were answered', async () => {
    const topic = await topicOf()
    const count = async (method: string, route: string, status: string) =>
      (await figures()).get('tocsin_http_request_seconds_count', { method, route, status }) ?? 0
    const one = ['GET', '/v1/topics/:topic/tasks/:key', '404'] as const
    const before = await count(...one)
    await server.get(`/v1/topics/${topic}/tasks/none`)
    await server.get(`/v1/topics/${topic}/tasks/none-either`)
    expect(await count(...one)).toBe(before + 2)
    const lines = ['POST', '/v1/topics/:topic/schedule', '200'] as const
    const sent = await count(...lines)
    await server.request('POST', `/v1/topics/${topic}/schedule`, {
      raw: '{"key":"a","delay":"1h","payload":1}\n',
      headers: { 'content-type': 'application/x-ndjson' },
    })
    expect(await count(...lines)).toBe(sent + 1)
    await server.get('/v1/nothing-here')
    expect(await count('GET', 'none', '404')).toBeGreaterThan(0)
  })

  it('slots, and what handlers of this process have in hand', async () => {
    const topic = await topicOf({ slots: 8 })
    let release = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    const consumer = server.served.toc.topic(topic).consume(() => held)
    await expect.poll(async () => (await figures()).get('tocsin_slots_owned', { topic })).toBe(8)
    for (const key of ['a', 'b']) await schedule(topic, { key, delay: '0s' })
    await expect.poll(async () => (await figures()).get('tocsin_in_flight'), { timeout: 10_000 }).toBe(2)
    release()
    await expect.poll(async () => (await figures()).get('tocsin_in_flight'), { timeout: 10_000 }).toBe(0)
    await consumer.stop()
    expect((await figures()).get('tocsin_outcomes_total', { topic, outcome: 'done' })).toBe(2)
  })

  it('long polls that wait', async () => {
    const topic = await topicOf()
    const waiting = claim(topic)
    await expect.poll(async () => (await figures()).get('tocsin_waiting_claims', { topic })).toBe(1)
    await schedule(topic, { key: 'a', delay: '0s' })
    await waiting
    expect((await figures()).get('tocsin_waiting_claims', { topic })).toBe(0)
  })
})

describe('what lies in the store', () => {
  it('tasks by state', async () => {
    const topic = await topicOf()
    for (const key of ['a', 'b', 'c']) await schedule(topic, { key, delay: '0s' })
    const tasks = await claim(topic, 3)
    while (tasks.length < 3) tasks.push(...(await claim(topic, 3 - tasks.length)))
    await settle(topic, tasks[0], { outcome: 'dead' })
    await schedule(topic, { key: 'd', delay: '1h' })
    await schedule(topic, { key: 'e', delay: '0s' })
    const seen = await figures()
    const counts = ['pending', 'due', 'claimed', 'dead'].map((state) =>
      seen.get('tocsin_tasks', { topic, state }),
    )
    expect(counts).toEqual([2, 1, 2, 1])
  })

  it('how long the oldest has waited, of a topic that is paused', async () => {
    const topic = await topicOf()
    expect((await figures()).get('tocsin_oldest_overdue_seconds', { topic })).toBe(0)
    await server.post(`/v1/topics/${topic}/pause`)
    await schedule(topic, { key: 'a', at: ago(200_000) })
    await schedule(topic, { key: 'b', at: ago(100_000) })
    const seen = await figures()
    expect(seen.get('tocsin_oldest_overdue_seconds', { topic })).toBeGreaterThanOrEqual(200)
    expect(seen.get('tocsin_oldest_overdue_seconds', { topic })).toBeLessThan(300)
    expect(seen.get('tocsin_paused', { topic })).toBe(1)
    await server.post(`/v1/topics/${topic}/resume`)
    expect((await figures()).get('tocsin_paused', { topic })).toBe(0)
  })

  it('what falls due in the next minute, per second', async () => {
    const topic = await topicOf()
    const soon = Array.from({ length: 120 }, (_, n) => ({ key: `k${n}`, delay: '40s', payload: null }))
    const later = Array.from({ length: 50 }, (_, n) => ({ key: `l${n}`, delay: '5m', payload: null }))
    await server.post(`/v1/topics/${topic}/schedule`, { tasks: [...soon, ...later] })
    expect((await figures()).get('tocsin_due_per_second', { topic })).toBe(2)
  })

  it('how far the loader of a ledger is behind', async () => {
    using folder = temporaryFolder()
    await using other = await TestServer.start({ ledger: `sqlite:${join(folder.path, 't.db')}` })
    const topic = await topicOf({}, other)
    expect((await figures(other)).get('tocsin_loader_lag_seconds', { topic })).toBeUndefined()
    const consumer = other.served.toc.topic(topic).consume(async () => {})
    const lag = async () => (await figures(other)).get('tocsin_loader_lag_seconds', { topic })
    await expect.poll(lag, { timeout: 10_000 }).toBeTypeOf('number')
    expect(await lag()).toBeLessThan(60)
    await consumer.stop()
  })

  it(
    'a store that does not answer: what was counted here is told all the same',
    { timeout: 60_000 },
    async () => {
      await using redis = await startRedis()
      await using proxy = await startProxy(redis)
      await using other = await TestServer.start({ timetable: proxy.url(redis.url) })
      const topic = await topicOf({}, other)
      expect((await figures(other)).get('tocsin_store_up')).toBe(1)
      proxy.refuse()
      proxy.cut()
      await other.post(`/v1/topics/${topic}/tasks`, { key: 'a', delay: '1h', payload: null })
      const seen = await figures(other)
      expect(seen.get('tocsin_store_up')).toBe(0)
      expect(seen.get('tocsin_store_call_seconds_count', { call: 'schedule', result: 'failed' })).toBe(1)
      expect(seen.get('tocsin_tasks', { topic, state: 'pending' })).toBeUndefined()
      await proxy.accept()
      await expect
        .poll(async () => (await figures(other)).get('tocsin_store_up'), { timeout: 20_000 })
        .toBe(1)
    },
  )
})
