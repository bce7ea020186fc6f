import { describe, expect, it } from 'vitest'
import { effectiveConfig, settingsOf, type TopicConfig } from '../values/config.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { RateLimiter } from '../lib/rate-limiter.ts'
import { Capacity, type LanesReservation, type SuspectReservation, type SuspectWaiter } from './capacity.ts'
import { StartRate } from './start-rate.ts'

function capacityOf(permits: number, config: TopicConfig = {}, batched = false) {
  const clock = new VirtualClock(0)
  const settings = settingsOf(effectiveConfig(config, {}), 'topic')
  const startRate = new StartRate(clock, new RateLimiter(), () => settings.rate)
  return { clock, startRate, capacity: new Capacity(clock, startRate, () => settings, permits, batched) }
}

/** The capacity of a consumer with 10 permits that has ended so many tasks in a second of work. */
function workedOff(tasks: number, config: TopicConfig) {
  const all = capacityOf(10, config)
  all.capacity.acquire(1)
  all.clock.moveTo(1_000)
  all.capacity.finished(tasks)
  all.capacity.release(1)
  return all
}

const noop = () => {}
const waiter: SuspectWaiter = { nudge: noop, offerAlone: noop }

/** Returns the number of tasks reserved. */
function reserve(capacity: Capacity): number {
  return capacity.reserve(noop)?.limit ?? 0
}

function reserveAlone(capacity: Capacity): SuspectReservation {
  const suspect = capacity.reserveAlone(waiter)
  expect(suspect).not.toBeNull()
  return suspect as SuspectReservation
}

function lanes(limit: number, starts = 0): LanesReservation {
  return { from: 'lanes', limit, starts }
}

describe('capacity', () => {
  it('is the free permits, until there is a rate to prefetch by', () => {
    const { capacity } = capacityOf(12)
    expect(reserve(capacity)).toBe(12)
    expect(reserve(capacity)).toBe(0)
    capacity.claimed(lanes(12), 2)
    capacity.queued = 2
    expect([1, 2, 3, 4].map(() => reserve(capacity))).toEqual([4, 4, 2, 0])
  })

  it('is shared by many claims while each returns few tasks, and by few claims again when they return full', () => {
    const { capacity } = capacityOf(64)
    const claim = (taken: (reserved: number) => number) => {
      const reserved = reserve(capacity)
      capacity.claimed(lanes(reserved), taken(reserved))
      return reserved
    }
    expect(claim(() => 1)).toBe(16)
    expect(claim(() => 1)).toBe(4)
    expect(claim(() => 0)).toBe(4)
    const full = Array.from({ length: 3 }, () => claim((reserved) => reserved))
    expect(full).toEqual([4, 8, 16])
  })

  it('is shared by several claims under way, so that no cell waits for the answer of another', () => {
    const reserved = (permits: number, claims: number) => {
      const { capacity } = capacityOf(permits)
      return Array.from({ length: claims }, () => reserve(capacity))
    }
    expect(reserved(64, 5)).toEqual([16, 16, 16, 16, 0])
    expect(reserved(400, 4)).toEqual([100, 75, 57, 42])
  })

  it('is never more than a batch per claim', () => {
    const { capacity } = capacityOf(2_000, { batchSize: 300 })
    expect(reserve(capacity)).toBe(300)
    expect(reserve(capacity)).toBe(300)
  })

  it('counts one batch per permit for a batch handler', () => {
    const { capacity } = capacityOf(2, { batchSize: 100 }, true)
    const reserved = Array.from({ length: 9 }, () => reserve(capacity))
    expect(reserved).toEqual([50, 38, 28, 21, 16, 16, 16, 15, 0])
  })

  it('is a batch per claim if smaller claims would make smaller batches: without linger', () => {
    const { capacity } = capacityOf(2, { batchSize: 100, linger: 0 }, true)
    expect([reserve(capacity), reserve(capacity), reserve(capacity)]).toEqual([100, 100, 0])
  })

  it('is a batch per claim while a batch has room, with merge: the rest is for the next batch', () => {
    const { capacity } = capacityOf(1, { batchSize: 100, merge: '1s' }, true)
    expect([reserve(capacity), reserve(capacity)]).toEqual([100, 0])
    capacity.claimed(lanes(100), 99)
    capacity.queued = 99
    expect([reserve(capacity), reserve(capacity)]).toEqual([100, 0])
    capacity.claimed(lanes(100), 1)
    capacity.queued = 100
    expect(reserve(capacity)).toBe(0)
  })

  it('says whether more may be claimed by a time: a claim is under way, or the rate allows one', () => {
    const { capacity, startRate } = capacityOf(10, { rate: { limit: 4, per: '1s' } })
    expect(capacity.mayClaimBy(0)).toBe(true)
    const limit = reserve(capacity)
    expect([limit, capacity.mayClaimBy(0)]).toEqual([4, true])
    capacity.claimed(lanes(4), 4)
    // The claimed tasks hold all starts of the rate, and more can be claimed only after they have started.
    expect(capacity.mayClaimBy(60_000)).toBe(false)
    for (let started = 0; started < 4; started++) startRate.start({ hasStart: true })
    expect([999, 1_000].map((atMs) => capacity.mayClaimBy(atMs))).toEqual([false, true])
  })

  it('says that nothing may be claimed while a suspect waits to run alone', () => {
    const { capacity } = capacityOf(10)
    capacity.acquire(1)
    capacity.reserveAlone(waiter)
    expect(capacity.mayClaimBy(1_000)).toBe(false)
  })

  it('adds a prefetch of 100 ms of work at the measured rate, at most sixteen batches', () => {
    const { capacity } = workedOff(2_000, { batchSize: 500 })
    expect(reserve(capacity)).toBe(Math.ceil((10 + 200) / 4))
    const fast = workedOff(1_000_000, { batchSize: 50 })
    // 10 permits and a prefetch of 800: shares of at most a batch, then a gap of less than a quarter that is not worth a claim.
    const reserved = Array.from({ length: 15 }, () => reserve(fast.capacity))
    expect(reserved).toEqual([...new Array<number>(13).fill(50), 0, 0])
  })

  it('does not count the time without tasks: the rate of a burst is known after its first tasks', () => {
    const { capacity, clock } = capacityOf(16, { batchSize: 500 })
    clock.moveTo(60_000)
    capacity.acquire(16)
    clock.moveTo(60_008)
    capacity.finished(16)
    capacity.release(16)
    // 16 permits, and 100 ms at 2 per ms.
    expect(reserve(capacity)).toBe(Math.ceil((16 + 200) / 4))
  })

  it('refills the prefetch in quarters, not task by task, but a free permit at once', () => {
    const { capacity } = workedOff(2_000, { batchSize: 500 })
    capacity.acquire(10)
    capacity.queued = 151
    expect(reserve(capacity)).toBe(0)
    capacity.queued = 150
    expect(reserve(capacity)).toBe(16)
    capacity.claimed(lanes(16), 16)
    capacity.queued = 0
    capacity.release(1)
    expect(reserve(capacity)).toBe(Math.ceil(201 / 4))
  })

  it('is zero while too many outcomes are not recorded', () => {
    const { capacity } = capacityOf(10, { batchSize: 10 })
    capacity.unrecorded = 81
    expect(reserve(capacity)).toBe(0)
    capacity.unrecorded = 80
    expect(reserve(capacity)).toBe(10)
  })

  it('calls waiting pullers one at a time, first come, first served', () => {
    const { capacity } = capacityOf(1)
    const called: string[] = []
    capacity.acquire(1)
    capacity.reserve(() => called.push('a'))
    capacity.reserve(() => called.push('b'))
    capacity.offer()
    expect(called).toEqual([])
    capacity.release(1)
    capacity.offer()
    expect(called).toEqual(['a'])
    capacity.offer()
    expect(called).toEqual(['a', 'b'])
  })
})

describe('the whole capacity for a suspect', () => {
  it('is granted when the consumer is idle; ordinary work gets none until it is idle again', () => {
    const { capacity } = capacityOf(5)
    const suspect = reserveAlone(capacity)
    expect(reserve(capacity)).toBe(0)
    capacity.acquire(1)
    capacity.claimed(suspect, 1)
    capacity.offer()
    expect(reserve(capacity)).toBe(0)
    capacity.release(1)
    capacity.offer()
    expect(reserve(capacity)).toBe(5)
  })

  it('is waited for: work drains, then the waiting puller is called', () => {
    const { capacity } = capacityOf(5)
    const called: string[] = []
    capacity.acquire(2)
    expect(capacity.reserveAlone({ nudge: noop, offerAlone: () => called.push('alone') })).toBeNull()
    expect(capacity.reserve(() => called.push('ordinary'))).toBeNull()
    capacity.release(1)
    capacity.offer()
    expect(called).toEqual([])
    capacity.release(1)
    capacity.offer()
    expect(called).toEqual(['alone'])
    expect(capacity.reserveAlone(waiter)).not.toBeNull()
  })

  it('is kept for the waiting puller until the end of its pass: no ordinary work comes first', () => {
    const { capacity } = capacityOf(5)
    const called: string[] = []
    const named = (name: string) => ({ nudge: noop, offerAlone: () => called.push(name) })
    const [first, second] = [named('first'), named('second')]
    capacity.acquire(1)
    capacity.reserveAlone(first)
    capacity.reserveAlone(second)
    capacity.release(1)
    capacity.offer()
    expect(called).toEqual(['first'])
    // Passes of other pullers, and outcomes that are recorded meanwhile, change nothing.
    capacity.offer()
    capacity.passed(second)
    expect(reserve(capacity)).toBe(0)
    expect(capacity.reserveAlone(first)).not.toBeNull()
    capacity.passed(first)
    expect(reserve(capacity)).toBe(0)
  })

  it('is free for ordinary work if the suspect is gone when the consumer is idle', () => {
    const { capacity } = capacityOf(5)
    capacity.acquire(1)
    capacity.reserveAlone(waiter)
    capacity.release(1)
    capacity.offer()
    expect(reserve(capacity)).toBe(0)
    capacity.passed(waiter)
    expect(reserve(capacity)).toBe(5)
  })

  it('is not drained for a suspect that the rate does not allow to start', () => {
    const { capacity, clock } = capacityOf(5, { rate: { limit: 2, per: '1s' } })
    capacity.acquire(1)
    expect(reserve(capacity)).toBe(2)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    expect(capacity.nextAloneMs(waiter)).toBe(1_000)
    clock.moveTo(100)
    capacity.claimed(lanes(2, 2), 0)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    // The start of the suspect is reserved while the consumer drains, and free again if nothing comes of it.
    capacity.forgetWaiters()
    expect(reserve(capacity)).toBe(2)
  })

  it('takes at most a fifth of the time, with the time of the drain', () => {
    const { capacity, clock } = capacityOf(5)
    capacity.acquire(1)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(600)
    capacity.release(1)
    const suspect = reserveAlone(capacity)
    clock.moveTo(1_000)
    capacity.claimed(suspect, 0)
    capacity.offer()
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(4_999)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(5_000)
    expect(capacity.reserveAlone(waiter)).not.toBeNull()
  })

  it('is waited for only once: if the consumer is not idle within one lease, suspects run among others', () => {
    const { capacity, clock } = capacityOf(5, { lease: '3s' })
    capacity.acquire(1)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(2_999)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(3_000)
    const suspect = reserveAlone(capacity)
    expect(suspect.isAmongOthers).toBe(true)
    expect(reserve(capacity)).toBe(0)
    capacity.claimed(suspect, 1)
    clock.moveTo(3_100)
    capacity.endAlone(suspect)
    // Ordinary work runs first, then the next suspect, which does not wait for an idle consumer.
    expect(reserve(capacity)).toBe(4)
    capacity.claimed(lanes(4), 0)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(3_100 + 4 * 3_100 - 1)
    expect(capacity.reserveAlone(waiter)).toBeNull()
    clock.moveTo(3_100 + 4 * 3_100)
    expect(capacity.reserveAlone(waiter)).not.toBeNull()
    // The end of the first suspect is reported twice: that does not end the time of the second one.
    capacity.endAlone(suspect)
    expect(reserve(capacity)).toBe(0)
    // The second suspect hangs: ordinary work waits for one lease and no longer.
    clock.moveTo(3_100 + 4 * 3_100 + 3_000)
    expect(reserve(capacity)).toBeGreaterThan(0)
  })

  it('lets a suspect run alone if the consumer becomes idle at the end of the wait', () => {
    const { capacity, clock } = capacityOf(5, { lease: '3s' })
    capacity.acquire(1)
    capacity.reserveAlone(waiter)
    clock.moveTo(3_000)
    capacity.release(1)
    expect(reserveAlone(capacity).isAmongOthers).toBe(false)
  })
})
