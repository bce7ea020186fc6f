import { describe, expect, it } from 'vitest'
import type { ListOptions, Topic } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { inFlight } from './helpers.ts'

const START_MS = Date.parse('2026-01-01T00:00:00Z')
const after = (ms: number): Date => new Date(START_MS + ms)

async function keysOf(topic: Topic<never, unknown>, options: ListOptions): Promise<string[]> {
  return (await topic.list(options)).tasks.map(({ key }) => key)
}

describe('get', () => {
  it('shows a pending task', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<{ n: number }>('order.unpaid')
    await toc.advance('1s')
    await topic.schedule({ key: 'k', delay: '1m', payload: { n: 1 }, tags: ['b', 'a'], priority: 'high' })
    await toc.advance('1s')
    expect(await topic.get('k')).toEqual({
      id: null,
      topic: 'order.unpaid',
      key: 'k',
      payload: { n: 1 },
      dueAt: after(61_000),
      attempt: 1,
      deliveries: 0,
      tags: ['a', 'b'],
      priority: 'high',
      state: 'pending',
      createdAt: after(1_000),
      updatedAt: after(1_000),
      lastError: null,
      deadCause: null,
    })
    expect(await topic.get('other')).toBeNull()
  })

  it('shows a claimed task', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const held = await inFlight(toc, topic, 'k', null)
    expect(await topic.get('k')).toMatchObject({
      state: 'claimed',
      attempt: 1,
      deliveries: 1,
      dueAt: after(1_000),
    })
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 1, dead: 0 })
    await held.end()
    expect(await topic.get('k')).toBeNull()
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  it('shows what came of the attempts so far', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid', {
      retry: { maxAttempts: 3, backoff: 'fixed', min: '10s', max: '10s' },
    })
    const ids: string[] = []
    let mood: 'fail' | 'snooze' = 'fail'
    topic.consume(async ({ id }) => {
      ids.push(id)
      if (mood === 'snooze') return { snooze: '10s' }
      throw new Error(`failure ${ids.length}`)
    })
    await topic.schedule({ key: 'k', delay: '1s', payload: null })
    await toc.advance('1s')
    const first = await topic.get('k')
    expect(first).toMatchObject({
      state: 'pending',
      attempt: 2,
      deliveries: 1,
      lastError: 'Error: failure 1',
      dueAt: after(1_000),
      updatedAt: after(1_000),
      createdAt: after(0),
    })
    mood = 'snooze'
    await toc.advance('10s')
    expect(await topic.get('k')).toMatchObject({ attempt: 2, deliveries: 2, dueAt: after(1_000) })
    mood = 'fail'
    await toc.advance('20s')
    const dead = await topic.get('k')
    expect(dead).toMatchObject({
      state: 'dead',
      deliveries: 4,
      lastError: 'Error: failure 4',
      deadCause: 'attempts',
      updatedAt: after(31_000),
    })
    expect(first?.id).toBe(ids[0])
    expect(dead?.id).toBe(ids[0])
    expect(new Set(ids).size).toBe(1)
  })

  it('two tasks never share an id', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const ids: string[] = []
    topic.consume(async ({ id }) => void ids.push(id))
    for (let round = 0; round < 3; round++) {
      for (const key of ['a', 'b', 'c']) await topic.schedule({ key, delay: 0, payload: null })
      await toc.advance(0)
    }
    expect(new Set(ids).size).toBe(9)
  })

  it('an error text is bounded, whatever was thrown', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const thrown: unknown[] = ['x'.repeat(10_000), undefined, null, 7, { toString: () => 'odd' }, Symbol('s')]
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- what others throw is not ours to choose
    topic.consume(({ payload }) => Promise.reject(thrown[payload]))
    await topic.scheduleMany(thrown.map((_, n) => ({ key: `k-${n}`, delay: 1, payload: n })))
    await toc.advance(1)
    for (const n of thrown.keys()) {
      const lastError = (await topic.get(`k-${n}`))?.lastError ?? ''
      expect(lastError.length).toBeGreaterThan(0)
      expect(lastError.length).toBeLessThanOrEqual(500)
    }
  })
})

describe('list', () => {
  it('pages without gaps or repeats, soonest first', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    // Many share a moment, so that pages end within one.
    const tasks = Array.from({ length: 2_500 }, (_, n) => ({
      key: `k-${n}`,
      delay: (n * 37) % 50,
      payload: n,
    }))
    await topic.scheduleMany(tasks)
    for (const limit of [undefined, 7, 1_000]) {
      const seen: { key: string; dueAt: Date }[] = []
      let cursor: string | null = null
      do {
        const page: Awaited<ReturnType<typeof topic.list>> = await topic.list({ limit, cursor })
        expect(page.tasks.length).toBeLessThanOrEqual(limit ?? 100)
        seen.push(...page.tasks)
        cursor = page.cursor
      } while (cursor !== null)
      expect(seen.length).toBe(2_500)
      expect(new Set(seen.map(({ key }) => key)).size).toBe(2_500)
      const times = seen.map(({ dueAt }) => dueAt.getTime())
      expect(times).toEqual(times.toSorted((a, b) => a - b))
    }
  })

  it('goes on where it was, though tasks come and go', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    const keys = Array.from({ length: 300 }, (_, n) => `k-${String(n).padStart(3, '0')}`)
    await topic.scheduleMany(keys.map((key, n) => ({ key, delay: 1_000 + n, payload: n })))
    const first = await topic.list({ limit: 100 })
    await topic.cancelMany(keys.slice(50, 150))
    await topic.schedule({ key: 'before', delay: 1, payload: 0 })
    const second = await topic.list({ limit: 100, cursor: first.cursor })
    expect(second.tasks.map(({ key }) => key)).toEqual(keys.slice(150, 250))
  })

  it('ends with null', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    expect(await topic.list()).toEqual({ tasks: [], cursor: null })
    await topic.schedule({ delay: 1, payload: 0 })
    expect((await topic.list()).cursor).toBeNull()
    expect((await topic.list({ limit: 1_000 })).tasks).toHaveLength(1)
  })

  it('filters', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    await topic.schedule({ key: 'ann:1', delay: 1_000, payload: null, tags: ['x'] })
    await topic.schedule({ key: 'ann:2', delay: 2_000, payload: null, tags: ['x', 'y'] })
    await topic.schedule({ key: 'bob:1', delay: 3_000, payload: null, tags: ['y'] })
    await topic.schedule({ key: 'bob', delay: 4_000, payload: null })
    expect(await keysOf(topic, { tag: 'x' })).toEqual(['ann:1', 'ann:2'])
    expect(await keysOf(topic, { prefix: 'bob' })).toEqual(['bob:1', 'bob'])
    expect(await keysOf(topic, { tag: 'y', prefix: 'ann' })).toEqual(['ann:2'])
    expect(await keysOf(topic, { tag: 'z' })).toEqual([])
    expect(await keysOf(topic, { dueFrom: after(2_000) })).toEqual(['ann:2', 'bob:1', 'bob'])
    expect(await keysOf(topic, { dueFrom: after(1_001), dueTo: after(3_999) })).toEqual(['ann:2', 'bob:1'])
    expect(await keysOf(topic, { state: 'pending', limit: 1, tag: 'y' })).toEqual(['ann:2'])
    expect(await keysOf(topic, { state: undefined, tag: undefined, limit: undefined })).toHaveLength(4)
  })

  it('pages through a filter', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.scheduleMany(
      Array.from({ length: 500 }, (_, n) => ({
        key: `k-${n}`,
        delay: n,
        payload: n,
        tags: [`mod-${n % 3}`],
      })),
    )
    const seen: number[] = []
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<typeof topic.list>> = await topic.list({
        tag: 'mod-1',
        limit: 10,
        cursor,
      })
      seen.push(...page.tasks.map(({ payload }) => payload))
      cursor = page.cursor
    } while (cursor !== null)
    expect(seen).toEqual(Array.from({ length: 167 }, (_, i) => 3 * i + 1).filter((n) => n < 500))
  })

  it('by state', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const dying = topic.consume(async () => ({ dead: 'no' }))
    await topic.schedule({ key: 'dead', delay: 1, payload: null })
    await toc.advance(1)
    await dying.stop()
    const held = await inFlight(toc, topic, 'claimed', null)
    await topic.schedule({ key: 'pending', delay: '1h', payload: null })
    expect(await keysOf(topic, {})).toEqual(['claimed', 'pending'])
    expect(await keysOf(topic, { state: 'pending' })).toEqual(['pending'])
    expect(await keysOf(topic, { state: 'claimed' })).toEqual(['claimed'])
    expect(await keysOf(topic, { state: 'dead' })).toEqual(['dead'])
    expect(await topic.counts()).toEqual({ pending: 1, due: 0, claimed: 1, dead: 1 })
    await held.end()
  })

  it('takes a limit from 1 to 1,000', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.scheduleMany(Array.from({ length: 1_100 }, (_, n) => ({ delay: n, payload: n })))
    expect((await topic.list({ limit: 1 })).tasks).toHaveLength(1)
    expect((await topic.list()).tasks).toHaveLength(100)
    expect((await topic.list({ limit: 1_000 })).tasks).toHaveLength(1_000)
  })
})

describe('counts', () => {
  it('tells what is due from what only waits', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.scheduleMany(
      Array.from({ length: 100 }, (_, n) => ({
        delay: n * 1_000,
        payload: n,
        priority: (['high', 'normal', 'low'] as const)[n % 3],
      })),
    )
    expect(await topic.counts()).toEqual({ pending: 100, due: 1, claimed: 0, dead: 0 })
    await toc.advance('49s')
    expect(await topic.counts()).toEqual({ pending: 100, due: 50, claimed: 0, dead: 0 })
  })
})

describe('forecast', () => {
  it('counts what falls due in each step', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.scheduleMany(
      [0, 59_999, 60_000, 150_000, 599_999, 600_000].map((delay) => ({ delay, payload: 0 })),
    )
    const steps = await topic.forecast({ to: after(600_000) })
    expect(steps.length).toBe(10)
    expect(steps[0]).toEqual({ at: after(0), due: 2 })
    expect(steps[9]).toEqual({ at: after(540_000), due: 1 })
    expect(steps.map(({ due }) => due)).toEqual([2, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    expect(await topic.forecast({ from: undefined, to: after(600_000), step: '5m' })).toEqual([
      { at: after(0), due: 4 },
      { at: after(300_000), due: 1 },
    ])
  })

  it('what is overdue comes now', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.schedule({ delay: 1, payload: 0 })
    await toc.advance('1h')
    expect((await topic.forecast({ to: after(3_720_000) })).map(({ due }) => due)).toEqual([1, 0])
  })

  it('of a later span leaves out what comes before it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.schedule({ delay: '10m', payload: 0 })
    await topic.schedule({ delay: '90m', payload: 0 })
    const steps = await topic.forecast({ from: after(3_600_000), to: after(7_200_000), step: '30m' })
    expect(steps.map(({ due }) => due)).toEqual([0, 1])
  })

  it('a last step that is shorter', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('order.unpaid')
    await topic.schedule({ delay: 95_000, payload: 0 })
    await topic.schedule({ delay: 105_000, payload: 0 })
    const steps = await topic.forecast({ to: after(100_000), step: '1m' })
    expect(steps.map(({ due }) => due)).toEqual([0, 1])
  })
})
