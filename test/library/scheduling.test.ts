import { describe, expect, it } from 'vitest'
import { type NewTask, type Task, Tocsin } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { inFlight, recordFirings } from './helpers.ts'

const START = '2026-01-01T00:00:00Z'
const after = (ms: number): Date => new Date(Date.parse(START) + ms)

/** The same numbers every time: a failure can be looked at again. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

describe('outcomes', () => {
  it('created, replaced, kept', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    expect(await topic.schedule({ key: 'k', delay: '30m', payload: 'first' })).toEqual({
      key: 'k',
      dueAt: after(30 * 60_000),
      outcome: 'created',
      inFlight: false,
    })
    expect(await topic.schedule({ key: 'k', delay: '5m', payload: 'second' })).toEqual({
      key: 'k',
      dueAt: after(5 * 60_000),
      outcome: 'replaced',
      inFlight: false,
    })
    expect(await topic.schedule({ key: 'k', delay: '1m', payload: 'third', onConflict: 'keep' })).toEqual({
      key: 'k',
      dueAt: after(5 * 60_000),
      outcome: 'kept',
      inFlight: false,
    })
    const payloads: string[] = []
    topic.consume(async (task) => void payloads.push(task.payload))
    await toc.advance('1h')
    expect(payloads).toEqual(['second'])
  })

  it('keep schedules when there is nothing to keep', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const scheduled = await topic.schedule({ key: 'k', delay: 1, payload: null, onConflict: 'keep' })
    expect(scheduled.outcome).toBe('created')
  })

  it('replaces all of the older task', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await topic.schedule({ key: 'k', delay: '1m', payload: 'old', tags: ['a', 'b'], priority: 'high' })
    await toc.advance('10s')
    await topic.schedule({ key: 'k', delay: '1m', payload: 'new', tags: ['c'] })
    expect(await topic.get('k')).toMatchObject({
      payload: 'new',
      tags: ['c'],
      priority: 'normal',
      createdAt: after(10_000),
    })
    expect(await topic.cancelBy({ tag: 'a' })).toEqual({ cancelled: 0, inFlight: 0 })
    expect((await topic.counts()).pending).toBe(1)
  })

  it('replaces what a handler has: its answer no longer counts', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    const got: string[] = []
    const held = await inFlight(toc, topic, 'k', 'old', got)
    const scheduled = await topic.schedule({ key: 'k', delay: '10s', payload: 'new' })
    expect(scheduled).toMatchObject({ outcome: 'replaced', inFlight: true, dueAt: after(11_000) })
    expect(held.signal.aborted).toBe(true)
    expect(held.signal.reason).toMatchObject({ code: 'lease-lost' })
    await held.fail('too late to be heard')
    expect(await topic.get('k')).toMatchObject({ payload: 'new', attempt: 1, deliveries: 0, id: null })
    await toc.advance('10s')
    expect(got).toEqual(['k#1', 'k#1'])
    expect((await topic.counts()).pending).toBe(0)
  })

  it('keeps what a handler has, and says so', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    const held = await inFlight(toc, topic, 'k', 'old')
    expect(await topic.schedule({ key: 'k', delay: '10s', payload: 'new', onConflict: 'keep' })).toEqual({
      key: 'k',
      dueAt: after(1_000),
      outcome: 'kept',
      inFlight: true,
    })
    await held.end()
    expect(await topic.get('k')).toBeNull()
  })

  it('a key is free again once its task ended', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'k', delay: 1, payload: null })
    await toc.advance(1)
    expect((await topic.schedule({ key: 'k', delay: 1, payload: null })).outcome).toBe('created')
    await toc.advance(1)
    expect(fired).toEqual([
      ['k', 1],
      ['k', 2],
    ])
  })

  it('the same key in two topics is two tasks', async () => {
    await using toc = await testTocsin()
    const [a, b] = [toc.topic<null>('a'), toc.topic<null>('b')]
    await a.schedule({ key: 'k', delay: 1, payload: null })
    expect((await b.schedule({ key: 'k', delay: 1, payload: null })).outcome).toBe('created')
    expect((await a.cancel('k')).outcome).toBe('cancelled')
    expect((await b.counts()).pending).toBe(1)
  })
})

describe('keys', () => {
  it('are made when none is given, each its own', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const made = await topic.scheduleMany(
      Array.from({ length: 3_000 }, (_, n) => ({ delay: '1m', payload: n, key: undefined })),
    )
    expect(new Set(made.map(({ key }) => key)).size).toBe(3_000)
    expect(made.every(({ outcome }) => outcome === 'created')).toBe(true)
    expect(await topic.get(made[42]?.key ?? '')).toMatchObject({ payload: 42 })
  })

  it('that are made never meet a key of the caller', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    for (let n = 0; n < 50; n++) await topic.schedule({ key: `test-${n}`, delay: '1m', payload: n })
    for (let n = 0; n < 50; n++)
      expect((await topic.schedule({ delay: '1m', payload: n })).outcome).toBe('created')
  })

  it.each([
    'k',
    ' ',
    'ключ',
    '🔔',
    'a/b?c#d',
    "'; DROP TABLE",
    '{tag}',
    'x'.repeat(256),
    'é'.repeat(128),
    ':',
    'a:',
  ])('may be %j', async (key) => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    expect(await topic.schedule({ key, delay: 1, payload: null })).toMatchObject({ key })
    expect(await topic.get(key)).toMatchObject({ key })
    await toc.advance(1)
    expect(fired).toEqual([[key, 1]])
  })
})

describe('times', () => {
  it.each<[string, object, number]>([
    ['delay in ms', { delay: 1_500 }, 1_500],
    ['a fraction of a ms counts as a whole one', { delay: 0.2 }, 1],
    ['delay as text', { delay: '1h30m' }, 5_400_000],
    ['no delay', { delay: 0 }, 0],
    ["'0s'", { delay: '0s' }, 0],
    ['a Date', { at: after(5_000) }, 5_000],
    ['ms since 1970', { at: Date.parse(START) + 5_000 }, 5_000],
    ['RFC 3339 in UTC', { at: '2026-01-01T00:00:05Z' }, 5_000],
    ['RFC 3339 with an offset', { at: '2026-01-01T08:00:05.250+08:00' }, 5_250],
    ['RFC 3339 finer than a ms', { at: '2026-01-01T00:00:05.0001Z' }, 5_001],
    ['something like Temporal', { at: { epochMilliseconds: Date.parse(START) + 7 } }, 7],
    ['the other one undefined', { delay: 10, at: undefined }, 10],
  ])('%s', async (_, when, ms) => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const late: number[] = []
    topic.consume(async (task) => void late.push(task.latenessMs))
    const { dueAt } = await topic.schedule({ payload: null, ...when } as NewTask<null>)
    expect(dueAt).toEqual(after(ms))
    if (ms > 0) {
      await toc.advance(ms - 1)
      expect(late).toEqual([])
      await toc.advance(1)
    } else await toc.advance(0)
    expect(late).toEqual([0])
  })

  it('what is past fires at once and says how late it is', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const seen: [Date, number][] = []
    topic.consume(async (task) => void seen.push([task.dueAt, task.latenessMs]))
    const { dueAt } = await topic.schedule({ at: after(-60_000), payload: null })
    expect(dueAt).toEqual(after(-60_000))
    await toc.advance(0)
    expect(seen).toEqual([[after(-60_000), 60_000]])
  })

  it('a delay counts from the call, not from the start', async () => {
    await using toc = await testTocsin({ now: '2026-11-11T00:00:00+08:00' })
    const topic = toc.topic<null>('order.unpaid')
    await toc.advance('1h')
    const { dueAt } = await topic.schedule({ delay: '30m', payload: null })
    expect(dueAt.toISOString()).toBe('2026-11-10T17:30:00.000Z')
    expect(toc.now().toISOString()).toBe('2026-11-10T17:00:00.000Z')
  })

  it('a year', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'k', delay: '365d', payload: null })
    await toc.advance('364d23h59m59s999ms')
    expect(fired).toEqual([])
    await toc.advance('1ms')
    expect(fired).toEqual([['k', 365 * 86_400_000]])
  })

  it('a consumer that comes late gets what was due before', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    await topic.schedule({ key: 'k', delay: '1m', payload: null })
    await toc.advance('1h')
    expect(await topic.counts()).toEqual({ pending: 1, due: 1, claimed: 0, dead: 0 })
    const fired = recordFirings(topic, toc)
    await toc.advance(0)
    expect(fired).toEqual([['k', 0]])
  })

  it('an earlier arrival is not held up by a later one', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid', { slots: 1 })
    const fired = recordFirings(topic, toc)
    for (const delay of ['1h', '10m', '1s', '1m']) await topic.schedule({ key: delay, delay, payload: null })
    await toc.advance('1h')
    expect(fired.map(([key]) => key)).toEqual(['1s', '1m', '10m', '1h'])
  })

  it('a thousand at random fire each at its ms, in their order', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const random = numbers(7)
    const delays = Array.from({ length: 1_000 }, () => Math.floor(random() * 60_000))
    const seen: Task<number>[] = []
    topic.consume(async (task) => void seen.push(task))
    await topic.scheduleMany(delays.map((delay, n) => ({ key: `k-${n}`, delay, payload: delay })))
    await toc.advance('1m')
    expect(seen.map(({ payload }) => payload)).toEqual(delays.toSorted((a, b) => a - b))
    expect(seen.every(({ latenessMs }) => latenessMs === 0)).toBe(true)
    expect(seen.every(({ dueAt, payload }) => dueAt.getTime() === after(payload).getTime())).toBe(true)
  })

  it('what a handler schedules fires as well', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('chain')
    const seen: [number, number][] = []
    topic.consume(async ({ payload }) => {
      seen.push([payload, toc.now().getTime() - after(0).getTime()])
      if (payload < 4) await topic.schedule({ key: `k-${payload + 1}`, delay: '1s', payload: payload + 1 })
    })
    await topic.schedule({ key: 'k-1', delay: '1s', payload: 1 })
    await toc.advance('10s')
    expect(seen).toEqual([
      [1, 1_000],
      [2, 2_000],
      [3, 3_000],
      [4, 4_000],
    ])
  })

  it('a handler may schedule its own key again', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('chain')
    const seen: number[] = []
    topic.consume(async ({ payload, key }) => {
      seen.push(payload)
      if (payload < 3) await topic.schedule({ key, delay: '1s', payload: payload + 1 })
    })
    await topic.schedule({ key: 'k', delay: '1s', payload: 1 })
    await toc.advance('10s')
    expect(seen).toEqual([1, 2, 3])
    expect(await topic.get('k')).toBeNull()
  })
})

describe('smear', () => {
  it('puts the task within its span, and tells where', async () => {
    await using toc = await Tocsin.open({ timetable: 'memory:', logger: false })
    const topic = toc.topic<null>('campaign.push')
    const dueMs = Date.parse('2100-01-01T00:00:00Z')
    const scheduled = await topic.scheduleMany(
      Array.from({ length: 2_000 }, () => ({ at: dueMs, smear: '10s', payload: null })),
    )
    const offsets = scheduled.map(({ dueAt }) => dueAt.getTime() - dueMs)
    expect(Math.min(...offsets)).toBeGreaterThanOrEqual(0)
    expect(Math.max(...offsets)).toBeLessThanOrEqual(10_000)
    // Spread, not heaped: each tenth of the span gets its share.
    for (let tenth = 0; tenth < 10; tenth++)
      expect(offsets.filter((ms) => Math.floor(ms / 1_000) === tenth).length).toBeGreaterThan(100)
  })

  it('fires where it was put, and is not late for it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('campaign.push')
    const late: number[] = []
    topic.consume(async (task) => void late.push(task.latenessMs))
    const { dueAt } = await topic.schedule({ delay: '1m', smear: '10s', payload: null })
    const ms = dueAt.getTime() - after(0).getTime()
    await toc.advance(ms - 1)
    expect(late).toEqual([])
    await toc.advance(1)
    expect(late).toEqual([0])
  })

  it('of nothing changes nothing', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('campaign.push')
    expect((await topic.schedule({ delay: '1m', smear: 0, payload: null })).dueAt).toEqual(after(60_000))
  })
})

describe('priority', () => {
  it('goes first among what is due at once', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { slotBy: 'prefix' })
    await topic.pause()
    const order: string[] = []
    topic.consume(async (task) => void order.push(task.priority), { concurrency: 1 })
    const priorities = ['low', 'normal', 'high', 'normal', 'low', 'high'] as const
    await topic.scheduleMany(
      priorities.map((priority, n) => ({ key: `u:${n}`, delay: n, priority, payload: null })),
    )
    await toc.advance('1m')
    await topic.resume()
    await toc.advance(0)
    expect(order).toEqual(['high', 'high', 'normal', 'normal', 'low', 'low'])
  })

  it('does so over the whole topic, not only within a share of it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    await topic.pause()
    const order: string[] = []
    topic.consume(async (task) => void order.push(task.priority), { concurrency: 1 })
    const priorities = ['low', 'normal', 'high'] as const
    await topic.scheduleMany(
      priorities.flatMap((priority) =>
        Array.from({ length: 100 }, (_, n) => ({
          key: `${priority}-${n}`,
          delay: 0,
          priority,
          payload: null,
        })),
      ),
    )
    await toc.advance('1m')
    await topic.resume()
    await toc.advance(0)
    const mean = (priority: string) =>
      order.reduce((sum, one, i) => sum + (one === priority ? i : 0), 0) / 100
    expect(order.length).toBe(300)
    expect(mean('high')).toBeLessThan(mean('normal'))
    expect(mean('normal')).toBeLessThan(mean('low'))
  })

  it('does not fire anything early', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'high', delay: '2s', priority: 'high', payload: null })
    await topic.schedule({ key: 'low', delay: '1s', priority: 'low', payload: null })
    await toc.advance('2s')
    expect(fired).toEqual([
      ['low', 1_000],
      ['high', 2_000],
    ])
  })
})

describe('tags', () => {
  it('arrive with the task, each once', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const seen: (readonly string[])[] = []
    topic.consume(async (task) => void seen.push(task.tags))
    await topic.schedule({ delay: 1, payload: null, tags: ['campaign:77', 'shop:9', 'shop:9'] })
    await topic.schedule({ delay: 2, payload: null, tags: [] })
    await topic.schedule({ delay: 3, payload: null })
    await topic.schedule({ delay: 4, payload: null, tags: ['a', 'b', 'c', 'd'] })
    await toc.advance(4)
    expect(seen).toEqual([['campaign:77', 'shop:9'], [], [], ['a', 'b', 'c', 'd']])
  })
})

describe('merge', () => {
  const config = { slotBy: 'prefix', merge: '1s', batchSize: 100 } as const

  it('brings what one prefix has within the span in one batch, never early', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', config)
    const batches: string[][] = []
    topic.consumeBatch(async (tasks) => {
      batches.push(tasks.map(({ key }) => key).toSorted())
      for (const { dueAt, latenessMs } of tasks) {
        expect(toc.now().getTime()).toBeGreaterThanOrEqual(dueAt.getTime())
        expect(latenessMs).toBeGreaterThanOrEqual(0)
        expect(latenessMs).toBeLessThan(1_000)
      }
    })
    for (const [key, delay] of [
      ['ann:1', 10_100],
      ['bob:1', 10_400],
      ['ann:2', 10_500],
      ['ann:3', 10_900],
      ['ann:4', 20_000],
    ] as const)
      await topic.schedule({ key, delay, payload: null })
    await toc.advance(10_899)
    expect(batches.flat()).not.toContain('ann:3')
    await toc.advance('10s')
    const ofAnn = batches.map((batch) => batch.filter((key) => key.startsWith('ann')))
    expect(ofAnn.filter((batch) => batch.length > 0)).toEqual([['ann:1', 'ann:2', 'ann:3'], ['ann:4']])
    expect(batches.flat().length).toBe(5)
  })

  it('no batch splits a prefix', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { ...config, batchSize: 10 })
    const batches: string[][] = []
    topic.consumeBatch(async (tasks) => void batches.push(tasks.map(({ key }) => key)), { concurrency: 1 })
    const keys = Array.from({ length: 40 }, (_, user) => [1, 2, 3].map((n) => `user-${user}:${n}`)).flat()
    await topic.scheduleMany(keys.map((key, i) => ({ key, delay: 10_001 + (i % 7) * 100, payload: null })))
    await toc.advance('20s')
    expect(batches.flat().toSorted()).toEqual(keys.toSorted())
    expect(Math.max(...batches.map(({ length }) => length))).toBeLessThanOrEqual(10)
    for (let user = 0; user < 40; user++) {
      const having = batches.filter((batch) => batch.some((key) => key.startsWith(`user-${user}:`)))
      expect(having.length).toBe(1)
    }
  })

  it('goes by live configuration', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { slotBy: 'prefix' })
    const batches: number[] = []
    topic.consumeBatch(async (tasks) => void batches.push(tasks.length))
    await topic.configure({ merge: '1s' })
    await topic.schedule({ key: 'ann:1', delay: 100, payload: null })
    await topic.schedule({ key: 'ann:2', delay: 700, payload: null })
    await toc.advance('2s')
    await topic.configure({ merge: null })
    await topic.schedule({ key: 'ann:1', delay: 100, payload: null })
    await topic.schedule({ key: 'ann:2', delay: 700, payload: null })
    await toc.advance('2s')
    expect(batches).toEqual([2, 1, 1])
  })
})

describe('many', () => {
  it('an array is answered in its order', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.schedule({ key: 'k-1', delay: 1, payload: 0 })
    await topic.schedule({ key: 'k-2', delay: 2, payload: 0 })
    const answers = await topic.scheduleMany([
      { key: 'k-3', delay: 30, payload: 3 },
      { key: 'k-2', delay: 20, payload: 2, onConflict: 'keep' },
      { key: 'k-1', delay: 10, payload: 1 },
      { key: 'k-3', delay: 31, payload: 4 },
    ])
    expect(answers).toEqual([
      { key: 'k-3', dueAt: after(30), outcome: 'created', inFlight: false },
      { key: 'k-2', dueAt: after(2), outcome: 'kept', inFlight: false },
      { key: 'k-1', dueAt: after(10), outcome: 'replaced', inFlight: false },
      { key: 'k-3', dueAt: after(31), outcome: 'replaced', inFlight: false },
    ])
  })

  it('an array of 5,000', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const tasks = Array.from({ length: 5_000 }, (_, n) => ({ key: `k-${n}`, delay: n, payload: n }))
    const answers = await topic.scheduleMany(tasks)
    expect(answers.map(({ key, dueAt }) => [key, dueAt])).toEqual(
      tasks.map(({ key, delay }) => [key, after(delay)]),
    )
  })

  it('nothing is nothing', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    expect(await topic.scheduleMany([])).toEqual([])
    expect(await topic.scheduleMany(new Set<never>())).toEqual({ created: 0, replaced: 0, kept: 0 })
  })

  it('what is changed after the call is not seen', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<{ n: number }>('order.unpaid')
    const task = { key: 'k', delay: 1, payload: { n: 1 } }
    const scheduling = topic.schedule(task)
    task.payload.n = 2
    task.delay = 99
    expect((await scheduling).dueAt).toEqual(after(1))
    expect(await topic.get('k')).toMatchObject({ payload: { n: 1 } })
  })

  function* generated(count: number): Generator<NewTask<number>> {
    for (let n = 0; n < count; n++) yield { key: `k-${n}`, delay: 1 + (n % 1_000), payload: n }
  }
  async function* generatedLater(count: number): AsyncGenerator<NewTask<number>> {
    yield* generated(count)
  }

  it.each([
    ['a generator', generated],
    ['an async generator', generatedLater],
  ])('25,000 by %s, and all of them fire once', async (_, make) => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    expect(await topic.scheduleMany(make(25_000))).toEqual({ created: 25_000, replaced: 0, kept: 0 })
    expect(await topic.scheduleMany(make(1_234))).toEqual({ created: 0, replaced: 1_234, kept: 0 })
    const seen = new Set<number>()
    let fired = 0
    topic.consumeBatch(async (tasks) => {
      fired += tasks.length
      for (const { payload } of tasks) seen.add(payload)
    })
    await toc.advance('1s')
    expect(fired).toBe(25_000)
    expect(seen.size).toBe(25_000)
  })

  it('a stream counts what was kept', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.scheduleMany(generated(10))
    function* keeping() {
      for (const task of generated(25))
        yield { ...task, onConflict: task.payload < 5 ? 'keep' : 'replace' } as const
    }
    expect(await topic.scheduleMany(keeping())).toEqual({ created: 15, replaced: 5, kept: 5 })
  })

  it('a stream is never held as a whole: it may be endless', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    let furthestAhead = 0
    async function* tasks() {
      for (const task of generated(10_000)) {
        const { pending } = await topic.counts()
        furthestAhead = Math.max(furthestAhead, task.payload - pending)
        yield task
      }
    }
    expect((await topic.scheduleMany(tasks())).created).toBe(10_000)
    expect(furthestAhead).toBeLessThanOrEqual(2_000)
  })
})
