/** Writes take effect in the order in which they were called, also without an await between them. */
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { Tocsin, type TocsinError, type Topic } from 'tocsin'
import { type TestTocsin, testTocsin } from 'tocsin/testing'
import { gate, recordFirings, refusal } from './helpers.ts'

const plain = (toc: TestTocsin): Topic<string, string> => toc.topic<string>('push')
const refusing = z.string().refine(async (text) => text !== 'bad', 'is bad')
const slow = (toc: TestTocsin): Topic<string, string> => toc.topic('push', { schema: refusing })

describe.each([
  ['without a schema', plain],
  ['with a schema that takes its time', slow],
])('%s', (_, open) => {
  it('schedule, cancel', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const fired = recordFirings(topic, toc)
    const [scheduled, cancelled] = await Promise.all([
      topic.schedule({ key: 'k', delay: 1, payload: '' }),
      topic.cancel('k'),
    ])
    expect(scheduled.outcome).toBe('created')
    expect(cancelled.outcome).toBe('cancelled')
    await toc.advance('1h')
    expect(fired).toEqual([])
  })

  it('schedule, cancel, schedule', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const outcomes = await Promise.all([
      topic.schedule({ key: 'k', delay: 1, payload: 'first' }),
      topic.cancel('k'),
      topic.schedule({ key: 'k', delay: 1, payload: 'second' }),
      topic.schedule({ key: 'k', delay: 1, payload: 'third', onConflict: 'keep' }),
    ])
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['created', 'cancelled', 'created', 'kept'])
    expect(await topic.get('k')).toMatchObject({ payload: 'second' })
  })

  it('schedule, reschedule, cancel', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const outcomes = await Promise.all([
      topic.schedule({ key: 'k', delay: '1m', payload: '' }),
      topic.reschedule('k', { delay: '2m' }),
      topic.cancel('k'),
      topic.reschedule('k', { delay: '3m' }),
      topic.cancelMany(['k']),
    ])
    expect(outcomes.slice(0, 4)).toMatchObject([
      { outcome: 'created' },
      { outcome: 'rescheduled' },
      { outcome: 'cancelled' },
      { outcome: 'not-found' },
    ])
    expect(outcomes[4]).toEqual([{ key: 'k', outcome: 'not-found' }])
  })

  it('the last of many wins', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const writes = Array.from({ length: 50 }, (_, n) =>
      topic.schedule({ key: 'k', delay: '1m', payload: `${n}` }),
    )
    await Promise.all(writes)
    expect(await topic.get('k')).toMatchObject({ payload: '49' })
  })

  it('schedule, cancelBy', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const [, byTag] = await Promise.all([
      topic.schedule({ key: 'u:1', delay: '1m', payload: '', tags: ['t'] }),
      topic.cancelBy({ tag: 't' }),
    ])
    expect(byTag).toEqual({ cancelled: 1, inFlight: 0 })
    const [, byPrefix] = await Promise.all([
      topic.schedule({ key: 'u:1', delay: '1m', payload: '' }),
      topic.cancelBy({ prefix: 'u' }),
    ])
    expect(byPrefix).toEqual({ cancelled: 1, inFlight: 0 })
  })

  it('schedule, rescheduleBy', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const [, moved] = await Promise.all([
      topic.schedule({ key: 'u:1', delay: '1m', payload: '', tags: ['t'] }),
      topic.rescheduleBy({ tag: 't' }, { shift: '+1m' }),
    ])
    expect(moved).toEqual({ rescheduled: 1, inFlight: 0 })
  })

  it('scheduleMany of 5,000, then cancel of its last', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const many = Array.from({ length: 5_000 }, (_, n) => ({ key: `k-${n}`, delay: '1m', payload: '' }))
    const [, cancelled, again] = await Promise.all([
      topic.scheduleMany(many),
      topic.cancelMany(['k-0', 'k-4999']),
      topic.schedule({ key: 'k-4998', delay: '1m', payload: 'again' }),
    ])
    expect(cancelled.map(({ outcome }) => outcome)).toEqual(['cancelled', 'cancelled'])
    expect(again.outcome).toBe('replaced')
    expect((await topic.counts()).pending).toBe(4_998)
    expect(await topic.get('k-4998')).toMatchObject({ payload: 'again' })
  })

  it('scheduleMany of 5,000, then cancelBy', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const many = Array.from({ length: 5_000 }, (_, n) => ({
      key: `k-${n}`,
      delay: '1m',
      payload: '',
      tags: ['t'],
    }))
    const [, cancelled] = await Promise.all([topic.scheduleMany(many), topic.cancelBy({ tag: 't' })])
    expect(cancelled).toEqual({ cancelled: 5_000, inFlight: 0 })
    expect((await topic.counts()).pending).toBe(0)
  })

  it('two arrays one after the other', async () => {
    await using toc = await testTocsin()
    const topic = open(toc)
    const many = (payload: string) =>
      Array.from({ length: 2_500 }, (_, n) => ({ key: `k-${n}`, delay: '1m', payload }))
    const [first, second] = await Promise.all([topic.scheduleMany(many('a')), topic.scheduleMany(many('b'))])
    expect(new Set(first.map(({ outcome }) => outcome))).toEqual(new Set(['created']))
    expect(new Set(second.map(({ outcome }) => outcome))).toEqual(new Set(['replaced']))
    expect(await topic.get('k-2499')).toMatchObject({ payload: 'b' })
  })
})

describe('with a schema that takes its time', () => {
  it('one that is refused holds up nothing and stops nothing', async () => {
    await using toc = await testTocsin()
    const topic = slow(toc)
    const [refused, good, cancelled] = await Promise.all([
      refusal(() => topic.schedule({ key: 'k', delay: 1, payload: 'bad' })),
      topic.schedule({ key: 'k', delay: 1, payload: 'good' }),
      topic.cancel('k'),
    ])
    expect(refused.code).toBe('bad-payload')
    expect(good.outcome).toBe('created')
    expect(cancelled.outcome).toBe('cancelled')
  })

  it('a slow one is waited for by a fast one', async () => {
    await using toc = await testTocsin()
    const answer = gate<boolean>()
    const schema = z.string().refine((text) => (text === 'slow' ? answer.passed : true))
    const topic = toc.topic('push', { schema })
    const first = topic.schedule({ key: 'k', delay: 1, payload: 'slow' })
    const second = topic.schedule({ key: 'k', delay: 1, payload: 'fast' })
    answer.open(true)
    expect((await first).outcome).toBe('created')
    expect((await second).outcome).toBe('replaced')
    expect(await topic.get('k')).toMatchObject({ payload: 'fast' })
  })

  it('what goes by tag or prefix waits for a slow one as well', async () => {
    await using toc = await testTocsin()
    const answer = gate<boolean>()
    const topic = toc.topic('push', { schema: z.string().refine(() => answer.passed) })
    const scheduling = topic.schedule({ key: 'u:1', delay: '1m', payload: '', tags: ['t'] })
    const moving = topic.rescheduleBy({ tag: 't' }, { shift: '+1m' })
    const cancelling = topic.cancelBy({ prefix: 'u' })
    await toc.advance(0)
    answer.open(true)
    expect((await scheduling).outcome).toBe('created')
    expect(await moving).toEqual({ rescheduled: 1, inFlight: 0 })
    expect(await cancelling).toEqual({ cancelled: 1, inFlight: 0 })
  })

  it('topics do not wait for each other', async () => {
    await using toc = await testTocsin()
    const answer = gate<boolean>()
    const stuck = toc.topic('stuck', { schema: z.string().refine(() => answer.passed) })
    const other = toc.topic<string>('other')
    const waiting = stuck.schedule({ delay: 1, payload: '' })
    expect((await other.schedule({ delay: 1, payload: '' })).outcome).toBe('created')
    answer.open(true)
    expect((await waiting).outcome).toBe('created')
  })

  it('a stream does not hold up other writes', async () => {
    await using toc = await testTocsin()
    const topic = slow(toc)
    const more = gate()
    async function* tasks() {
      for (let n = 0; n < 1_000; n++) yield { key: `k-${n}`, delay: 1, payload: '' }
      await more.passed
      yield { key: 'last', delay: 1, payload: '' }
    }
    const streaming = topic.scheduleMany(tasks())
    expect((await topic.schedule({ key: 'meanwhile', delay: 1, payload: '' })).outcome).toBe('created')
    more.open()
    expect(await streaming).toEqual({ created: 1_001, replaced: 0, kept: 0 })
  })
})

describe('close', () => {
  it.each<[string, (toc: Tocsin) => Topic<string, string>]>([
    ['an array in pieces', (toc) => toc.topic<string>('push')],
    ['a schema that takes its time', (toc) => toc.topic('push', { schema: refusing })],
  ])('after %s: no task is said to be in once everything is gone', async (_, open) => {
    const toc = await Tocsin.open({ timetable: 'memory:', logger: false })
    const topic = open(toc)
    const tasks = Array.from({ length: 3_000 }, (_, n) => ({ key: `k-${n}`, delay: '1h', payload: '' }))
    let isClosed = false
    const scheduling = topic.scheduleMany(tasks).then(
      () => (isClosed ? 'in, though closed' : 'in'),
      (error: unknown) => (error as TocsinError).code,
    )
    await toc.close()
    isClosed = true
    expect(await scheduling).toMatch(/^(in|closed|interrupted)$/)
  })
})
