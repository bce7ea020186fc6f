import { describe, expect, it, vi } from 'vitest'
import { type EventName, type Logger, Tocsin, type TocsinEvents } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { recordFirings } from './helpers.ts'

/** Every event of these names, as it came. */
function record<N extends EventName>(toc: Tocsin, name: N): TocsinEvents[N][] {
  const events: TocsinEvents[N][] = []
  toc.on(name, (event) => events.push(event))
  return events
}

describe('events', () => {
  it('retry: each failed attempt that is followed by another', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { retry: { maxAttempts: 3, min: '1s' } })
    const [retries, deaths] = [record(toc, 'retry'), record(toc, 'dead')]
    let id = ''
    topic.consume(async (task) => {
      id = task.id
      if (task.attempt === 2) return { retry: '7s', reason: 'busy' }
      throw new TypeError(`attempt ${task.attempt}`)
    })
    await topic.schedule({ key: 'k', delay: 1, payload: null })
    await toc.advance('1h')
    expect(retries).toEqual([
      { topic: 'push', key: 'k', id, attempt: 1, error: 'TypeError: attempt 1', retryInMs: 1_000 },
      { topic: 'push', key: 'k', id, attempt: 2, error: 'busy', retryInMs: 7_000 },
    ])
    expect(deaths).toEqual([
      { topic: 'push', key: 'k', id, cause: 'attempts', error: 'TypeError: attempt 3' },
    ])
  })

  it('dead: by its handler, by its lateness', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { late: { after: '1m', then: 'dead' } })
    const deaths = record(toc, 'dead')
    topic.consume(async () => ({ dead: 'shop closed' }))
    await topic.schedule({ key: 'a', delay: 1, payload: null })
    await toc.advance(1)
    await topic.schedule({ key: 'b', at: '2025-01-01T00:00:00Z', payload: null })
    await toc.advance(0)
    expect(deaths).toMatchObject([
      { key: 'a', cause: 'handler', error: 'shop closed' },
      { key: 'b', cause: 'late' },
    ])
  })

  it('a snooze and an end are none', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const events = [record(toc, 'retry'), record(toc, 'dead'), record(toc, 'error'), record(toc, 'late')]
    topic.consume(async ({ deliveries }) => (deliveries < 3 ? { snooze: '1m' } : undefined))
    await topic.schedule({ delay: 1, payload: null })
    await toc.advance('1h')
    expect(events.flat()).toEqual([])
  })

  it('slots: what this process pulls', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { slots: 4 })
    const slots = record(toc, 'slots')
    topic.consume(async () => {})
    await topic.configure({ slots: 2 })
    await topic.configure({ batchSize: 7 })
    expect(slots).toEqual([
      { topic: 'push', owned: [0, 1, 2, 3] },
      { topic: 'push', owned: [0, 1] },
    ])
  })

  it('error: a failure in the background, by which nothing is lost', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { slots: 1 })
    const errors = record(toc, 'error')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'k', delay: '1s', payload: null })
    await toc.advance(0)
    const fault = new Error('the store is away')
    vi.spyOn(MemoryTimetable.prototype, 'claim').mockRejectedValueOnce(fault)
    await toc.advance('2s')
    expect(errors).toEqual([{ topic: 'push', doing: 'claim', error: fault }])
    expect(fired.map(([key]) => key)).toEqual(['k'])
  })

  it('error: an outcome that could not be recorded is recorded later, and its handler is not called again', async () => {
    await using toc = await testTocsin({ patience: '100ms' })
    const topic = toc.topic<null>('push')
    const errors = record(toc, 'error')
    const fired = recordFirings(topic, toc)
    await topic.schedule({ key: 'k', delay: '1s', payload: null })
    vi.spyOn(MemoryTimetable.prototype, 'settle').mockRejectedValueOnce(new Error('the store is away'))
    await toc.advance('1h')
    expect(errors).toMatchObject([{ topic: 'push', doing: 'settle' }])
    expect(fired).toEqual([['k', 1_000]])
    expect(await topic.get('k')).toBeNull()
  })
})

describe('on', () => {
  it('answers how to end it', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    const seen: string[] = []
    const listener = () => void seen.push('both')
    const off = toc.on('config', listener)
    toc.on('config', listener)
    toc.on('config', () => void seen.push('other'))
    await topic.configure({ slots: 4 })
    expect(seen.splice(0)).toEqual(['both', 'both', 'other'])
    off()
    off()
    await topic.configure({ slots: 8 })
    expect(seen).toEqual(['both', 'other'])
  })

  it('a listener may end itself', async () => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push')
    let calls = 0
    const off = toc.on('config', () => {
      calls++
      off()
    })
    await topic.pause()
    await topic.resume()
    expect(calls).toBe(1)
  })

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('of the listener')
      },
    ],
    ['rejects', () => Promise.reject(new Error('of the listener, later'))],
  ])('a listener that %s does not stop the timers, nor the other listeners', async (_, fault) => {
    await using toc = await testTocsin()
    const topic = toc.topic<null>('push', { slots: 2, retry: { min: '1s' }, objective: { p99: 0 } })
    for (const name of ['late', 'retry', 'dead', 'config', 'drift', 'slots', 'error'] as const)
      toc.on(name, fault as () => void)
    const [retries, deaths] = [record(toc, 'retry'), record(toc, 'dead')]
    const attempts: number[] = []
    topic.consume(async ({ attempt }) => {
      attempts.push(attempt)
      if (attempt < 3) throw new Error('no')
      return { dead: 'enough' }
    })
    await topic.configure({ slots: 4 })
    await topic.schedule({ key: 'k', at: '2025-12-31T00:00:00Z', payload: null })
    await toc.advance('1h')
    expect(attempts).toEqual([1, 2, 3])
    expect(retries.length).toBe(2)
    expect(deaths.length).toBe(1)
  })
})

describe('the logger', () => {
  it('hears of drift and of listeners that throw', async () => {
    const lines: [level: string, message: string][] = []
    const level = (name: string) => (_: object, message: string) => void lines.push([name, message])
    const logger: Logger = {
      debug: level('debug'),
      info: level('info'),
      warn: level('warn'),
      error: level('error'),
    }
    await using toc = await Tocsin.open({ timetable: 'memory:', logger })
    const topic = toc.topic('push', { slots: 4 })
    toc.on('drift', () => {
      throw new Error('of the listener')
    })
    await topic.configure({ slots: 8 })
    expect(lines).toEqual([
      ['warn', expect.stringContaining('overrides what the code says')],
      ['error', expect.stringContaining('listener threw')],
    ])
  })
})
