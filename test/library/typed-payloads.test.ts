import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { defineTopic } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { refusal } from './helpers.ts'

describe('with a schema', () => {
  const Order = defineTopic('order.unpaid', {
    schema: z.object({
      cents: z.string().transform(Number),
      currency: z.string().default('EUR'),
      at: z.iso.datetime().transform((text) => new Date(text)),
    }),
  })

  it('takes its input and delivers its output', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic(Order)
    const seen: unknown[] = []
    topic.consume(async ({ payload }) => {
      expectTypeOf(payload).toEqualTypeOf<{ cents: number; currency: string; at: Date }>()
      seen.push(payload)
    })
    await topic.schedule({ key: 'k', delay: 1, payload: { cents: '995', at: '2026-01-01T00:00:00Z' } })
    const parsed = { cents: 995, currency: 'EUR', at: new Date('2026-01-01T00:00:00Z') }
    expect((await topic.get('k'))?.payload).toEqual(parsed)
    expect((await topic.list()).tasks[0]?.payload).toEqual(parsed)
    await toc.advance(1)
    expect(seen).toEqual([parsed])
  })

  it('parses the same input at every attempt', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic(Order)
    const seen: number[] = []
    topic.consume(async ({ payload, attempt }) => {
      seen.push(payload.cents)
      if (attempt < 3) throw new Error('no')
    })
    await topic.schedule({ delay: 1, payload: { cents: '7', at: '2026-01-01T00:00:00Z' } })
    await toc.advance('1h')
    expect(seen).toEqual([7, 7, 7])
  })

  it('refuses what does not fit, and says where', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic(Order)
    const error = await refusal(() =>
      topic.schedule({ delay: 1, payload: { cents: 995 as never, at: 'yesterday' } }),
    )
    expect(error.code).toBe('bad-payload')
    expect(error.message).toContain('cents: ')
    expect(error.message).toContain('at: ')
    expect((await topic.counts()).pending).toBe(0)
  })

  it('checks what JSON will deliver, not what was passed', async () => {
    await using toc = await testTocsin()
    const dates = toc.topic('dates', { schema: z.object({ at: z.date() }) })
    const error = await refusal(() => dates.schedule({ delay: 1, payload: { at: new Date(0) } }))
    expect(error.code).toBe('bad-payload')
    expect(error.message).toContain('a Date, for one, arrives as text')
    const coerced = toc.topic('coerced', { schema: z.object({ at: z.coerce.date<Date | string>() }) })
    const seen: Date[] = []
    coerced.consume(async ({ payload }) => void seen.push(payload.at))
    await coerced.schedule({ delay: 1, payload: { at: new Date(5) } })
    await toc.advance(1)
    expect(seen).toEqual([new Date(5)])
  })

  it('one bad payload refuses an array', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('numbers', { schema: z.number().max(1_200) })
    const error = await refusal(() =>
      topic.scheduleMany(Array.from({ length: 1_500 }, (_, n) => ({ delay: 1, payload: n }))),
    )
    expect(error).toMatchObject({ code: 'bad-payload', details: { index: 1_201 } })
    expect((await topic.counts()).pending).toBe(0)
  })
})

describe('with a schema that takes its time', () => {
  const taken = new Set(['taken'])
  const Name = z.string().refine(async (name) => !taken.has(name), 'is taken')

  it('is awaited, at schedule and at delivery', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('names', { schema: Name })
    const error = await refusal(() => topic.schedule({ delay: 1, payload: 'taken' }))
    expect(error.code).toBe('bad-payload')
    expect(error.message).toContain('is taken')
    const seen: string[] = []
    topic.consume(async ({ payload }) => void seen.push(payload))
    await topic.schedule({ delay: 1, payload: 'free' })
    await toc.advance(1)
    expect(seen).toEqual(['free'])
  })

  it('in batches, guards and arrays as well', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('names', { schema: Name })
    const seen: string[] = []
    topic.consumeBatch(async (tasks) => void seen.push(...tasks.map(({ payload }) => payload)), {
      guard: async (tasks) => tasks.map(({ payload }) => payload !== 'n-3'),
    })
    const error = await refusal(() =>
      topic.scheduleMany(['n-1', 'n-2', 'taken'].map((payload) => ({ delay: 1, payload }))),
    )
    expect(error).toMatchObject({ code: 'bad-payload', details: { index: 2 } })
    await topic.scheduleMany(['n-1', 'n-2', 'n-3'].map((payload) => ({ delay: 1, payload })))
    await toc.advance(1)
    expect(seen.toSorted()).toEqual(['n-1', 'n-2'])
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  it('a stream: what comes before the bad piece is in', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('names', { schema: Name })
    function* tasks() {
      for (let n = 0; n < 1_600; n++) yield { delay: 1, payload: n === 1_555 ? 'taken' : `n-${n}` }
    }
    const error = await refusal(() => topic.scheduleMany(tasks()))
    expect(error).toMatchObject({ code: 'interrupted', details: { accepted: 1_000 } })
    expect((await topic.counts()).pending).toBe(1_000)
  })
})

describe('with a schema that throws', () => {
  const throwing = (vendor: string, thrown: () => never | Promise<never>) => ({
    '~standard': { version: 1 as const, vendor, validate: thrown },
  })

  it.each([
    [
      'at once',
      throwing('a', () => {
        throw new Error('schema is broken')
      }),
    ],
    ['later', throwing('b', () => Promise.reject(new Error('schema is broken')))],
  ])('%s: it has refused', async (_, schema) => {
    await using toc = await testTocsin()
    const topic = toc.topic('broken', { schema })
    const error = await refusal(() => topic.schedule({ delay: 1, payload: {} }))
    expect(error.code).toBe('bad-payload')
    expect(error.message).toContain('schema is broken')
    expect((await topic.counts()).pending).toBe(0)
  })

  it('at delivery: the task is dead, the consumer goes on', async () => {
    await using toc = await testTocsin()
    let broken = false
    const schema = z.string().refine((text) => {
      if (broken && text === 'bad') throw new Error('schema is broken')
      return true
    })
    const topic = toc.topic('names', { schema })
    const seen: string[] = []
    topic.consume(async ({ payload }) => void seen.push(payload))
    await topic.schedule({ key: 'bad', delay: 1, payload: 'bad' })
    await topic.schedule({ key: 'good', delay: 1, payload: 'good' })
    broken = true
    await toc.advance(1)
    expect(seen).toEqual(['good'])
    expect(await topic.get('bad')).toMatchObject({ state: 'dead', deadCause: 'payload', payload: 'bad' })
  })
})

describe('without a schema', () => {
  it('delivers what JSON makes of it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<{ at: Date; gone?: undefined; list: (number | undefined)[]; text: string }>(
      'plain',
    )
    const seen: unknown[] = []
    topic.consume(async ({ payload }) => {
      expectTypeOf(payload.at).toEqualTypeOf<string>()
      seen.push(payload)
    })
    await topic.schedule({
      delay: 1,
      payload: { at: new Date(0), gone: undefined, list: [1, undefined], text: '🔔\u2028' },
    })
    await toc.advance(1)
    expect(seen).toEqual([{ at: '1970-01-01T00:00:00.000Z', list: [1, null], text: '🔔\u2028' }])
  })

  it.each([null, false, 0, '', [], {}, -0.5, 'text', [[[]]], { a: { b: [1, { c: null }] } }])(
    'delivers %j',
    async (payload) => {
      await using toc = await testTocsin()
      const topic = toc.topic('plain')
      const seen: unknown[] = []
      topic.consume(async (task) => void seen.push(task.payload))
      await topic.schedule({ delay: 1, payload })
      await toc.advance(1)
      expect(seen).toEqual([payload])
    },
  )

  it('the largest and the deepest that are taken', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic('plain')
    let deep: unknown = 'core'
    for (let i = 0; i < 100; i++) deep = [deep]
    const large = 'x'.repeat(65_534)
    const seen: unknown[] = []
    topic.consume(async ({ payload }) => void seen.push(payload))
    await topic.schedule({ delay: 1, payload: deep })
    await topic.schedule({ delay: 2, payload: large })
    await toc.advance(2)
    expect(seen).toEqual([deep, large])
  })

  it('each delivery gets a payload of its own', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<{ n: number }>('plain')
    const seen: number[] = []
    topic.consume(async ({ payload, attempt }) => {
      seen.push(payload.n)
      payload.n = 99
      if (attempt === 1) throw new Error('no')
    })
    await topic.schedule({ delay: 1, payload: { n: 1 } })
    await toc.advance('1h')
    expect(seen).toEqual([1, 1])
  })
})
