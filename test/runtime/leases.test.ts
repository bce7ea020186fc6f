import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { Clock } from '../../src/clock.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { TestTocsin } from '../../src/testing/test-tocsin.ts'
import type { TaskStore } from '../../src/store.ts'
import { faultyTocsin, gate, quickTocsin, wrapped } from './harness.ts'

describe('a handler that runs for long', () => {
  it('keeps its lease, however long it runs: no other call gets the task', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { lease: '30s', timeout: '1h' })
    const end = gate()
    let calls = 0
    topic.consume(async () => {
      calls++
      await end.opened
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('10m')
    expect(calls).toBe(1)
    expect(await topic.get('a')).toMatchObject({ state: 'claimed', deliveries: 1 })
    end.open()
    await toc.advance(1)
    expect(await topic.get('a')).toBeNull()
  })

  it('is aborted at its timeout: the attempt failed, its permit is free, its answer is ignored', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<string>('t', { timeout: '1m', retry: { min: '10s', jitter: 0 } })
    const end = gate()
    const reasons: unknown[] = []
    const handled: string[] = []
    topic.consume(
      async ({ payload, attempt }, { signal }) => {
        if (payload === 'hangs' && attempt === 1) {
          signal.addEventListener('abort', () => reasons.push((signal.reason as { code: string }).code))
          await end.opened
          return { dead: 'after the timeout' }
        }
        handled.push(payload)
      },
      { concurrency: 1 },
    )
    await topic.schedule({ key: 'a', delay: 0, payload: 'hangs' })
    await topic.schedule({ key: 'b', delay: '1s', payload: 'waits' })
    await toc.advance('59s')
    expect(reasons).toEqual([])
    expect(handled).toEqual([])
    await toc.advance('1s')
    expect(reasons).toEqual(['timeout'])
    expect(handled).toEqual(['waits'])
    expect(await topic.get('a')).toMatchObject({ state: 'pending', attempt: 2 })
    expect((await topic.get('a'))?.lastError).toMatch(/^timeout: .* 1m$/)
    end.open()
    await toc.advance('10s')
    expect(handled).toEqual(['waits', 'hangs'])
    expect(await topic.get('a')).toBeNull()
  })

  it('that hangs forever is dead at its last attempt', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { timeout: '1s', retry: { maxAttempts: 2 } })
    topic.consume(() => new Promise(() => {}))
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('1m')
    expect(await topic.get('a')).toMatchObject({ state: 'dead', deadCause: 'attempts' })
  })

  it('gets an aborted signal if it reads it after the abort', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { timeout: '1s', retry: { maxAttempts: 1 } })
    const end = gate()
    let aborted: boolean | null = null
    topic.consume(async (_, context) => {
      await end.opened
      aborted = context.signal.aborted
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('2s')
    end.open()
    await toc.advance(1)
    expect(aborted).toBe(true)
  })
})

describe('a lease that is lost', () => {
  it('aborts the handler, whose outcome is stale and changes nothing', async () => {
    await using toc = faultyTocsin((timetable) => wrapped(timetable, { extend: async () => 'stale' }))
    const topic = toc.topic<null>('t', { lease: '30s' })
    const end = gate()
    const reasons: unknown[] = []
    let calls = 0
    topic.consume(async (_, { signal }) => {
      calls++
      if (calls > 1) return
      signal.addEventListener('abort', () => reasons.push((signal.reason as { code: string }).code))
      await end.opened
      return { dead: 'after the lease' }
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('11s')
    expect(reasons).toEqual(['lease-lost'])
    await toc.advance('1m')
    expect(calls).toBe(2)
    end.open()
    await toc.advance('1m')
    expect(await topic.get('a')).toBeNull()
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  it('does not count as a failure', async () => {
    await using toc = faultyTocsin((timetable) => wrapped(timetable, { extend: async () => 'stale' }))
    const topic = toc.topic<null>('t', { lease: '30s', retry: { maxAttempts: 1 } })
    const attempts: [number, number][] = []
    topic.consume(async ({ attempt, deliveries }) => {
      attempts.push([attempt, deliveries])
      if (deliveries === 1) await new Promise(() => {})
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('2m')
    expect(attempts).toEqual([
      [1, 1],
      [1, 2],
    ])
    expect(await topic.get('a')).toBeNull()
  })

  it('three times in a row, the last time alone: poison, and no other task is affected', async () => {
    await using toc = faultyTocsin((timetable) => wrapped(timetable, { extend: async () => 'stale' }))
    const topic = toc.topic<string>('t', { lease: '10s', timeout: '15s' })
    const dead: unknown[] = []
    toc.on('dead', ({ key, cause }) => dead.push([key, cause]))
    let killerRuns = 0
    let runningBesideKiller = 0
    let running = 0
    const done: string[] = []
    topic.consume(async ({ payload }) => {
      running++
      if (payload === 'killer') {
        killerRuns++
        if (killerRuns === 3) runningBesideKiller = running - 1
        // As if the process died: the handler never answers, and only the timeout releases its permit.
        await new Promise(() => {})
      }
      done.push(payload)
      running--
    })
    await topic.schedule({ key: 'killer', delay: 0, payload: 'killer' })
    for (let i = 0; i < 50; i++) await topic.schedule({ key: `k${i}`, delay: i * 2_000, payload: `k${i}` })
    await toc.advance('10m')
    expect(done.length).toBe(50)
    expect(killerRuns).toBe(3)
    // The two earlier runs still hang here. A process that really died would have ended them.
    expect(runningBesideKiller).toBeLessThanOrEqual(2)
    expect(dead).toEqual([['killer', 'poison']])
    expect(await topic.get('killer')).toMatchObject({ state: 'dead', deadCause: 'poison', attempt: 1 })
  })
})

/** Delays the answer of the first claim that takes tasks. */
function slowFirstClaim(timetable: TaskStore, clock: Clock, delayMs: number): TaskStore {
  let first = true
  return wrapped(timetable, {
    claim: async (at, request) => {
      const claim = await timetable.claim(at, request)
      if (claim.tasks.length > 0 && first) {
        first = false
        await new Promise<void>((resolve) => clock.after(delayMs, resolve))
      }
      return claim
    },
  })
}

/** Returns the age of the claim at each handler start, in ms. */
async function startsAfterSlowClaim(makeClock: (startMs: number) => VirtualClock): Promise<number[]> {
  const clock = makeClock(Date.parse('2026-11-11T00:00:00Z'))
  const toc = new TestTocsin(clock, 60, (timetable) => slowFirstClaim(timetable, clock, 31_000))
  const topic = toc.topic<null>('t', { lease: '30s' })
  const starts: number[] = []
  // The id of a task that was never delivered before ends in the stamp of its claim, which is the time of the claim.
  topic.consume(async ({ id }) => void starts.push(toc.now().getTime() - Number(id.split('/').at(-1))))
  await topic.schedule({ key: 'a', delay: 0, payload: null })
  await toc.advance('5m')
  await toc.close()
  return starts
}

describe('a handler does not start after its lease', () => {
  const check = (ages: number[]) => {
    expect(ages.length).toBe(1)
    expect(ages[0]).toBeLessThan(30_000)
  }

  it('when the answer to the claim was late: the task is given back, claimed again, and handled once', async () => {
    check(await startsAfterSlowClaim((startMs) => new VirtualClock(startMs)))
  })

  it('is tested: with a planted clock that stands still while a claim is under way, the check fails', async () => {
    class StuckClock extends VirtualClock {
      override monotonicNow(): number {
        // All times within a minute are the same: leases seem never to end.
        return Math.floor(super.monotonicNow() / 60_000) * 60_000
      }
    }
    const starts = await startsAfterSlowClaim((startMs) => new StuckClock(startMs))
    expect(() => check(starts)).toThrow()
  })
})

describe('a blocked event loop', () => {
  it('past the lease: no task is lost, nothing crashes, each task is done', async () => {
    const { Tocsin } = await import('tocsin')
    await using toc = await Tocsin.open({ timetable: 'memory:', logger: false })
    const topic = toc.topic<number>('t', { lease: '100ms', slots: 1 })
    const handled = new Map<string, number>()
    let blocked = false
    const all = gate()
    topic.consume(
      async ({ key }) => {
        if (!blocked) {
          blocked = true
          const untilMs = systemClock.monotonicNow() + 250
          while (systemClock.monotonicNow() < untilMs);
        }
        handled.set(key, (handled.get(key) ?? 0) + 1)
        if (handled.size === 200) all.open()
      },
      { concurrency: 4 },
    )
    const now = systemClock.now()
    await topic.scheduleMany(Array.from({ length: 200 }, (_, i) => ({ key: `k${i}`, at: now, payload: i })))
    await all.opened
    expect(handled.size).toBe(200)
  })
})
