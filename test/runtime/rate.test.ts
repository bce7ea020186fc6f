import { describe, expect, it } from 'vitest'
import type { Clock } from '../../src/clock.ts'
import type { TaskStore } from '../../src/store.ts'
import { TestTocsin } from '../../src/testing/test-tocsin.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { fullestSpan } from '../fullest-span.ts'
import { gate, wrapped } from './harness.ts'

const LIMIT = 10
const PER_MS = 1_000
const RATE = { limit: LIMIT, per: PER_MS }
const SLOW_MS = 900
const PATIENCE_MS = 5
const TASKS = 60

const after = (clock: Clock, ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve))
const dueNow = (count: number) => Array.from({ length: count }, () => ({ delay: 0, payload: null }))

function tocsinOf(wrap: (timetable: TaskStore, clock: Clock) => TaskStore = (same) => same) {
  const clock = new VirtualClock(Date.UTC(2026, 0, 1))
  return { clock, toc: new TestTocsin(clock, PATIENCE_MS, (timetable) => wrap(timetable, clock)) }
}

/** Delays the reply of every other claim that takes tasks. */
function slowClaims(timetable: TaskStore, clock: Clock): TaskStore {
  let claims = 0
  return wrapped(timetable, {
    claim: async (at, request) => {
      const claim = await timetable.claim(at, request)
      if (claim.tasks.length > 0 && claims++ % 2 === 0) await after(clock, SLOW_MS)
      return claim
    },
  })
}

function expectRateKept(starts: readonly number[]): void {
  expect(starts.length).toBe(TASKS)
  expect(fullestSpan(starts, PER_MS)).toBeLessThanOrEqual(LIMIT)
}

describe('a rate holds when handlers start, however the span is laid', () => {
  it('though the replies of some claims are slow', async () => {
    const { toc, clock } = tocsinOf(slowClaims)
    const topic = toc.topic<null>('t', { rate: RATE })
    const starts: number[] = []
    topic.consume(async () => void starts.push(clock.monotonicNow()))
    await topic.scheduleMany(dueNow(TASKS))
    await toc.advance('1m')
    await toc.close()
    expectRateKept(starts)
  })

  it('though batches wait for their claims', async () => {
    const { toc, clock } = tocsinOf(slowClaims)
    const topic = toc.topic<null>('t', { rate: RATE })
    const starts: number[] = []
    topic.consumeBatch(async (tasks) => tasks.forEach(() => starts.push(clock.monotonicNow())))
    await topic.scheduleMany(dueNow(TASKS))
    await toc.advance('1m')
    await toc.close()
    expectRateKept(starts)
  })

  it('and a batch that has as many tasks as it allows does not wait for more', async () => {
    const { toc, clock } = tocsinOf()
    const topic = toc.topic<null>('t', { rate: RATE, linger: '20s' })
    const starts: number[] = []
    topic.consumeBatch(async (tasks) => tasks.forEach(() => starts.push(clock.monotonicNow())))
    await topic.scheduleMany(dueNow(TASKS))
    await toc.advance('8s')
    await toc.close()
    expectRateKept(starts)
  })

  it('though a guard is slow', async () => {
    const { toc, clock } = tocsinOf()
    const topic = toc.topic<null>('t', { rate: RATE })
    const starts: number[] = []
    let calls = 0
    topic.consume(async () => void starts.push(clock.monotonicNow()), {
      guard: async (tasks) => {
        if (calls++ % 2 === 0) await after(clock, SLOW_MS)
        return tasks.map(() => true)
      },
    })
    await topic.scheduleMany(dueNow(TASKS))
    await toc.advance('1m')
    await toc.close()
    expectRateKept(starts)
  })

  it('and what a guard rejects does not use it up', async () => {
    const { toc } = tocsinOf()
    const topic = toc.topic<boolean>('t', { rate: { limit: 1, per: '1h' } })
    let starts = 0
    topic.consume(async () => void starts++, {
      guard: async (tasks) => tasks.map(({ payload }) => payload),
    })
    await topic.scheduleMany(Array.from({ length: TASKS }, () => ({ delay: 0, payload: false })))
    await toc.advance(0)
    await topic.schedule({ key: 'wanted', delay: 0, payload: true })
    await toc.advance(0)
    expect(starts).toBe(1)
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
    await toc.close()
  })

  it('though it is lowered when tasks are claimed already: they wait as if they had not been claimed', async () => {
    const { toc } = tocsinOf()
    const topic = toc.topic<null>('t', { rate: RATE })
    const guarded = gate()
    const deliveries: number[] = []
    topic.consume(async (task) => void deliveries.push(task.deliveries), {
      guard: async (tasks) => {
        await guarded.opened
        return tasks.map(() => true)
      },
    })
    await topic.scheduleMany(dueNow(LIMIT))
    await toc.advance(0)
    expect(await topic.counts()).toMatchObject({ claimed: LIMIT })
    await topic.configure({ rate: { limit: 1, per: '1m' } })
    guarded.open()
    await toc.advance('1s')
    expect(deliveries.length).toBe(1)
    expect(await topic.counts()).toMatchObject({ claimed: 0, due: LIMIT - 1 })
    await toc.advance('9m')
    expect(deliveries).toEqual(Array.from({ length: LIMIT }, () => 1))
    await toc.close()
  })

  it('and is used up: no start is lost by empty claims and failed claims', async () => {
    let claims = 0
    const { toc, clock } = tocsinOf((timetable) =>
      wrapped(timetable, {
        claim: async (at, request) => {
          if (claims++ % 5 === 0) throw new Error('no connection')
          return timetable.claim(at, request)
        },
      }),
    )
    const topic = toc.topic<null>('t', { rate: RATE })
    const starts: number[] = []
    topic.consume(async () => void starts.push(clock.monotonicNow()))
    await topic.scheduleMany(dueNow(TASKS))
    await toc.advance('8s')
    await toc.close()
    expectRateKept(starts)
  })
})
