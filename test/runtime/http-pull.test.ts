import { afterEach, describe, expect, it } from 'vitest'
import { TocsinError } from '../../src/errors.ts'
import type { HttpPull, PulledTask } from '../../src/pull/http-pull.ts'
import type { TaskStore } from '../../src/store.ts'
import { TestTocsin } from '../../src/testing/test-tocsin.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { Timetable } from '../../src/timetable.ts'
import type { TopicConfig } from '../../src/values/config.ts'
import { fullestSpan } from '../fullest-span.ts'
import { gate, wrapped } from './harness.ts'

const LEASE_MS = 10_000
const START_MS = Date.UTC(2026, 0, 1)
const never = new AbortController().signal

const opened: TestTocsin[] = []
afterEach(async () => {
  await Promise.all(opened.splice(0).map((toc) => toc.close()))
})

function httpPullOf(config: TopicConfig = {}, wrap?: (timetable: TaskStore) => TaskStore) {
  const clock = new VirtualClock(START_MS)
  const toc = new TestTocsin(clock, 5, wrap)
  opened.push(toc)
  const topic = toc.topic('pulled', config)
  const { httpPull } = toc.handle('pulled')
  /** Moves the clock by `waitMs`, and returns the tasks of one pull. */
  const pull = async (waitMs = 0, limit = 100): Promise<PulledTask[]> => {
    const pulled = httpPull.claim(limit, LEASE_MS, waitMs, never)
    await toc.advance(waitMs)
    return pulled
  }
  return { toc, topic, httpPull, pull, clock }
}

const tokensOf = (tasks: readonly PulledTask[]) => tasks.map(({ key, token }) => ({ key, token }))
const end = (httpPull: HttpPull, tasks: readonly PulledTask[]) =>
  httpPull.settle(tokensOf(tasks).map((one) => ({ ...one, verdict: { kind: 'done' } })))

describe('a pull', () => {
  it('waits, and returns no tasks after its timeout', async () => {
    const { toc, httpPull } = httpPullOf()
    let answer: PulledTask[] | null = null
    void httpPull.claim(1, LEASE_MS, 500, never).then((tasks) => (answer = tasks))
    await toc.advance(499)
    expect(answer).toBeNull()
    expect(httpPull.waitingCount).toBe(1)
    await toc.advance(1)
    expect(answer).toEqual([])
    expect(httpPull.waitingCount).toBe(0)
  })

  it('gets a task the moment it falls due, and never before', async () => {
    const { toc, topic, httpPull } = httpPullOf()
    await topic.schedule({ key: 'a', delay: 1_000, payload: 7 })
    let answer: PulledTask[] | null = null
    void httpPull.claim(1, LEASE_MS, 60_000, never).then((tasks) => (answer = tasks))
    await toc.advance(999)
    expect(answer).toBeNull()
    await toc.advance(1)
    expect(answer).toMatchObject([
      { key: 'a', payload: 7, latenessMs: 0, leaseUntil: new Date(START_MS + 11_000) },
    ])
    await end(httpPull, answer as unknown as PulledTask[])
  })

  it('is full when its payloads reach 4 MiB, and the next pulls return the rest', async () => {
    const { topic, httpPull, pull } = httpPullOf()
    const payload = 'x'.repeat(60_000)
    const count = 200
    await topic.scheduleMany(
      Array.from({ length: count }, (_, n) => ({ key: `k${n}`, delay: 0, payload })).values(),
    )
    const answers: PulledTask[][] = []
    for (let pulled = 0; pulled < count; pulled += answers.at(-1)?.length ?? 0) {
      const tasks = await pull(1, 1_000)
      expect(tasks.length).toBeGreaterThan(0)
      // One claim may reach the limit and then exceed it: by its own limit of 1 MiB.
      expect(tasks.length * payload.length).toBeLessThan(6 * 1_024 * 1_024)
      answers.push(tasks)
    }
    expect(new Set(answers.flat().map(({ key }) => key)).size).toBe(count)
    await end(httpPull, answers.flat())
    expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0 })
  })

  it('returns a task that is scheduled while it waits', async () => {
    const { toc, topic, httpPull } = httpPullOf()
    const pulled = httpPull.claim(10, LEASE_MS, 60_000, never)
    await toc.advance(5_000)
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance(1)
    expect(await pulled).toMatchObject([{ key: 'a' }])
    await end(httpPull, await pulled)
  })

  it('of a client that disconnects leaves its tasks to other clients at once', async () => {
    const { toc, topic, httpPull, pull } = httpPullOf()
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    const gone = new AbortController()
    const pulled = httpPull.claim(1, LEASE_MS, 0, gone.signal)
    gone.abort()
    await toc.advance(1)
    expect(await pulled).toEqual([])
    const [task] = await pull(10)
    expect(task).toMatchObject({ key: 'a', deliveries: 1 })
    await end(httpPull, [task as PulledTask])
  })

  it('gets no more tasks than its limit, first come, first served', async () => {
    const { toc, topic, httpPull, pull } = httpPullOf()
    const first = httpPull.claim(2, LEASE_MS, 1_000, never)
    const second = httpPull.claim(100, LEASE_MS, 1_000, never)
    await topic.scheduleMany(Array.from({ length: 20 }, (_, n) => ({ key: `k${n}`, delay: 10, payload: n })))
    await toc.advance(1_000)
    const [a, b] = [await first, await second]
    expect(a.length).toBe(2)
    expect(b.length).toBeGreaterThan(0)
    const rest = await pull()
    expect(new Set([...a, ...b, ...rest].map(({ key }) => key)).size).toBe(a.length + b.length + rest.length)
    await end(httpPull, [...a, ...b, ...rest])
  })
})

describe('the settings of the topic apply', () => {
  it('late: a task that is too late is dropped, or dead, and not handed out', async () => {
    for (const then of ['drop', 'dead'] as const) {
      const { toc, topic, httpPull, pull } = httpPullOf({ late: { after: '1m', then } })
      const dead: string[] = []
      toc.on('dead', ({ cause }) => void dead.push(cause))
      await topic.schedule({ key: 'old', delay: 0, payload: null })
      await toc.advance('2m')
      await topic.schedule({ key: 'new', delay: 0, payload: null })
      const tasks = await pull(1_000)
      expect(tasks).toMatchObject([{ key: 'new' }])
      expect(dead).toEqual(then === 'dead' ? ['late'] : [])
      await end(httpPull, tasks)
    }
  })

  it('rate: never more tasks in any span, however many pulls there are', async () => {
    const { toc, topic, httpPull, pull } = httpPullOf({ rate: { limit: 5, per: '10s' } })
    await topic.scheduleMany(Array.from({ length: 12 }, (_, n) => ({ key: `k${n}`, delay: 0, payload: n })))
    const seen: number[] = []
    for (let second = 0; second < 30; second++) {
      const tasks = await pull(0)
      await end(httpPull, tasks)
      seen.push(tasks.length)
      await toc.advance('1s')
    }
    expect(seen.reduce((sum, n) => sum + n)).toBe(12)
    for (let at = 0; at + 10 <= seen.length; at++)
      expect(seen.slice(at, at + 10).reduce((sum, n) => sum + n)).toBeLessThanOrEqual(5)
  })

  it('rate: holds when tasks are handed out, though the reply of a claim was slow', async () => {
    let isFirst = true
    const config = { rate: { limit: 5, per: '4s' }, slotBy: 'prefix' } as const
    const { toc, topic, httpPull, clock } = httpPullOf(config, (timetable) =>
      withClaim(timetable, async (at, request) => {
        const claim = await timetable.claim(at, request)
        if (claim.tasks.length === 0 || !isFirst) return claim
        isFirst = false
        await new Promise<void>((resolve) => clock.after(4_000, () => resolve()))
        return claim
      }),
    )
    const keys = Array.from({ length: 10 }, (_, n) => `p:${n}`)
    await topic.scheduleMany(keys.map((key) => ({ key, delay: 0, payload: null })))
    const handedOut: number[] = []
    const settled = [1, 2].map(async () => {
      const tasks = await httpPull.claim(5, LEASE_MS, 20_000, never)
      for (const _ of tasks) handedOut.push(clock.monotonicNow())
      await end(httpPull, tasks)
    })
    await toc.advance('20s')
    await Promise.all(settled)
    expect(handedOut.length).toBe(10)
    expect(fullestSpan(handedOut, 4_000)).toBeLessThanOrEqual(5)
  })

  it('rate: a client that disconnects does not use it up', async () => {
    const { toc, topic, httpPull, pull } = httpPullOf({ rate: { limit: 1, per: '1h' } })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    const gone = new AbortController()
    const pulled = httpPull.claim(1, LEASE_MS, 0, gone.signal)
    gone.abort()
    await toc.advance(1)
    expect(await pulled).toEqual([])
    const tasks = await pull(10)
    expect(tasks).toMatchObject([{ key: 'a' }])
    await end(httpPull, tasks)
  })

  it('rate: a suspect that only the rate holds back is handed out when the rate allows it', async () => {
    let losesWakes = false
    const { toc, topic, httpPull, pull } = httpPullOf({}, (timetable) =>
      wrapped(timetable, {
        watch: (name, watcher) =>
          timetable.watch(name, {
            ...watcher,
            wake: (...ring) => {
              if (!losesWakes) watcher.wake(...ring)
            },
          }),
      }),
    )
    await topic.schedule({ key: 'suspect', delay: 0, payload: null })
    for (let lost = 0; lost < 2;) {
      lost += (await pull(10)).length
      if (lost < 2) await toc.advance('30s')
    }
    await toc.advance('9s')
    await topic.configure({ rate: { limit: 1, per: '5m' } })
    await topic.schedule({ key: 'ordinary', delay: 0, payload: null })
    const [ordinary] = await pull(10)
    expect(ordinary).toMatchObject({ key: 'ordinary' })
    await end(httpPull, [ordinary as PulledTask])
    losesWakes = true
    const tasks = await pull(6 * 60_000)
    expect(tasks).toMatchObject([{ key: 'suspect' }])
    await end(httpPull, tasks)
  })

  it('objective: a late task emits an event', async () => {
    const { toc, topic, httpPull, pull } = httpPullOf({ objective: { p99: '1s' } })
    const late: number[] = []
    toc.on('late', ({ latenessMs }) => void late.push(latenessMs))
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('3s')
    await end(httpPull, await pull(10))
    expect(late).toEqual([3_000])
  })
})

describe('leases', () => {
  it('lost three times in a row, the last one alone: poison', async () => {
    const { toc, topic, pull } = httpPullOf()
    const dead: string[] = []
    toc.on('dead', ({ key, cause }) => void dead.push(`${key} ${cause}`))
    await topic.schedule({ key: 'killer', delay: 0, payload: null })
    const handed: number[] = []
    for (let n = 0; n < 60 && dead.length === 0; n++) {
      const tasks = await pull(1_000)
      if (tasks.length > 0) handed.push(tasks.length)
      await toc.advance('3s')
    }
    expect(handed).toEqual([1, 1, 1])
    expect(dead).toEqual(['killer poison'])
    expect(await topic.get('killer')).toMatchObject({ state: 'dead', deadCause: 'poison' })
  })

  it('a suspect is handed out alone, though other tasks are due and within the limit', async () => {
    const { toc, topic, httpPull, pull } = httpPullOf()
    const keysOf = (letter: string, count: number) => Array.from({ length: count }, (_, n) => `${letter}${n}`)
    const schedule = (keys: readonly string[]) =>
      topic.scheduleMany(keys.map((key) => ({ key, delay: 0, payload: null })))
    await schedule(keysOf('s', 10))
    for (let lost = 0; lost < 20; lost += (await pull(10)).length) await toc.advance('1s')
    await toc.advance('30s')
    await schedule(keysOf('k', 100))
    const answers: string[][] = []
    for (let handed = 0; handed < 110;) {
      const tasks = await pull(10, 8)
      answers.push(tasks.map(({ key }) => key))
      handed += tasks.length
      await end(httpPull, tasks)
    }
    const suspects = answers.filter((keys) => keys.some((key) => key.startsWith('s')))
    expect(suspects.map((keys) => keys.length)).toEqual(new Array(10).fill(1))
  })

  it('tasks of a fast claim that waited for a slow claim are not handed out when their lease is nearly over', async () => {
    let slow = ''
    const { toc, topic, httpPull, clock } = httpPullOf({}, (timetable) =>
      withClaim(timetable, async (at, request) => {
        const claim = await timetable.claim(at, request)
        if (!claim.tasks.some(({ key }) => key === slow)) return claim
        slow = ''
        await new Promise<void>((resolve) => clock.after(6_000, () => resolve()))
        return claim
      }),
    )
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    slow = keys[0] as string
    await topic.scheduleMany(keys.map((key) => ({ key, delay: 10, payload: null })))
    const pulled = httpPull.claim(100, LEASE_MS, 1_000, never)
    await toc.advance('7s')
    expect(await pulled).toEqual([])
    // Other clients get them at once, as if they had not been claimed.
    const again = httpPull.claim(100, LEASE_MS, 1_000, never)
    await toc.advance('1s')
    const handed = await again
    expect(handed.length).toBe(keys.length)
    expect(handed.every(({ deliveries }) => deliveries === 1)).toBe(true)
    await end(httpPull, handed)
  })

  it('a claim whose reply was lost is repeated, and no task waits for its lease to end', async () => {
    let failures = 0
    const { toc, topic, httpPull } = httpPullOf({}, (timetable) =>
      withClaim(timetable, async (at, request) => {
        const claim = await timetable.claim(at, request)
        if (claim.tasks.length > 0 && failures++ === 0) throw new TocsinError('timetable-unavailable', 'lost')
        return claim
      }),
    )
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    const pulled = httpPull.claim(1, LEASE_MS, 5_000, never)
    await toc.advance('1s')
    expect(await pulled).toMatchObject([{ key: 'a', deliveries: 1 }])
    expect(failures).toBe(2)
    await end(httpPull, await pulled)
  })
})

it('a claim that returns after its client left gives its tasks back: the next client has them at once', async () => {
  const heldUp = gate()
  let isHeldUp = true
  const { toc, topic, httpPull, pull } = httpPullOf({}, (timetable) =>
    withClaim(timetable, async (at, request) => {
      const claim = await timetable.claim(at, request)
      if (!isHeldUp || claim.tasks.length === 0) return claim
      isHeldUp = false
      await heldUp.opened
      return claim
    }),
  )
  await topic.schedule({ key: 'a', delay: 0, payload: null })
  const gone = new AbortController()
  const pulled = httpPull.claim(1, LEASE_MS, 1_000, gone.signal)
  await toc.advance(1)
  gone.abort()
  expect(await pulled).toEqual([])
  heldUp.open()
  await toc.advance(1)
  const tasks = await pull(10)
  expect(tasks).toMatchObject([{ key: 'a', deliveries: 1 }])
  await end(httpPull, tasks)
})

it('a repeated claim that returns more than its pull takes leaves the rest to others, and promises what is left of its lease', async () => {
  let failures = 0
  const { toc, topic, httpPull, pull, clock } = httpPullOf({ slotBy: 'prefix' }, (timetable) =>
    withClaim(timetable, async (at, request) => {
      const claim = await timetable.claim(at, request)
      if (claim.tasks.length > 0 && failures++ === 0) throw new TocsinError('timetable-unavailable', 'lost')
      return claim
    }),
  )
  await topic.scheduleMany(['p:1', 'p:2', 'p:3'].map((key) => ({ key, delay: 0, payload: null })))
  const gone = new AbortController()
  const first = httpPull.claim(100, LEASE_MS, 1_000, gone.signal)
  await toc.advance(1)
  gone.abort()
  expect(await first).toEqual([])
  await toc.advance(1_000)
  const one = await pull(1_000, 1)
  expect(one).toHaveLength(1)
  expect((one[0] as PulledTask).leaseUntil.getTime()).toBeLessThan(clock.now() + LEASE_MS - 1_000)
  const rest = await pull(10)
  expect(rest).toHaveLength(2)
  await end(httpPull, [...one, ...rest])
})

it('counts the tasks that it hands out, and their outcomes', async () => {
  const { topic, httpPull, pull } = httpPullOf({ retry: { maxAttempts: 1 } })
  await topic.scheduleMany(['a', 'b', 'c'].map((key) => ({ key, delay: 0, payload: null })))
  const tasks = await pull(10)
  expect(tasks.length).toBe(3)
  const verdicts = [
    { kind: 'done' },
    { kind: 'failed', delayMs: null, error: 'no' },
    { kind: 'dead', error: 'never' },
  ] as const
  const answers = await httpPull.settle(
    tokensOf(tasks).map((one, i) => ({ ...one, verdict: verdicts[i] ?? verdicts[0] })),
  )
  expect(answers).toEqual(['settled', 'settled', 'settled'])
  expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 2 })
})

function withClaim(timetable: TaskStore, claim: Timetable['claim']): TaskStore {
  return new Proxy(timetable, {
    get: (target, name) => {
      if (name === 'claim') return claim
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}
