import { describe, expect, it } from 'vitest'
import type { TopicConfig, When } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { inFlight, recordFirings } from './helpers.ts'

const START_MS = Date.parse('2026-01-01T00:00:00Z')
const after = (ms: number): Date => new Date(START_MS + ms)

describe('cancel', () => {
  it('what is cancelled is never delivered', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'a', delay: '1m', payload: null })
    await topic.schedule({ key: 'b', delay: '1m', payload: null })
    expect(await topic.cancel('a')).toEqual({ key: 'a', outcome: 'cancelled' })
    expect(await topic.cancel('a')).toEqual({ key: 'a', outcome: 'not-found' })
    expect(await topic.get('a')).toBeNull()
    await toc.advance('1h')
    expect(fired.map(([key]) => key)).toEqual(['b'])
    expect(await topic.cancel('b')).toEqual({ key: 'b', outcome: 'not-found' })
  })

  it('up to its last ms', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'a', delay: '1m', payload: null })
    await toc.advance('59s999ms')
    expect((await topic.cancel('a')).outcome).toBe('cancelled')
    await toc.advance('1h')
    expect(fired).toEqual([])
  })

  it('what waits for a retry or a snooze', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    const deliveries: string[] = []
    topic.consume(async ({ key, payload }) => {
      deliveries.push(key)
      if (payload === 'fails') throw new Error('no')
      return { snooze: '1m' }
    })
    await topic.schedule({ key: 'a', delay: 1, payload: 'fails' })
    await topic.schedule({ key: 'b', delay: 1, payload: 'snoozes' })
    await toc.advance(1)
    expect(await topic.cancelMany(['a', 'b'])).toEqual([
      { key: 'a', outcome: 'cancelled' },
      { key: 'b', outcome: 'cancelled' },
    ])
    await toc.advance('1h')
    expect(deliveries.toSorted()).toEqual(['a', 'b'])
  })

  it('a dead task is not live', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    topic.consume(async () => ({ dead: 'no use' }))
    await topic.schedule({ key: 'a', delay: 1, payload: null })
    await toc.advance(1)
    expect((await topic.cancel('a')).outcome).toBe('not-found')
    expect((await topic.counts()).dead).toBe(1)
  })
})

describe('cancel while a handler has it', () => {
  it.each<[string, (held: Awaited<ReturnType<typeof inFlight>>) => Promise<void>]>([
    ['done', (held) => held.end()],
    ['a throw', (held) => held.fail('broken')],
    ['a retry', (held) => held.end({ retry: '1s' })],
    ['a snooze', (held) => held.end({ snooze: '1s' })],
  ])('%s: no attempt follows', async (_, end) => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const got: string[] = []
    const held = await inFlight(toc, topic, 'k', null, got)
    expect(await topic.cancel('k')).toEqual({ key: 'k', outcome: 'in-flight' })
    expect(held.signal.aborted).toBe(true)
    expect(held.signal.reason).toMatchObject({ code: 'cancelled' })
    await end(held)
    expect(await topic.get('k')).toBeNull()
    await toc.advance('1d')
    expect(got).toEqual(['k#1'])
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  it('a new task of the key has nothing to do with it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const got: string[] = []
    const held = await inFlight(toc, topic, 'k', null, got)
    await topic.cancel('k')
    const scheduled = await topic.schedule({ key: 'k', delay: '1m', payload: null, onConflict: 'keep' })
    expect(scheduled).toMatchObject({ inFlight: true, dueAt: after(61_000) })
    expect(scheduled.outcome).not.toBe('kept')
    await held.fail('of the first')
    await toc.advance('1m')
    expect(got).toEqual(['k#1', 'k#1'])
  })

  it('cancelMany and cancelBy count it apart', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const held = await inFlight(toc, topic, 'k', null, [], ['t'])
    await topic.schedule({ key: 'later', delay: '1h', payload: null, tags: ['t'] })
    expect(await topic.cancelMany(['k', 'nothing'])).toEqual([
      { key: 'k', outcome: 'in-flight' },
      { key: 'nothing', outcome: 'not-found' },
    ])
    expect(await topic.cancelBy({ tag: 't' })).toEqual({ cancelled: 1, inFlight: 1 })
    await held.end()
    expect(await topic.cancelBy({ tag: 't' })).toEqual({ cancelled: 0, inFlight: 0 })
  })
})

describe('cancelMany', () => {
  it('answers in order', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    await topic.scheduleMany(['a', 'b'].map((key) => ({ key, delay: '1m', payload: null })))
    expect(await topic.cancelMany(['b', 'x', 'a', 'b'])).toEqual([
      { key: 'b', outcome: 'cancelled' },
      { key: 'x', outcome: 'not-found' },
      { key: 'a', outcome: 'cancelled' },
      { key: 'b', outcome: 'not-found' },
    ])
    expect(await topic.cancelMany([])).toEqual([])
  })

  it('any number', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const keys = Array.from({ length: 5_000 }, (_, n) => `k-${n}`)
    await topic.scheduleMany(keys.map((key) => ({ key, delay: '1m', payload: null })))
    const answers = await topic.cancelMany(keys)
    expect(answers).toEqual(keys.map((key) => ({ key, outcome: 'cancelled' })))
    expect((await topic.counts()).pending).toBe(0)
  })
})

describe.each<[string, TopicConfig]>([
  ['placed by key', { slotBy: 'key' }],
  ['placed by prefix', { slotBy: 'prefix' }],
])('by tag and by prefix, %s', (_, config) => {
  async function filled() {
    const toc = await testTocsin()
    const topic = toc.topic<number>('push', config)
    await topic.scheduleMany(
      Array.from({ length: 3_000 }, (_, n) => ({
        key: `user-${n % 3}:${n}`,
        delay: '1h',
        payload: n,
        tags: n % 2 === 0 ? ['even', `mod-${n % 5}`] : [],
      })),
    )
    // These only look alike: another prefix, and a key that is a prefix itself.
    await topic.schedule({ key: 'user-1x:1', delay: '1h', payload: -1 })
    await topic.schedule({ key: 'user-11:user-1', delay: '1h', payload: -1, tags: ['evening'] })
    return { toc, topic }
  }

  it('cancelBy tag', async () => {
    const { toc, topic } = await filled()
    await using _ = toc
    expect(await topic.cancelBy({ tag: 'mod-0' })).toEqual({ cancelled: 300, inFlight: 0 })
    expect(await topic.cancelBy({ tag: 'even' })).toEqual({ cancelled: 1_200, inFlight: 0 })
    expect(await topic.cancelBy({ tag: 'even' })).toEqual({ cancelled: 0, inFlight: 0 })
    expect((await topic.counts()).pending).toBe(1_502)
  })

  it('cancelBy prefix', async () => {
    const { toc, topic } = await filled()
    await using _ = toc
    expect(await topic.cancelBy({ prefix: 'user-1' })).toEqual({ cancelled: 1_000, inFlight: 0 })
    expect((await topic.list({ prefix: 'user-1' })).tasks).toEqual([])
    expect((await topic.list({ prefix: 'user-1x' })).tasks).toHaveLength(1)
    expect((await topic.counts()).pending).toBe(2_002)
  })

  it('a key without a colon is its own prefix', async () => {
    const { toc, topic } = await filled()
    await using _ = toc
    await topic.schedule({ key: 'user-2', delay: '1h', payload: -1 })
    expect(await topic.cancelBy({ prefix: 'user-2' })).toEqual({ cancelled: 1_001, inFlight: 0 })
  })

  it('progress is told, growing to the whole', async () => {
    const { toc, topic } = await filled()
    await using _ = toc
    const told: number[] = []
    await topic.cancelBy({ tag: 'even' }, { onProgress: (n) => told.push(n) })
    expect(told.length).toBeGreaterThan(0)
    expect(told).toEqual(told.toSorted((a, b) => a - b))
    expect(told.at(-1)).toBe(1_500)
    const toldAgain: number[] = []
    await topic.rescheduleBy({ prefix: 'user-0' }, { delay: '1m' }, { onProgress: (n) => toldAgain.push(n) })
    expect(toldAgain.at(-1)).toBe(500)
    await topic.cancelBy({ prefix: 'user-0' }, { onProgress: undefined, tx: undefined })
  })

  it.each<[string, When | { shift: string }, number]>([
    ['a delay', { delay: '10m' }, 600_000],
    ['an instant', { at: after(1_234) }, 1_234],
    ['later', { shift: '+10m' }, 4_200_000],
    ['earlier', { shift: '-10m' }, 3_000_000],
    ['earlier than now', { shift: '-2h' }, 0],
  ])('rescheduleBy: %s', async (_, when, atMs) => {
    const { toc, topic } = await filled()
    await using _toc = toc
    const fired = recordFirings(topic, toc)
    expect(await topic.rescheduleBy({ tag: 'even' }, when)).toEqual({ rescheduled: 1_500, inFlight: 0 })
    await toc.advance('2h')
    expect(fired.length).toBe(3_002)
    const moved = fired.filter(([, ms]) => ms !== 3_600_000)
    expect(moved.length).toBe(1_500)
    expect(moved.every(([key, ms]) => ms === atMs && Number(key.split(':')[1]) % 2 === 0)).toBe(true)
  })
})

describe('reschedule', () => {
  it('moves a task, later and earlier', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'a', delay: '10m', payload: null, tags: ['t'] })
    expect(await topic.reschedule('a', { delay: '20m' })).toEqual({
      key: 'a',
      outcome: 'rescheduled',
      dueAt: after(1_200_000),
    })
    await toc.advance('15m')
    expect(fired).toEqual([])
    expect(await topic.get('a')).toMatchObject({ dueAt: after(1_200_000), tags: ['t'] })
    expect(await topic.reschedule('a', { at: after(901_000) })).toMatchObject({ dueAt: after(901_000) })
    await toc.advance('1h')
    expect(fired).toEqual([['a', 901_000]])
  })

  it('what is moved to the past fires at once', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'a', delay: '10m', payload: null })
    await toc.advance('1m')
    await topic.reschedule('a', { at: after(1) })
    await toc.advance(0)
    expect(fired).toEqual([['a', 60_000]])
  })

  it('what is not there', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    expect(await topic.reschedule('a', { delay: 1 })).toEqual({ key: 'a', outcome: 'not-found', dueAt: null })
    expect(await topic.rescheduleBy({ tag: 't' }, { delay: 1 })).toEqual({ rescheduled: 0, inFlight: 0 })
  })

  it('what a handler has stays as it is', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const got: string[] = []
    const held = await inFlight(toc, topic, 'k', null, got, ['t'])
    expect(await topic.reschedule('k', { delay: '1h' })).toEqual({
      key: 'k',
      outcome: 'in-flight',
      dueAt: null,
    })
    expect(await topic.rescheduleBy({ tag: 't' }, { shift: '+1h' })).toEqual({ rescheduled: 0, inFlight: 1 })
    expect(held.signal.aborted).toBe(false)
    await held.end()
    await toc.advance('2h')
    expect(got).toEqual(['k#1'])
  })

  it('what waits for its retry starts anew, with its id', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    const seen: [number, number, string, Date][] = []
    topic.consume(async ({ attempt, deliveries, id, dueAt }) => {
      seen.push([attempt, deliveries, id, dueAt])
      if (seen.length === 1) throw new Error('no')
    })
    await topic.schedule({ key: 'a', delay: '1s', payload: null })
    await toc.advance('1s')
    await topic.reschedule('a', { delay: '1m' })
    await toc.advance('1h')
    const id = seen[0]?.[2]
    expect(seen).toEqual([
      [1, 1, id, after(1_000)],
      [1, 2, id, after(61_000)],
    ])
  })
})
