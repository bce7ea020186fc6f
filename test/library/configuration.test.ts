import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineTopic, type TocsinEvents } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { fullestSpan } from '../fullest-span.ts'
import { recordFirings, refusal } from './helpers.ts'

describe('layers', () => {
  it('live over code over default, field by field', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('order.unpaid', { slots: 4, lease: '90s', retry: { maxAttempts: 3 } })
    const before = await topic.config()
    expect(before).toMatchObject({ version: 0, live: {}, paused: false })
    expect(before.code).toEqual({ slots: 4, lease: '1m30s', retry: { maxAttempts: 3 } })
    expect(before.effective).toEqual({
      slots: 4,
      slotBy: 'key',
      batchSize: 500,
      // 5ms elsewhere: on a virtual clock nothing takes time.
      linger: '0ms',
      lease: '1m30s',
      timeout: '5m',
      resident: '1h',
      retention: '1w',
      retry: { maxAttempts: 3, backoff: 'exponential', min: '1s', max: '5m', jitter: 0.2 },
      fastClaims: false,
    })
    const set = await topic.configure({ slots: 64, batchSize: 10, retry: { jitter: 0 } })
    expect(set.live).toEqual({ slots: 64, batchSize: 10, retry: { jitter: 0 } })
    expect(set.effective).toMatchObject({ slots: 64, batchSize: 10, lease: '1m30s' })
    expect(set.effective.retry).toEqual({
      maxAttempts: 3,
      backoff: 'exponential',
      min: '1s',
      max: '5m',
      jitter: 0,
    })
    expect(await topic.config()).toEqual(set)
  })

  it('null gives a field back', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('order.unpaid', { slots: 4 })
    await topic.configure({ slots: 64, rate: { limit: 5, per: '1s' }, batchSize: 7 })
    const back = await topic.configure({ slots: null, rate: null, lease: null, timeout: undefined })
    expect(back.live).toEqual({ batchSize: 7 })
    expect(back.effective.slots).toBe(4)
    expect(back.effective.rate).toBeUndefined()
  })

  it('the version grows, and guards against another hand', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('order.unpaid')
    const { version } = await topic.configure({ slots: 8 })
    expect(version).toBe(1)
    const next = await topic.configure({ slots: 32 }, { ifVersion: version })
    expect(next.version).toBe(2)
    const error = await refusal(() => topic.configure({ slots: 64 }, { ifVersion: version }))
    expect(error.code).toBe('version-conflict')
    expect(error.message).toContain('read it again')
    expect((await topic.config()).effective.slots).toBe(32)
    await topic.configure({ slots: 1 }, { ifVersion: undefined })
  })

  it('a bad patch changes nothing', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('order.unpaid', { retry: { min: '1m' } })
    const before = await topic.config()
    expect((await refusal(() => topic.configure({ batchSize: 7, retry: { max: '30s' } }))).code).toBe(
      'bad-config',
    )
    expect(await topic.config()).toEqual(before)
  })

  it('what is shown cannot be used to change it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('order.unpaid', { retry: { maxAttempts: 3 } })
    const view = await topic.configure({ retry: { jitter: 0.5 } })
    try {
      Object.assign(view.live.retry ?? {}, { jitter: 7 })
      Object.assign(view.effective, { slots: 3 })
    } catch {
      // Frozen is as good as copied.
    }
    const again = await topic.config()
    expect(again.live.retry).toEqual({ jitter: 0.5 })
    expect(again.effective.slots).toBe(16)
  })
})

describe('a topic declared twice', () => {
  it('the same is the same', async () => {
    await using toc = await testTocsin()
    const schema = z.string()
    const definition = defineTopic('order.unpaid', { schema, lease: '60s', slots: 4 })
    const topic = toc.topic(definition)
    expect(toc.topic(definition)).toBe(topic)
    expect(toc.topic('order.unpaid', { slots: 4, lease: '1m', schema })).toBe(topic)
    expect(toc.topic('order.unpaid')).toBe(topic)
  })

  it.each<[string, () => ReturnType<typeof defineTopic>]>([
    ['other settings', () => defineTopic('order.unpaid', { slots: 8 })],
    ['fewer settings', () => defineTopic('order.unpaid', {})],
    ['a schema', () => defineTopic('order.unpaid', { slots: 4, schema: z.unknown() })],
  ])('%s are refused', async (_, other) => {
    await using toc = await testTocsin()
    toc.topic('order.unpaid', { slots: 4 })
    const error = await refusal(() => toc.topic(other()))
    expect(error.code).toBe('bad-topic')
    expect(error.message).toContain('share one defineTopic')
  })
})

describe('config and drift', () => {
  it('are told', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('order.unpaid', { slots: 4, retry: { maxAttempts: 3 }, batchSize: 10 })
    const configs: TocsinEvents['config'][] = []
    const drifts: TocsinEvents['drift'][] = []
    toc.on('config', (event) => configs.push(event))
    toc.on('drift', (event) => drifts.push(event))
    const { effective } = await topic.configure({ slots: 64, retry: { maxAttempts: 5 }, lease: '1m' })
    expect(configs).toEqual([{ topic: 'order.unpaid', version: 1, effective, paused: false }])
    expect(drifts.toSorted((a, b) => (a.field < b.field ? -1 : 1))).toEqual([
      { topic: 'order.unpaid', field: 'retry.maxAttempts', code: 3, effective: 5 },
      { topic: 'order.unpaid', field: 'slots', code: 4, effective: 64 },
    ])
    drifts.length = 0
    await topic.configure({ slots: null, retry: null })
    expect(drifts).toEqual([])
    expect(configs.length).toBe(2)
    await topic.pause()
    expect(configs.at(-1)).toMatchObject({ paused: true })
  })
})

describe('slots', () => {
  it('change live while tasks wait and fire: none is lost or doubled', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<number>('push', { slots: 16 })
    const seen = new Map<number, number>()
    topic.consume(async ({ payload, latenessMs }) => {
      expect(latenessMs).toBe(0)
      seen.set(payload, (seen.get(payload) ?? 0) + 1)
      if (payload === 200) await topic.configure({ slots: 64 })
      if (payload === 600) await topic.configure({ slots: 8 })
      if (payload === 1_100) await topic.configure({ slots: 1 })
      if (payload === 1_400) await topic.configure({ slots: null })
    })
    await topic.scheduleMany(
      Array.from({ length: 2_000 }, (_, n) => ({ key: `k-${n}`, delay: n, payload: n })),
    )
    await toc.advance('1s')
    await topic.configure({ slots: 32 })
    await toc.advance('1s')
    expect(seen.size).toBe(2_000)
    expect([...seen.values()].every((times) => times === 1)).toBe(true)
    expect((await topic.config()).effective.slots).toBe(16)
  })

  it('every number of them reaches every key', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const fired = recordFirings(topic, toc)
    for (const slots of [1, 2, 4, 8, 16, 32, 64]) {
      await topic.configure({ slots })
      await topic.scheduleMany(
        Array.from({ length: 300 }, (_, n) => ({ key: `${slots}-${n}`, delay: '1s', payload: null })),
      )
      await toc.advance('1s')
      expect(fired.splice(0).length).toBe(300)
    }
  })
})

describe('pause and resume', () => {
  it('what was due meanwhile fires at resume', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const fired = recordFirings(topic, toc)
    await topic.pause()
    await topic.pause()
    await topic.schedule({ key: 'a', delay: '1m', payload: null })
    await topic.schedule({ key: 'b', delay: '3m', payload: null })
    await toc.advance('2m')
    expect(fired).toEqual([])
    expect(await topic.config()).toMatchObject({ paused: true })
    expect(await topic.counts()).toEqual({ pending: 2, due: 1, claimed: 0, dead: 0 })
    await topic.resume()
    await topic.resume()
    await toc.advance(0)
    expect(fired).toEqual([['a', 120_000]])
    await toc.advance('1m')
    expect(fired.at(-1)).toEqual(['b', 180_000])
    expect(await topic.config()).toMatchObject({ paused: false })
  })

  it('holds for consumers that come later, and for no other topic', async () => {
    await using toc = await testTocsin()
    const [push, other] = [toc.topic<null>('push'), toc.topic<null>('other')]
    await push.pause()
    const fired = recordFirings(push, toc)
    const firedOther = recordFirings(other, toc)
    await push.schedule({ key: 'a', delay: 1, payload: null })
    await other.schedule({ key: 'a', delay: 1, payload: null })
    await toc.advance('1d')
    expect(fired).toEqual([])
    expect(firedOther).toEqual([['a', 1]])
  })

  it('from within a handler: what did not start yet waits', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    let calls = 0
    topic.consume(
      async ({ deliveries }) => {
        expect(deliveries).toBe(1)
        if (++calls === 10) await topic.pause()
      },
      { concurrency: 1 },
    )
    await topic.scheduleMany(Array.from({ length: 100 }, () => ({ delay: 1, payload: null })))
    await toc.advance('1m')
    expect(calls).toBeLessThanOrEqual(11)
    expect(await topic.counts()).toMatchObject({ pending: 100 - calls, claimed: 0 })
    await topic.resume()
    await toc.advance(0)
    expect(calls).toBe(100)
  })
})

describe('rate', () => {
  it('is kept in every second, and is used up', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { rate: { limit: 10, per: '1s' } })
    const fired = recordFirings(topic, toc)
    await topic.scheduleMany(Array.from({ length: 100 }, () => ({ delay: '5s', payload: null })))
    await toc.advance('30s')
    expect(fired.length).toBe(100)
    const times = fired.map(([, ms]) => ms)
    expect(times.at(-1)).toBeLessThanOrEqual(5_000 + 10_000)
    expect(fullestSpan(times, 1_000)).toBeLessThanOrEqual(10)
  })

  it('over a long time', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { rate: { limit: 10, per: '1s' } })
    const fired = recordFirings(topic, toc)
    await topic.scheduleMany(Array.from({ length: 1_000 }, () => ({ delay: 0, payload: null })))
    await toc.advance('1m')
    expect(fired.length).toBeGreaterThanOrEqual(590)
    expect(fired.length).toBeLessThanOrEqual(610)
  })

  it('is the topic’s, not the consumer’s', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { rate: { limit: 10, per: '1s' } })
    const first = recordFirings(topic, toc)
    const second = recordFirings(topic, toc)
    await topic.scheduleMany(Array.from({ length: 1_000 }, () => ({ delay: 0, payload: null })))
    await toc.advance('30s')
    expect(first.length + second.length).toBeLessThanOrEqual(310)
  })

  it('can be set and lifted live', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const fired = recordFirings(topic, toc)
    await topic.configure({ rate: { limit: 1, per: '1m' } })
    await topic.scheduleMany(Array.from({ length: 50 }, () => ({ delay: 0, payload: null })))
    await toc.advance('3m')
    expect(fired.length).toBeGreaterThanOrEqual(3)
    expect(fired.length).toBeLessThanOrEqual(4)
    await topic.configure({ rate: null })
    await toc.advance(0)
    expect(fired.length).toBe(50)
  })

  it('does not hold up what comes rarely', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { rate: { limit: 1, per: '1s' } })
    const fired = recordFirings(topic, toc)
    for (const delay of [1_000, 2_500, 9_000])
      await topic.schedule({ key: `k${delay}`, delay, payload: null })
    await toc.advance('10s')
    expect(fired.map(([, ms]) => ms)).toEqual([1_000, 2_500, 9_000])
  })
})

describe('batchSize', () => {
  it('bounds a batch, live', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { batchSize: 30 })
    let sizes: number[] = []
    topic.consumeBatch(async (tasks) => void sizes.push(tasks.length))
    const hundred = Array.from({ length: 100 }, () => ({ delay: 1, payload: null }))
    await topic.scheduleMany(hundred)
    await toc.advance(1)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(30)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(100)
    sizes = []
    await topic.configure({ batchSize: 1 })
    await topic.scheduleMany(hundred)
    await toc.advance(1)
    expect(sizes).toEqual(new Array(100).fill(1))
    sizes = []
    await topic.configure({ batchSize: 1_000 })
    await topic.scheduleMany(hundred)
    await toc.advance(1)
    expect(sizes).toEqual([100])
  })
})

describe('objective', () => {
  it('what fires later than promised is told, and nothing else', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { objective: { p99: '1s' } })
    const events: TocsinEvents['late'][] = []
    toc.on('late', (event) => events.push(event))
    const ids = new Map<string, string>()
    topic.consume(async ({ key, id }) => void ids.set(key, id))
    await topic.schedule({ key: 'punctual', delay: '1s', payload: null })
    await toc.advance('1s')
    await topic.pause()
    await topic.schedule({ key: 'late', delay: '1s', payload: null })
    await topic.schedule({ key: 'just in time', delay: '9s', payload: null })
    await toc.advance('10s')
    await topic.resume()
    await toc.advance(0)
    expect(ids.size).toBe(3)
    expect(events).toEqual([
      { topic: 'push', key: 'late', id: ids.get('late'), latenessMs: 9_000, objectiveMs: 1_000 },
    ])
  })
})

describe('retry', () => {
  it('fixed and exponential, changed live', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { retry: { backoff: 'fixed', min: '10s', maxAttempts: 3 } })
    const fired = recordFailures()
    topic.consume(fired.handler(() => toc.now()))
    await topic.schedule({ delay: 0, payload: null })
    await toc.advance('10m')
    expect(fired.take()).toEqual([0, 10_000, 20_000])
    await topic.configure({ retry: { backoff: 'exponential', min: '1s', max: '3s', maxAttempts: 5 } })
    await topic.schedule({ delay: 0, payload: null })
    await toc.advance('10m')
    expect(fired.take()).toEqual([0, 1_000, 3_000, 6_000, 9_000])
  })

  /** When each attempt began, in ms since the first. */
  function recordFailures() {
    let times: number[] = []
    return {
      handler: (now: () => Date) => async (): Promise<void> => {
        times.push(now().getTime())
        throw new Error('no')
      },
      take: () => {
        const taken = times.map((ms) => ms - (times[0] ?? 0))
        times = []
        return taken
      },
    }
  }
})

describe('a topic used by its name first and declared later', () => {
  it('takes on the settings and the schema, for consumers that run already as well', async () => {
    await using toc = await testTocsin()
    const bare = toc.topic<unknown>('order.unpaid')
    const seen: unknown[] = []
    bare.consume(async ({ payload }) => void seen.push(payload))
    const declared = toc.topic('order.unpaid', {
      timeout: '2m',
      schema: z.object({ n: z.number().default(7) }),
    })
    expect((await bare.config()).code).toEqual({ timeout: '2m' })
    await declared.schedule({ delay: '1s', payload: {} })
    await toc.advance('1s')
    expect(seen).toEqual([{ n: 7 }])
  })

  it('is refused when that would move its tasks, and when it was declared otherwise before', async () => {
    await using toc = await testTocsin()
    toc.topic('a')
    expect(() => toc.topic('a', { slotBy: 'prefix' })).toThrow(/slotBy 'key'/)
    toc.topic('b', { timeout: '1m' })
    expect(() => toc.topic('b', { timeout: '2m' })).toThrow(/timeout: '1m', now '2m'/)
  })
})
