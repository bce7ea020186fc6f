import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Topic } from 'tocsin'
import { type TestTocsin, testTocsin } from 'tocsin/testing'

const START_MS = Date.parse('2026-01-01T00:00:00Z')
const after = (ms: number): Date => new Date(START_MS + ms)

/** Lets these keys die, by a consumer that is gone afterwards. */
async function kill(toc: TestTocsin, topic: Topic<string, string>, keys: readonly string[]): Promise<void> {
  const killer = topic.consume(async () => ({ dead: 'killed' }))
  await topic.scheduleMany(
    keys.map((key) => ({ key, delay: 1, payload: `of ${key}`, tags: [`tag-${key}`, 'all'] })),
  )
  await toc.advance(1)
  await killer.stop()
  expect((await topic.counts()).pending).toBe(0)
}

describe('a task dies', () => {
  it('when its last attempt fails', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid', {
      retry: { maxAttempts: 3, backoff: 'exponential', min: '1s', max: '1m' },
    })
    const attempts: [number, number, number][] = []
    topic.consume(async ({ attempt, deliveries }) => {
      attempts.push([attempt, deliveries, toc.now().getTime() - START_MS])
      throw new Error(`attempt ${attempt} failed`)
    })
    await topic.schedule({ key: 'k', delay: '1s', payload: null })
    await toc.advance('1h')
    expect(attempts).toEqual([
      [1, 1, 1_000],
      [2, 2, 2_000],
      [3, 3, 4_000],
    ])
    expect(await topic.get('k')).toMatchObject({
      state: 'dead',
      deadCause: 'attempts',
      lastError: 'Error: attempt 3 failed',
      dueAt: after(1_000),
      updatedAt: after(4_000),
    })
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 1 })
  })

  it('at once when there is one attempt only', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid', { retry: { maxAttempts: 1 } })
    topic.consume(async () => ({ retry: '1s', reason: 'busy' }))
    await topic.schedule({ key: 'k', delay: 1, payload: null })
    await toc.advance(1)
    expect(await topic.get('k')).toMatchObject({ state: 'dead', deadCause: 'attempts', lastError: 'busy' })
  })

  it('when its handler says so', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid')
    topic.consume(async () => ({ dead: 'shop closed' }))
    await topic.schedule({ key: 'k', delay: 1, payload: null })
    await toc.advance(1)
    expect(await topic.get('k')).toMatchObject({
      state: 'dead',
      deadCause: 'handler',
      lastError: 'shop closed',
      deliveries: 1,
    })
  })

  it('never of snoozes', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('order.unpaid', { retry: { maxAttempts: 2 } })
    let calls = 0
    topic.consume(async ({ attempt, deliveries }) => {
      expect([attempt, deliveries]).toEqual([1, ++calls])
      return calls < 50 ? { snooze: '1m' } : undefined
    })
    await topic.schedule({ key: 'k', delay: 1, payload: null })
    await toc.advance('1h')
    expect(calls).toBe(50)
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  it('when its payload no longer fits, without an attempt and with its payload', async () => {
    await using toc = await testTocsin()
    let longest = 10
    const schema = z
      .object({ name: z.string() })
      .refine(async ({ name }) => name.length <= longest, 'too long')
    const topic = toc.topic('order.unpaid', { schema })
    let calls = 0
    topic.consume(async () => void calls++)
    await topic.schedule({ key: 'k', delay: 1, payload: { name: 'long name' } })
    longest = 3
    await toc.advance(1)
    expect(calls).toBe(0)
    const info = await topic.get('k')
    expect(info).toMatchObject({
      state: 'dead',
      deadCause: 'payload',
      payload: { name: 'long name' },
      attempt: 1,
    })
    expect(info?.lastError).toContain('too long')
    longest = 10
    expect(await topic.dead.replay({ keys: ['k'] })).toEqual({ replayed: 1, superseded: 0 })
    await toc.advance(0)
    expect(calls).toBe(1)
  })
})

describe('late', () => {
  async function found(then: 'fire' | 'drop' | 'dead', lateMs: number) {
    const toc = await testTocsin()
    const topic = toc.topic<null>('push', { late: { after: '5m', then } })
    const fired: number[] = []
    topic.consume(async (task) => void fired.push(task.latenessMs))
    await topic.pause()
    await topic.schedule({ key: 'k', delay: '1m', payload: null })
    await toc.advance(60_000 + lateMs)
    await topic.resume()
    await toc.advance(0)
    const info = await topic.get('k')
    await toc.close()
    return { fired, info }
  }

  it.each(['fire', 'drop', 'dead'] as const)('%s: what is not over the limit fires', async (then) => {
    expect(await found(then, 300_000)).toEqual({ fired: [300_000], info: null })
  })

  it('fire', async () => {
    expect(await found('fire', 300_001)).toEqual({ fired: [300_001], info: null })
  })

  it('drop', async () => {
    expect(await found('drop', 300_001)).toEqual({ fired: [], info: null })
  })

  it('dead', async () => {
    const { fired, info } = await found('dead', 300_001)
    expect(fired).toEqual([])
    expect(info).toMatchObject({ state: 'dead', deadCause: 'late', attempt: 1 })
    expect(info?.lastError).toContain('5m1ms')
  })

  it('does not punish a retry for the time it waited', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { late: { after: '5m', then: 'drop' } })
    const attempts: number[] = []
    topic.consume(async ({ attempt }) => {
      attempts.push(attempt)
      if (attempt === 1) return { retry: '10m' }
      if (attempt === 2 && attempts.length === 2) return { snooze: '10m' }
      return undefined
    })
    await topic.schedule({ key: 'k', delay: '1m', payload: null })
    await toc.advance('1h')
    expect(attempts).toEqual([1, 2, 2])
  })
})

describe('replay', () => {
  it.each<[string, Parameters<Topic<string, string>['dead']['replay']>[0], string[]]>([
    ['keys', { keys: ['a:1', 'b:1', 'nothing'] }, ['a:1', 'b:1']],
    ['a tag', { tag: 'tag-b:1' }, ['b:1']],
    ['a prefix', { prefix: 'a' }, ['a:1', 'a:2']],
    ['all', { all: true }, ['a:1', 'a:2', 'b:1']],
    ['none', { keys: [] }, []],
  ])('by %s', async (_, which, expected) => {
    for (const slotBy of ['key', 'prefix'] as const) {
      await using toc = await testTocsin()
      const topic = toc.topic<string>('order.unpaid', { slotBy })
      await kill(toc, topic, ['a:1', 'a:2', 'b:1'])
      const seen: string[] = []
      topic.consume(async (task) => {
        expect(task.payload).toBe(`of ${task.key}`)
        expect(task.tags).toContain('all')
        seen.push(task.key)
      })
      expect(await topic.dead.replay(which)).toEqual({ replayed: expected.length, superseded: 0 })
      await toc.advance(0)
      expect(seen.toSorted()).toEqual(expected)
      expect((await topic.counts()).dead).toBe(3 - expected.length)
    }
  })

  it('begins anew: due now, without failures, as high as it was', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid', { retry: { maxAttempts: 2, min: '1s' } })
    const first = topic.consume(async () => {
      throw new Error('no')
    })
    await topic.schedule({ key: 'k', delay: 1, payload: 'body', priority: 'high', tags: ['t'] })
    await toc.advance('1h')
    await first.stop()
    expect(await topic.dead.replay({ all: true })).toEqual({ replayed: 1, superseded: 0 })
    expect(await topic.get('k')).toMatchObject({
      state: 'pending',
      attempt: 1,
      priority: 'high',
      tags: ['t'],
      dueAt: after(3_600_000),
      lastError: null,
      deadCause: null,
    })
    expect(await topic.cancelBy({ tag: 't' })).toEqual({ cancelled: 1, inFlight: 0 })
  })

  it('keeps the id: it is the same task', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid', { retry: { maxAttempts: 1 } })
    const ids: string[] = []
    topic.consume(async ({ id }) => {
      ids.push(id)
      if (ids.length === 1) throw new Error('no')
    })
    await topic.schedule({ key: 'k', delay: 1, payload: '' })
    await toc.advance(1)
    await topic.dead.replay({ all: true })
    await toc.advance('1h')
    expect(ids).toEqual([ids[0], ids[0]])
  })

  it('never touches a live task of the same key', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await kill(toc, topic, ['k'])
    await topic.schedule({ key: 'k', delay: '1h', payload: 'alive' })
    expect(await topic.dead.replay({ keys: ['k'] })).toEqual({ replayed: 0, superseded: 1 })
    expect(await topic.dead.replay({ all: true })).toEqual({ replayed: 0, superseded: 1 })
    expect(await topic.get('k')).toMatchObject({ state: 'pending', payload: 'alive' })
    expect(await topic.counts()).toEqual({ pending: 1, due: 0, claimed: 0, dead: 1 })
    await topic.cancel('k')
    expect(await topic.get('k')).toMatchObject({ state: 'dead', payload: 'of k' })
    expect(await topic.dead.replay({ keys: ['k'] })).toEqual({ replayed: 1, superseded: 0 })
  })

  it.each<[string, Parameters<Topic<string, string>['dead']['replay']>[0]]>([
    ['all', { all: true }],
    ['a tag', { tag: 'all' }],
    ['a prefix', { prefix: 'k' }],
  ])('by %s: passes over what a newer task of its key superseded', async (_, which) => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await kill(toc, topic, ['k', 'k:other'])
    await topic.schedule({ key: 'k', delay: '1h', payload: 'newer' })
    await topic.cancel('k')
    const dead = await topic.list({ state: 'dead' })
    expect(dead.tasks.map(({ key, superseded }) => [key, superseded])).toEqual([
      ['k', true],
      ['k:other', false],
    ])
    const seen: string[] = []
    topic.consume(async ({ payload }) => void seen.push(payload))
    expect(await topic.dead.replay(which)).toEqual({ replayed: 1, superseded: 1 })
    await toc.advance(0)
    expect(seen).toEqual(['of k:other'])
    expect(await topic.dead.replay({ keys: ['k'] })).toEqual({ replayed: 1, superseded: 0 })
    await toc.advance(0)
    expect(seen).toEqual(['of k:other', 'of k'])
  })

  it('a second death of a key takes the place of the first', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await kill(toc, topic, ['k'])
    await kill(toc, topic, ['k'])
    expect((await topic.counts()).dead).toBe(1)
  })

  it('of 3,000 at once', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await kill(
      toc,
      topic,
      Array.from({ length: 3_000 }, (_, n) => `k-${n}`),
    )
    let fired = 0
    topic.consume(async () => void fired++)
    expect(await topic.dead.replay({ tag: 'all' })).toEqual({ replayed: 3_000, superseded: 0 })
    await toc.advance(0)
    expect(fired).toBe(3_000)
  })
})

describe('purge', () => {
  it.each<[string, Parameters<Topic<string, string>['dead']['purge']>[0], number]>([
    ['keys', { keys: ['a:1', 'b:1', 'nothing', 'a:1'] }, 2],
    ['a tag', { tag: 'tag-b:1' }, 1],
    ['a prefix', { prefix: 'a' }, 2],
    ['all', { all: true }, 3],
  ])('by %s', async (_, which, purged) => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await kill(toc, topic, ['a:1', 'a:2', 'b:1'])
    await topic.schedule({ key: 'a:9', delay: '1h', payload: 'alive', tags: ['tag-b:1'] })
    expect(await topic.dead.purge(which)).toEqual({ purged })
    expect(await topic.counts()).toEqual({ pending: 1, due: 0, claimed: 0, dead: 3 - purged })
  })

  it('what is purged is gone', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<string>('order.unpaid')
    await kill(toc, topic, ['k'])
    await topic.dead.purge({ all: true })
    expect(await topic.get('k')).toBeNull()
    expect(await topic.dead.replay({ keys: ['k'] })).toEqual({ replayed: 0, superseded: 0 })
  })
})
