import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TestServer } from './harness.ts'

let server: TestServer
beforeAll(async () => {
  server = await TestServer.start()
})
afterAll(() => server[Symbol.asyncDispose]())

let topics = 0
async function topicOf(config: object = {}): Promise<string> {
  const name = `pull-${++topics}`
  await server.declare(name, config)
  return `/v1/topics/${name}`
}

describe('claim', () => {
  it('answers what is due, with what proves the claim', async () => {
    const t = await topicOf()
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: { n: 1 }, tags: ['x'] })
    const { json } = await server.post(`${t}/claim`, { limit: 10, wait: '5s', lease: '10s' })
    expect(json.tasks).toMatchObject([
      { key: 'a', payload: { n: 1 }, attempt: 1, deliveries: 1, tags: ['x'] },
    ])
    const [task] = json.tasks
    expect(Date.parse(task.leaseUntil) - Date.now()).toBeGreaterThan(5_000)
    expect((await server.post(`${t}/claim`, { wait: '0s' })).json).toEqual({ tasks: [] })
    const settled = await server.post(`${t}/settle`, {
      tasks: [{ key: 'a', token: task.token, outcome: 'done' }],
    })
    expect(settled.json).toEqual({ results: [{ key: 'a', outcome: 'settled' }] })
    const again = await server.post(`${t}/settle`, {
      tasks: [{ key: 'a', token: task.token, outcome: 'done' }],
    })
    expect(again.json).toEqual({ results: [{ key: 'a', outcome: 'stale' }] })
  })

  it('waits, and answers when a task falls due', async () => {
    const t = await topicOf()
    const waiting = server.post(`${t}/claim`, { wait: '20s' })
    await server.post(`${t}/tasks`, { key: 'soon', delay: '300ms', payload: null })
    const { json } = await waiting
    expect(json.tasks).toMatchObject([{ key: 'soon' }])
    expect(json.tasks[0].latenessMs).toBeLessThan(5_000)
  })

  it('brings many of many cells at once, and no more than was asked for', async () => {
    const t = await topicOf()
    const tasks = Array.from({ length: 500 }, (_, n) => ({ key: `k${n}`, delay: '0s', payload: n }))
    await server.post(`${t}/schedule`, { tasks })
    const keys = new Set<string>()
    let calls = 0
    while (keys.size < 500 && calls++ < 60) {
      const { json } = await server.post(`${t}/claim`, { limit: 200, wait: '1s' })
      expect(json.tasks.length).toBeLessThanOrEqual(200)
      for (const { key } of json.tasks) {
        expect(keys.has(key)).toBe(false)
        keys.add(key)
      }
    }
    expect(keys.size).toBe(500)
    expect(calls).toBeLessThan(20)
  })

  it('is shared by those who wait: each task goes to one', async () => {
    const t = await topicOf()
    const polls = Array.from({ length: 8 }, () => server.post(`${t}/claim`, { limit: 1, wait: '20s' }))
    const tasks = Array.from({ length: 8 }, (_, n) => ({ key: `k${n}`, delay: '100ms', payload: n }))
    await server.post(`${t}/schedule`, { tasks })
    const keys = (await Promise.all(polls)).flatMap(({ json }) =>
      json.tasks.map(({ key }: { key: string }) => key),
    )
    expect(new Set(keys)).toEqual(new Set(tasks.map(({ key }) => key)))
  })

  it('a client that disconnects while waiting claims nothing', async () => {
    const t = await topicOf()
    const gone = new AbortController()
    const waiting = server.post(`${t}/claim`, { wait: '20s' }, { signal: gone.signal }).catch(() => null)
    await server.post(`${t}/claim`, { wait: '50ms' })
    gone.abort()
    await waiting
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    const { json } = await server.post(`${t}/claim`, { wait: '10s' })
    expect(json.tasks).toMatchObject([{ key: 'a', deliveries: 1 }])
  })

  it('hands out nothing while the topic is paused', async () => {
    const t = await topicOf()
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    await server.post(`${t}/pause`)
    expect((await server.post(`${t}/claim`, { wait: '200ms' })).json.tasks).toEqual([])
    const waiting = server.post(`${t}/claim`, { wait: '10s' })
    await server.post(`${t}/resume`)
    expect((await waiting).json.tasks).toMatchObject([{ key: 'a' }])
  })

  it('when a lease expires another consumer gets the task, and the first claim is stale', async () => {
    const t = await topicOf()
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    const first = (await server.post(`${t}/claim`, { wait: '5s', lease: '1s' })).json.tasks[0]
    const second = (await server.post(`${t}/claim`, { wait: '20s', lease: '30s' })).json.tasks[0]
    expect(second).toMatchObject({ key: 'a', id: first.id, attempt: 1, deliveries: 2 })
    const say = (token: string) =>
      server.post(`${t}/settle`, { tasks: [{ key: 'a', token, outcome: 'done' }] })
    expect((await say(first.token)).json.results[0].outcome).toBe('stale')
    expect((await say(second.token)).json.results[0].outcome).toBe('settled')
  })

  it('an extended lease holds', async () => {
    const t = await topicOf()
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    const { token } = (await server.post(`${t}/claim`, { wait: '5s', lease: '1s' })).json.tasks[0]
    const extended = await server.post(`${t}/extend`, { tasks: [{ key: 'a', token }], lease: '1m' })
    expect(extended.json).toEqual({ results: [{ key: 'a', outcome: 'extended' }] })
    expect((await server.post(`${t}/claim`, { wait: '2s' })).json.tasks).toEqual([])
    const settled = await server.post(`${t}/settle`, { tasks: [{ key: 'a', token, outcome: 'done' }] })
    expect(settled.json.results).toEqual([{ key: 'a', outcome: 'settled' }])
  })
})

describe('outcomes', () => {
  it('retry counts a failure, and the last one allowed is death', async () => {
    const t = await topicOf({ retry: { maxAttempts: 2, min: '1ms', max: '1ms', jitter: 0 } })
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    for (const attempt of [1, 2]) {
      const [task] = (await server.post(`${t}/claim`, { wait: '10s' })).json.tasks
      expect(task.attempt).toBe(attempt)
      await server.post(`${t}/settle`, {
        tasks: [{ key: 'a', token: task.token, outcome: 'retry', reason: `no luck ${attempt}` }],
      })
    }
    const got = await server.get(`${t}/tasks/a`)
    expect(got.json).toMatchObject({ state: 'dead', deadCause: 'attempts', lastError: 'no luck 2' })
    expect((await server.post(`${t}/dead/replay`, { keys: ['a'] })).json).toEqual({
      replayed: 1,
      superseded: 0,
    })
    const [task] = (await server.post(`${t}/claim`, { wait: '10s' })).json.tasks
    await server.post(`${t}/settle`, {
      tasks: [{ key: 'a', token: task.token, outcome: 'dead', reason: 'enough' }],
    })
    expect((await server.get(`${t}/tasks/a`)).json).toMatchObject({
      deadCause: 'handler',
      lastError: 'enough',
    })
    expect((await server.post(`${t}/dead/purge`, { all: true })).json).toEqual({ purged: 1 })
  })

  it('snooze is no failure, and needs its delay', async () => {
    const t = await topicOf()
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    const [task] = (await server.post(`${t}/claim`, { wait: '10s' })).json.tasks
    const say = (more: object) =>
      server.post(`${t}/settle`, { tasks: [{ key: 'a', token: task.token, outcome: 'snooze', ...more }] })
    expect(await say({})).toMatchObject({ status: 400, json: { error: { field: 'tasks[0].delay' } } })
    expect((await say({ delay: '10ms' })).json.results[0].outcome).toBe('settled')
    const [again] = (await server.post(`${t}/claim`, { wait: '10s' })).json.tasks
    expect(again).toMatchObject({ attempt: 1, deliveries: 2 })
  })

  it('what is no token is refused, and nothing of the call is done', async () => {
    const t = await topicOf()
    await server.post(`${t}/tasks`, { key: 'a', delay: '0s', payload: null })
    const [task] = (await server.post(`${t}/claim`, { wait: '10s' })).json.tasks
    const settled = await server.post(`${t}/settle`, {
      tasks: [
        { key: 'a', token: task.token, outcome: 'done' },
        { key: 'b', token: 'what', outcome: 'done' },
      ],
    })
    expect(settled).toMatchObject({
      status: 400,
      json: { error: { code: 'bad-token', field: 'tasks[1].token' } },
    })
    expect((await server.get(`${t}/tasks/a`)).json.state).toBe('claimed')
  })
})

it('a server that closes answers those who wait at once, with nothing', async () => {
  const other = await TestServer.start()
  await other.declare('closing')
  const startedMs = performance.now()
  const waiting = other.post('/v1/topics/closing/claim', { wait: '60s' })
  await other.post('/v1/topics/closing/claim', { wait: '50ms' })
  await other.served.close()
  expect((await waiting).json).toEqual({ tasks: [] })
  expect(performance.now() - startedMs).toBeLessThan(20_000)
})
