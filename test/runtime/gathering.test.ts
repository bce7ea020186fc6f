/** When a batch handler is called, on a virtual clock. How often, on each composition: batches.test.ts. */
import { describe, expect, it } from 'vitest'
import { sleep } from '../../src/clock.ts'
import type { TaskStore } from '../../src/store.ts'
import { faultyTocsin, gate, quickTocsin, wrapped } from './harness.ts'
import type { TestTocsin } from '../../src/testing/test-tocsin.ts'
import type { Topic } from 'tocsin'

type Call = [atMs: number, keys: string[]]

/** The calls of a batch handler: when, in ms since now, and with which tasks. */
function recordCalls(toc: TestTocsin, topic: Topic<never, unknown>, concurrency = 4): Call[] {
  const fromMs = toc.now().getTime()
  const calls: Call[] = []
  topic.consumeBatch(
    async (tasks) => void calls.push([toc.now().getTime() - fromMs, tasks.map(({ key }) => key).toSorted()]),
    { concurrency },
  )
  return calls
}

async function schedule(topic: Topic<null, unknown>, delays: Record<string, number>): Promise<void> {
  await topic.scheduleMany(Object.entries(delays).map(([key, delay]) => ({ key, delay, payload: null })))
}

describe('linger', () => {
  it('a lone task is late by the linger', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '5ms' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000 })
    await toc.advance('2s')
    expect(calls).toEqual([[1_005, ['a']]])
  })

  it('what rings within the linger of the first task is in its batch', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '200ms' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000, b: 1_100, c: 1_200, d: 1_201 })
    await toc.advance('2s')
    expect(calls).toEqual([
      [1_200, ['a', 'b', 'c']],
      [1_401, ['d']],
    ])
  })

  it('what is written within the linger is in the batch', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1s' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 0 })
    await toc.advance(500)
    await schedule(topic, { b: 0 })
    await toc.advance('1s')
    expect(calls).toEqual([[1_000, ['a', 'b']]])
  })

  it('a full batch does not wait', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1s', batchSize: 3 })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 100, b: 200, c: 300, d: 400 })
    await toc.advance('2s')
    expect(calls).toEqual([
      [300, ['a', 'b', 'c']],
      [1_400, ['d']],
    ])
  })

  it('changes live', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '10s' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000 })
    await toc.advance('2s')
    await topic.configure({ linger: '3s' })
    await toc.advance('8s')
    await topic.configure({ linger: 0 })
    await schedule(topic, { b: 0 })
    await toc.advance(1)
    expect(calls).toEqual([
      [4_000, ['a']],
      [10_000, ['b']],
    ])
  })

  it('is not late for the policy of late tasks', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1s', late: { after: '100ms', then: 'drop' } })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000 })
    await toc.advance('3s')
    expect(calls).toEqual([[2_000, ['a']]])
  })

  it('does not hold back what the rate allows', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '400ms', rate: { limit: 2, per: '1s' } })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000, b: 1_000, c: 1_000, d: 1_000, e: 1_000 })
    await toc.advance('4s')
    expect(calls.map(([atMs, keys]) => [atMs, keys.length])).toEqual([
      [1_000, 2],
      [2_000, 2],
      [3_400, 1],
    ])
  })

  it('collects prefixes of many cells with merge, also for one call at a time', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '5ms', merge: '1s', slotBy: 'prefix', batchSize: 100 })
    const calls = recordCalls(toc, topic, 1)
    const keys = Array.from({ length: 30 }, (_, user) => [1, 2, 3].map((n) => `user-${user}:${n}`)).flat()
    await schedule(topic, Object.fromEntries(keys.map((key, i) => [key, 10_001 + (i % 7) * 100])))
    await toc.advance('20s')
    expect(calls.map(([, batch]) => batch)).toEqual([keys.toSorted()])
  })

  it('a guard gets the whole batch', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '100ms' })
    const asked: number[] = []
    topic.consumeBatch(async () => {}, {
      guard: async (tasks) => {
        asked.push(tasks.length)
        return tasks.map(() => true)
      },
    })
    await schedule(topic, { a: 1_000, b: 1_050, c: 1_100 })
    await toc.advance('2s')
    expect(asked).toEqual([3])
  })
})

describe('while tasks are gathered', () => {
  const delays = { a: 1_000, b: 1_000, c: 1_000 }

  it('stop gives them back as if untouched, and another consumer gets them', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1m' })
    let handled = 0
    const consumer = topic.consumeBatch(async (tasks) => void (handled += tasks.length))
    await schedule(topic, delays)
    await toc.advance('2s')
    expect(await topic.counts()).toMatchObject({ claimed: 3 })
    expect(await consumer.stop()).toEqual({ finished: 0, released: 3 })
    expect(await topic.get('a')).toMatchObject({ state: 'pending', attempt: 1, deliveries: 0 })
    const calls = recordCalls(toc, topic)
    await toc.advance('1m')
    expect(calls).toEqual([[60_000, ['a', 'b', 'c']]])
    expect(handled).toBe(0)
  })

  it('close gives them back, and leaves no timer', async () => {
    const toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1m' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, delays)
    await toc.advance('2s')
    await toc.close()
    expect([calls, toc.waitingTimers]).toEqual([[], 0])
  })

  it('pause gives them back, and resume gathers anew', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '10s' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, delays)
    await toc.advance('2s')
    await topic.pause()
    await toc.advance('1h')
    expect(await topic.counts()).toMatchObject({ pending: 3, claimed: 0 })
    await topic.resume()
    await toc.advance('10s')
    expect(calls).toEqual([[3_612_000, ['a', 'b', 'c']]])
  })

  it('a cancelled one is not handled, and a replaced one only in its new version', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1s' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, delays)
    await toc.advance(1_500)
    expect(await topic.cancel('a')).toMatchObject({ outcome: 'in-flight' })
    expect(await topic.schedule({ key: 'b', delay: '10s', payload: null })).toMatchObject({ inFlight: true })
    await toc.advance('20s')
    expect(calls).toEqual([
      [2_000, ['c']],
      [12_500, ['b']],
    ])
    expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0, dead: 0 })
  })

  it('their leases are extended: none is lost however long the linger', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { linger: '1m', lease: '3s' })
    const deliveries: number[] = []
    topic.consumeBatch(async (tasks) => void deliveries.push(...tasks.map((task) => task.deliveries)))
    await schedule(topic, delays)
    await toc.advance('2m')
    expect(deliveries).toEqual([1, 1, 1])
  })

  it('a lease that cannot be extended ends the linger before it ends', async () => {
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, { extend: () => Promise.reject(new Error('unreachable')) }),
    )
    const topic = toc.topic<null>('t', { linger: '1m', lease: '3s' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, delays)
    await toc.advance('10s')
    expect(calls).toEqual([[3_000, ['a', 'b', 'c']]])
  })
})

describe('a slow store', () => {
  /** Holds back the answer to every claim that takes the task 'slow'. */
  function slowly(until: Promise<void>) {
    return (timetable: TaskStore) =>
      wrapped(timetable, {
        claim: async (...args) => {
          const claim = await timetable.claim(...args)
          if (claim.tasks.some(({ key }) => key === 'slow')) await until
          return claim
        },
      })
  }

  it('a batch waits for a claim under way whose tasks rang within the linger', async () => {
    const answer = gate()
    await using toc = faultyTocsin(slowly(answer.opened))
    const topic = toc.topic<null>('t', { linger: '5ms' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000, b: 1_000, slow: 1_000 })
    await toc.advance(1_300)
    expect(calls).toEqual([])
    answer.open()
    await toc.advance('1s')
    expect(calls).toEqual([[1_300, ['a', 'b', 'slow']]])
  })

  it('a batch waits for the tasks that one claim of a cell leaves for the next', async () => {
    await using toc = faultyTocsin((timetable, clock) =>
      wrapped(timetable, {
        claim: async (...args) => {
          await sleep(clock, 20)
          return timetable.claim(...args)
        },
      }),
    )
    const topic = toc.topic<null>('t', { linger: '5ms', slotBy: 'prefix' })
    const calls = recordCalls(toc, topic)
    // A claim that returns one task makes the next claims small.
    await schedule(topic, { 'ann:first': 1_000 })
    await schedule(topic, Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`ann:${i}`, 5_000])))
    await toc.advance('10s')
    expect(calls.map(([, keys]) => keys.length)).toEqual([1, 40])
  })

  it('a batch waits for a cell whose last reply was so late that its ring time seems to be after the linger', async () => {
    await using toc = faultyTocsin((timetable, clock) =>
      wrapped(timetable, {
        claim: async (...args) => {
          const claim = await timetable.claim(...args)
          if (claim.tasks.some(({ key }) => key === 'ann:early')) await sleep(clock, 20)
          return claim
        },
      }),
    )
    const topic = toc.topic<null>('t', { linger: '5ms', slotBy: 'prefix' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { 'ann:early': 999, 'ann:1': 1_000, 'bob:1': 1_000 })
    await toc.advance('2s')
    expect(calls.map(([, keys]) => keys)).toEqual([['ann:1', 'ann:early', 'bob:1']])
  })

  it('a batch does not wait longer for a claim that hangs, and later batches do not wait for it at all', async () => {
    const answer = gate()
    await using toc = faultyTocsin(slowly(answer.opened))
    const topic = toc.topic<null>('t', { linger: '5ms' })
    const calls = recordCalls(toc, topic)
    await schedule(topic, { a: 1_000, slow: 1_000, b: 3_000 })
    await toc.advance('4s')
    answer.open()
    await toc.advance('1s')
    expect(calls).toEqual([
      [2_005, ['a']],
      [3_005, ['b']],
      [4_005, ['slow']],
    ])
  })
})

it('a suspect ends the linger of the others, because it waits for an idle consumer', async () => {
  let isLosing = true
  const orFail = <A>(call: () => Promise<A>) => (isLosing ? Promise.reject(new Error('away')) : call())
  await using toc = faultyTocsin((timetable) =>
    wrapped(timetable, {
      lookMs: 1_000,
      extend: (...args) => orFail(() => timetable.extend(...args)),
      settle: (...args) => orFail(() => timetable.settle(...args)),
    }),
  )
  const topic = toc.topic<null>('t', { lease: '1s' })
  const calls = recordCalls(toc, topic)
  await schedule(topic, { s: 0 })
  for (let info = await topic.get('s'); info?.deliveries !== 2 || info.state !== 'pending';) {
    await toc.advance('100ms')
    info = await topic.get('s')
  }
  isLosing = false
  calls.length = 0
  await topic.configure({ linger: '1m' })
  await schedule(topic, { a: 0 })
  await toc.advance('20s')
  expect(calls.map(([, keys]) => keys)).toEqual([['a'], ['s']])
})
