import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { faultyTocsin, gate, quickTocsin, wrapped } from './harness.ts'

describe('a timetable that fails', () => {
  it('on claim: the error is reported, the claim is retried, no task is lost', async () => {
    let failures = 5
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, {
        claim: async (at, request) => {
          if (request.limit > 0 && failures-- > 0) throw new Error('unreachable')
          return timetable.claim(at, request)
        },
      }),
    )
    const errors: string[] = []
    toc.on('error', ({ doing }) => errors.push(doing))
    const topic = toc.topic<null>('t', { slots: 1 })
    const seen: string[] = []
    topic.consume(async ({ key }) => void seen.push(key))
    await topic.schedule({ key: 'a', delay: '1s', payload: null })
    await toc.advance('1m')
    expect(seen).toEqual(['a'])
    expect(errors).toEqual(['claim', 'claim', 'claim', 'claim', 'claim'])
  })

  it('on settle, before the effect: the settle is retried, and the handler does not run twice', async () => {
    let failures = 3
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, {
        settle: async (at, settlements) => {
          if (failures-- > 0) throw new Error('unreachable')
          return timetable.settle(at, settlements)
        },
      }),
    )
    const errors: string[] = []
    toc.on('error', ({ doing }) => errors.push(doing))
    const topic = toc.topic<null>('t')
    let runs = 0
    topic.consume(async () => void runs++)
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('5s')
    expect(errors).toEqual(['settle', 'settle', 'settle'])
    expect(runs).toBe(1)
    expect(await topic.get('a')).toBeNull()
  })

  it('on settle, after the effect (the reply was lost): the retry changes nothing', async () => {
    let lost = 1
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, {
        settle: async (at, settlements) => {
          const answers = await timetable.settle(at, settlements)
          if (lost-- > 0) throw new Error('reply lost')
          return answers
        },
      }),
    )
    const topic = toc.topic<null>('t', { retry: { min: '1m', jitter: 0 } })
    const attempts: number[] = []
    topic.consume(async ({ attempt }) => {
      attempts.push(attempt)
      if (attempt === 1) throw new Error('once')
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('30s')
    expect(await topic.get('a')).toMatchObject({ attempt: 2, deliveries: 1 })
    await toc.advance('1m')
    expect(attempts).toEqual([1, 2])
  })

  it('on settle, for longer than the lease: the task is delivered again, never lost', async () => {
    let isDown = true
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, {
        settle: (at, settlements) =>
          isDown ? Promise.reject(new Error('down')) : timetable.settle(at, settlements),
        extend: (at, req, leaseMs) =>
          isDown ? Promise.reject(new Error('down')) : timetable.extend(at, req, leaseMs),
      }),
    )
    const topic = toc.topic<null>('t', { lease: '10s' })
    const deliveries: number[] = []
    topic.consume(async (task) => {
      deliveries.push(task.deliveries)
      if (task.deliveries === 2) isDown = false
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('5m')
    expect(deliveries).toEqual([1, 2])
    expect(await topic.get('a')).toBeNull()
  })

  it('on extend: retried before the lease is over', async () => {
    let failures = 1
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, {
        extend: async (at, req, leaseMs) => {
          if (failures-- > 0) throw new Error('unreachable')
          return timetable.extend(at, req, leaseMs)
        },
      }),
    )
    const topic = toc.topic<null>('t', { lease: '30s' })
    const end = gate()
    let runs = 0
    topic.consume(async () => {
      runs++
      await end.opened
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('2m')
    end.open()
    await toc.advance('1s')
    expect(runs).toBe(1)
    expect(await topic.get('a')).toBeNull()
  })
})

describe('a wall clock that steps', () => {
  it('back an hour: no task fires early, and leases are not affected', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { lease: '30s' })
    const fired: string[] = []
    const end = gate()
    topic.consume(async ({ key, dueAt }) => {
      expect(toc.now().getTime()).toBeGreaterThanOrEqual(dueAt.getTime())
      fired.push(key)
      if (key === 'long') await end.opened
    })
    await topic.schedule({ key: 'long', delay: 0, payload: null })
    await topic.schedule({ key: 'later', delay: '10m', payload: null })
    await toc.advance('1m')
    toc.stepClock(-3_600_000)
    await toc.advance('10m')
    expect(fired).toEqual(['long'])
    end.open()
    await toc.advance('1h')
    expect(fired).toEqual(['long', 'later'])
  })

  it('forward an hour: tasks that are due now fire at the next look, and leases are not affected', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { lease: '30s', timeout: '2d' })
    const fired: string[] = []
    const end = gate()
    topic.consume(async ({ key }) => {
      fired.push(key)
      if (key === 'long') await end.opened
    })
    await topic.schedule({ key: 'long', delay: 0, payload: null })
    await topic.schedule({ key: 'later', delay: '1h', payload: null })
    await toc.advance(1)
    toc.stepClock(3_600_000)
    // In the testing kit pullers look once a day; any write to the cell wakes them as well.
    await toc.advance('1d')
    end.open()
    await toc.advance('1s')
    expect(fired).toEqual(['long', 'later'])
  })
})

describe('wake', () => {
  it('an earlier task wakes a sleeping puller, though its next look is a day away', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { slots: 1 })
    const fired: [string, number][] = []
    topic.consume(async ({ key, latenessMs }) => void fired.push([key, latenessMs]))
    await topic.schedule({ key: 'far', delay: '20h', payload: null })
    await toc.advance('1h')
    await topic.schedule({ key: 'near', delay: '5m', payload: null })
    await toc.advance('5m')
    expect(fired).toEqual([['near', 0]])
  })

  it('a task that arrives while a claim is under way is not forgotten', async () => {
    const held = gate()
    let hold = false
    await using toc = faultyTocsin((timetable) =>
      wrapped(timetable, {
        claim: async (at, request) => {
          const claim = await timetable.claim(at, request)
          if (hold) await held.opened
          return claim
        },
      }),
    )
    const topic = toc.topic<null>('t', { slots: 1 })
    const fired: string[] = []
    topic.consume(async ({ key }) => void fired.push(key))
    await topic.schedule({ key: 'a', delay: '1s', payload: null })
    hold = true
    await toc.advance('1s')
    // The claim that took 'a' has not returned yet. Schedule 'a' again, in the same cell.
    await topic.schedule({ key: 'a', delay: '1s', payload: null })
    hold = false
    held.open()
    await toc.advance('1s')
    expect(fired).toContain('a')
    expect(await topic.get('a')).toBeNull()
  })

  it('is tested: with a planted timetable that never wakes, the task does not fire', async () => {
    await using toc = faultyTocsin((timetable) => wrapped(timetable, { watch: () => () => {} }))
    const topic = toc.topic<null>('t', { slots: 1 })
    const fired: string[] = []
    topic.consume(async ({ key }) => void fired.push(key))
    await toc.advance('1h')
    await topic.schedule({ key: 'near', delay: '5m', payload: null })
    await toc.advance('5m')
    expect(fired).toEqual([])
  })
})

describe('concurrency', () => {
  it.each([1, 7, 64])('is never more than %i, and is used up', async (concurrency) => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    let running = 0
    let most = 0
    topic.consume(
      async () => {
        most = Math.max(most, ++running)
        await systemClock.turn()
        running--
      },
      { concurrency },
    )
    await topic.scheduleMany(
      Array.from({ length: 500 }, (_, i) => ({ key: `k${i}`, delay: '1s', payload: null })),
    )
    await toc.advance('1m')
    expect(most).toBe(concurrency)
    expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0 })
  })

  it('limits claims: tasks that cannot start stay unclaimed, for other processes', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const end = gate()
    topic.consume(() => end.opened, { concurrency: 5 })
    await topic.scheduleMany(
      Array.from({ length: 500 }, (_, i) => ({ key: `k${i}`, delay: 0, payload: null })),
    )
    await toc.advance('10s')
    expect(await topic.counts()).toMatchObject({ claimed: 5, pending: 495 })
    end.open()
    await toc.advance('1m')
    expect(await topic.counts()).toMatchObject({ claimed: 0, pending: 0 })
  })
})
