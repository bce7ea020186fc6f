import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { refusalOf, startPair, type Pair, STARTS_WITHIN_MS } from './harness.ts'

let pair: Pair
beforeAll(async () => {
  pair = await startPair()
}, STARTS_WITHIN_MS)
afterAll(() => pair.close())

let made = 0
async function freshTopic<T = unknown>() {
  const name = `topic-${++made}`
  await pair.client.declare(name)
  return pair.client.topic<T>(name)
}

describe('a topic on a server', () => {
  it('schedules, looks, moves and cancels, with dates as dates', async () => {
    const topic = await freshTopic<{ n: number }>()
    const at = new Date(Date.now() + 3_600_000)
    const first = await topic.schedule({
      key: 'a b/ü%',
      at,
      payload: { n: 1 },
      tags: ['t'],
      priority: 'high',
    })
    expect(first).toEqual({ key: 'a b/ü%', dueAt: at, outcome: 'created', inFlight: false })
    expect((await topic.schedule({ key: 'a b/ü%', at, payload: { n: 2 } })).outcome).toBe('replaced')
    const kept = await topic.schedule({ key: 'a b/ü%', delay: 1, payload: { n: 3 }, onConflict: 'keep' })
    expect(kept).toMatchObject({ outcome: 'kept', dueAt: at })

    const info = await topic.get('a b/ü%')
    expect(info).toMatchObject({ key: 'a b/ü%', payload: { n: 2 }, state: 'pending', dueAt: at, attempt: 1 })
    expect(info?.createdAt).toBeInstanceOf(Date)
    expect(info?.updatedAt).toBeInstanceOf(Date)

    const moved = await topic.reschedule('a b/ü%', { delay: 90_000 })
    expect(moved.outcome).toBe('rescheduled')
    expect(Math.abs((moved.dueAt?.getTime() ?? 0) - Date.now() - 90_000)).toBeLessThan(10_000)
    expect(await topic.cancel('a b/ü%')).toEqual({ key: 'a b/ü%', outcome: 'cancelled' })
    expect(await topic.cancel('a b/ü%')).toEqual({ key: 'a b/ü%', outcome: 'not-found' })
    expect(await topic.reschedule('a b/ü%', { delay: '1s' })).toEqual({
      key: 'a b/ü%',
      outcome: 'not-found',
      dueAt: null,
    })
    expect(await topic.get('a b/ü%')).toBeNull()
  })

  it('makes a key where none is given', async () => {
    const topic = await freshTopic()
    const { key } = await topic.schedule({ delay: '1h', payload: null })
    expect((await topic.get(key))?.payload).toBeNull()
  })

  it('takes an array as a whole, and answers in order', async () => {
    const topic = await freshTopic()
    const tasks = ['x', 'y', 'x'].map((key) => ({ key, delay: '1h', payload: key }))
    const answers = await topic.scheduleMany(tasks)
    expect(answers.map(({ key, outcome }) => [key, outcome])).toEqual([
      ['x', 'created'],
      ['y', 'created'],
      ['x', 'replaced'],
    ])
    expect(await topic.scheduleMany([])).toEqual([])
    const error = await refusalOf(topic.scheduleMany([...tasks, { key: 'z', delay: '5 min', payload: 0 }]))
    expect(error).toMatchObject({ code: 'bad-duration', details: { index: 3 } })
    const many = Array.from({ length: 10_001 }, () => ({ delay: '1h', payload: 0 }))
    expect(await refusalOf(topic.scheduleMany(many))).toMatchObject({ code: 'too-large' })
    expect((await topic.counts()).pending).toBe(2)
  })

  it('cancels many, also more than one call takes', async () => {
    const topic = await freshTopic()
    await topic.schedule({ key: 'k1', delay: '1h', payload: 0 })
    await topic.schedule({ key: 'k10001', delay: '1h', payload: 0 })
    const keys = Array.from({ length: 10_002 }, (_, i) => `k${i}`)
    const answers = await topic.cancelMany(keys)
    expect(answers.map(({ key }) => key)).toEqual(keys)
    expect(answers.filter(({ outcome }) => outcome === 'cancelled').map(({ key }) => key)).toEqual([
      'k1',
      'k10001',
    ])
    expect(await topic.cancelMany([])).toEqual([])
    expect(await refusalOf(topic.cancelMany(['ok', '']))).toMatchObject({
      code: 'bad-key',
      details: { field: 'keys[1]' },
    })
  })

  it('sweeps by tag and prefix', async () => {
    const topic = await freshTopic()
    for (const key of ['u1:a', 'u1:b', 'u2:a'])
      await topic.schedule({ key, delay: '1h', payload: 0, tags: ['c'] })
    expect(await topic.rescheduleBy({ prefix: 'u1' }, { shift: '+10m' })).toEqual({
      rescheduled: 2,
      inFlight: 0,
    })
    expect(await topic.rescheduleBy({ tag: 'c' }, { delay: 7_200_000 })).toEqual({
      rescheduled: 3,
      inFlight: 0,
    })
    expect(await refusalOf(topic.rescheduleBy({ tag: 'c' }, { shift: '10m' }))).toMatchObject({
      code: 'bad-time',
    })
    expect(await topic.cancelBy({ prefix: 'u1' })).toEqual({ cancelled: 2, inFlight: 0 })
    expect(await topic.cancelBy({ tag: 'c' })).toEqual({ cancelled: 1, inFlight: 0 })
  })

  it('lists page by page', async () => {
    const topic = await freshTopic()
    const startMs = Date.now() + 3_600_000
    const tasks = [3, 1, 2].map((n) => ({ key: `k${n}`, at: startMs + n * 1_000, payload: n, tags: ['t'] }))
    await topic.scheduleMany(tasks)
    const first = await topic.list({ limit: 2, tag: 't' })
    expect(first.tasks.map(({ key }) => key)).toEqual(['k1', 'k2'])
    const second = await topic.list({ limit: 2, tag: 't', cursor: first.cursor })
    expect(second.tasks.map(({ key }) => key)).toEqual(['k3'])
    expect(second.cursor).toBeNull()
    const late = await topic.list({ dueFrom: startMs + 2_500, dueTo: new Date(startMs + 10_000) })
    expect(late.tasks.map(({ key }) => key)).toEqual(['k3'])
  })

  it('claims, extends and settles, and a claimed task says so', async () => {
    const topic = await freshTopic<{ n: number }>()
    const keys = ['done', 'retry', 'snooze', 'dead']
    await topic.scheduleMany(keys.map((key, n) => ({ key, delay: 0, payload: { n } })))
    const tasks = await topic.claim({ wait: '5s', lease: 60_000 })
    while (tasks.length < 4) tasks.push(...(await topic.claim({ wait: '5s', lease: 60_000 })))
    const byKey = Object.fromEntries(tasks.map((task) => [task.key, task]))
    const [done, retry, snooze, dead] = keys.map((key) => byKey[key]!)
    expect(done).toMatchObject({ payload: { n: 0 }, attempt: 1, deliveries: 1, topic: topic.name })
    expect(done!.leaseUntil.getTime()).toBeGreaterThan(Date.now() + 30_000)
    expect(done!.dueAt).toBeInstanceOf(Date)

    expect(await topic.reschedule('done', { delay: '1h' })).toMatchObject({ outcome: 'in-flight' })
    expect(await topic.cancel('retry')).toEqual({ key: 'retry', outcome: 'in-flight' })
    expect(await topic.extend(tasks, { lease: '2m' })).toEqual(
      tasks.map(({ key }) => ({ key, outcome: 'extended' })),
    )
    const settled = await topic.settle([
      { ...done!, outcome: 'done' },
      { ...retry!, outcome: 'retry', delay: 1_000, reason: 'later' },
      { ...snooze!, outcome: 'snooze', delay: '1h' },
      { ...dead!, outcome: 'dead', reason: 'no such shop' },
    ])
    expect(settled).toEqual(keys.map((key) => ({ key, outcome: 'settled' })))
    expect(await topic.extend([done!])).toEqual([{ key: 'done', outcome: 'stale' }])
    expect(await topic.settle([])).toEqual([])
    expect(await topic.extend([])).toEqual([])
    // It was cancelled while it was claimed: its retry does not follow.
    expect(await topic.get('retry')).toBeNull()
    expect(await topic.get('dead')).toMatchObject({
      state: 'dead',
      lastError: 'no such shop',
      deadCause: 'handler',
    })
    await topic.schedule({ key: 'dead', delay: '1h', payload: { n: 9 } })
    await topic.cancel('dead')
    expect(await topic.dead.replay({ all: true })).toEqual({ replayed: 0, superseded: 1 })
    expect((await topic.list({ state: 'dead' })).tasks).toMatchObject([{ key: 'dead', superseded: true }])
    expect(await topic.dead.replay({ keys: ['dead'] })).toEqual({ replayed: 1, superseded: 0 })
    expect(await topic.dead.purge({ all: true })).toEqual({ purged: 0 })
  })

  it('waits for a task, and ends with none', async () => {
    const topic = await freshTopic()
    expect(await topic.claim()).toEqual([])
    const waiting = topic.claim({ wait: '10s', limit: 1 })
    await topic.schedule({ key: 'k', delay: '50ms', payload: 0 })
    expect((await waiting).map(({ key }) => key)).toEqual(['k'])
  })

  it('shows and changes settings, and pauses', async () => {
    const topic = await freshTopic()
    const view = await topic.configure({ lease: 90_000, rate: { limit: 5, per: 1_000 } })
    expect(view.effective).toMatchObject({ lease: '1m30s', rate: { limit: 5, per: '1s' } })
    const cleared = await pair.client.configure(
      topic.name,
      { rate: null, retry: { min: 2_000 } },
      { ifVersion: view.version },
    )
    expect(cleared.live).toEqual({ lease: '1m30s', retry: { min: '2s' } })
    expect(await refusalOf(topic.configure({ lease: '1s' }, { ifVersion: view.version }))).toMatchObject({
      code: 'version-conflict',
      status: 412,
    })
    await topic.pause()
    expect(await topic.config()).toMatchObject({ paused: true })
    await topic.resume()
    expect(await topic.config()).toMatchObject({ paused: false })
  })

  it('refuses here what could not be said there', async () => {
    const topic = await freshTopic()
    const cyclic: { self?: unknown } = {}
    cyclic.self = cyclic
    const refused = async (call: Promise<unknown>) => (await refusalOf(call)).code
    expect(await refused(topic.schedule({ delay: '1s', payload: cyclic }))).toBe('bad-payload')
    expect(await refused(topic.schedule({ delay: '1s', payload: undefined }))).toBe('bad-payload')
    expect(await refused(topic.schedule({ at: 1_700_000_000, payload: 0 }))).toBe('bad-time')
    expect(await refused(topic.schedule({ payload: 0 } as never))).toBe('bad-time')
    expect(await refused(topic.schedule(null as never))).toBe('bad-option')
    expect(await refused(topic.schedule({ delay: 1, payload: 0, dealy: 2 } as never))).toBe('bad-option')
    expect(await refused(topic.get('..'))).toBe('bad-key')
    expect(await refused(topic.claim({ wait: '2m' }))).toBe('bad-option')
    expect(await refused(topic.scheduleMany(7 as never))).toBe('bad-option')
    expect(() => pair.client.topic('Not A Topic')).toThrow(/not a topic name/)
  })
})

describe('the server as a whole', () => {
  it('tells its topics, figures, nodes, forecast and metrics', async () => {
    const { client } = pair
    const topic = await freshTopic()
    await topic.schedule({ key: 'soon', delay: '90s', payload: 0 })
    expect(await client.topics()).toContainEqual({
      topic: topic.name,
      version: expect.any(Number) as number,
      paused: false,
    })
    const stats = await client.stats({ topic: topic.name })
    expect(stats.at).toBeInstanceOf(Date)
    expect(stats).toMatchObject({
      topics: [{ topic: topic.name, pending: 1, oldestOverdueMs: 0 }],
      total: { pending: 1 },
    })
    const now = Date.now()
    const [forecast] = await client.forecast({
      topic: topic.name,
      from: now,
      to: now + 180_000,
      step: '1m',
    })
    expect(forecast?.steps.map(({ due }) => due)).toEqual([0, 1, 0])
    expect(forecast?.steps[0]?.at).toBeInstanceOf(Date)
    expect((await topic.forecast({ from: now, to: now + 180_000, step: 60_000 })).length).toBe(3)
    const [node] = await client.nodes()
    expect(node).toMatchObject({ isSelf: true, pid: process.pid })
    expect(node?.startedAt).toBeInstanceOf(Date)
    expect(await client.metrics()).toContain('tocsin_tasks{')
    expect(await client.ready()).toBe(true)
    expect(await refusalOf(client.audit())).toMatchObject({ code: 'ledger-required' })
  })

  it('makes, lists, replaces and takes back tokens', async () => {
    await using locked = await startPair({ adminToken: 'an-admin-token-of-some-length' })
    expect(await refusalOf(locked.client.topics())).toMatchObject({ code: 'unauthorized', status: 401 })
    const { TocsinClient } = await import('tocsin/client')
    const admin = new TocsinClient({ url: locked.url, token: 'an-admin-token-of-some-length' })
    const made = await admin.tokens.create({
      name: 'reader',
      scopes: ['read'],
      topicPrefix: 'shop',
      expiresIn: '1h',
      rate: { limit: 100, per: 1_000 },
      bodyBytesMax: 1_000,
    })
    expect(made).toMatchObject({ name: 'reader', scopes: ['read'], rate: { limit: 100, per: '1s' } })
    expect(made.createdAt).toBeInstanceOf(Date)
    expect(made.expiresAt).toBeInstanceOf(Date)
    const reader = new TocsinClient({ url: locked.url, token: made.token })
    expect(await reader.topics()).toEqual([])
    expect(await refusalOf(reader.declare('shop'))).toMatchObject({ code: 'forbidden' })
    const next = await admin.tokens.rotate(made.id, { overlap: 0 })
    expect(await refusalOf(reader.topics())).toMatchObject({ code: 'unauthorized' })
    const ids = (await admin.tokens.list()).map(({ id }) => id)
    expect(ids).toEqual(expect.arrayContaining([made.id, next.id]))
    expect(JSON.stringify(await admin.tokens.list())).not.toContain(next.token)
    await admin.tokens.revoke(next.id)
    expect(await refusalOf(admin.tokens.revoke(next.id))).toMatchObject({ code: 'not-found' })
  })

  it('audits where there is a ledger', async () => {
    const { mkdtemp, rm } = await import('node:fs/promises')
    const folder = await mkdtemp('/tmp/tocsin-client-')
    try {
      await using kept = await startPair({ timetable: undefined, ledger: `sqlite:${folder}/t.db` })
      await kept.client.declare('shop')
      await kept.client.topic('shop').schedule({ key: 'a', delay: '1h', payload: 0 })
      const { balances, topics } = await kept.client.audit()
      expect(balances).toBe(true)
      expect(topics).toMatchObject([{ topic: 'shop', books: { scheduled: 1, pending: 1 } }])
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
