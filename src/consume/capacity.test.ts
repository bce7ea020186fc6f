import { describe, expect, it } from 'vitest'
import { effectiveConfig, settingsOf, type TopicConfig } from '../values/config.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { RateLimiter } from '../lib/rate-limiter.ts'
import { Capacity } from './capacity.ts'

function capacityOf(places: number, config: TopicConfig = {}, batched = false) {
  const clock = new VirtualClock(0)
  const settings = settingsOf(effectiveConfig(config, {}), 'topic')
  return {
    clock,
    capacity: new Capacity(
      clock,
      new RateLimiter(),
      () => settings,
      () => settings.rate,
      places,
      batched,
    ),
  }
}

const nobody = () => {}

describe('capacity', () => {
  it('is the free places, until there is a rate to prefetch by', () => {
    const { capacity } = capacityOf(12)
    expect(capacity.reserve(nobody)).toBe(12)
    expect(capacity.reserve(nobody)).toBe(0)
    capacity.claimed(12, 2)
    capacity.queued = 2
    expect([1, 2, 3, 4].map(() => capacity.reserve(nobody))).toEqual([4, 4, 2, 0])
  })

  it('is shared by many claims where each brings little, and by few again where they come back full', () => {
    const { capacity } = capacityOf(64)
    const claim = (taken: (reserved: number) => number) => {
      const reserved = capacity.reserve(nobody)
      capacity.claimed(reserved, taken(reserved))
      return reserved
    }
    expect(claim(() => 1)).toBe(16)
    expect(claim(() => 1)).toBe(4)
    expect(claim(() => 0)).toBe(4)
    const full = Array.from({ length: 3 }, () => claim((reserved) => reserved))
    expect(full).toEqual([4, 8, 16])
  })

  it('is shared by several claims under way, so that no cell waits for the answer of another', () => {
    const reserved = (places: number, claims: number) => {
      const { capacity } = capacityOf(places)
      return Array.from({ length: claims }, () => capacity.reserve(nobody))
    }
    expect(reserved(64, 5)).toEqual([16, 16, 16, 16, 0])
    expect(reserved(400, 4)).toEqual([100, 75, 57, 42])
  })

  it('is never more than a batch per claim', () => {
    const { capacity } = capacityOf(2_000, { batchSize: 300 })
    expect(capacity.reserve(nobody)).toBe(300)
    expect(capacity.reserve(nobody)).toBe(300)
  })

  it('counts places in batches for a batch handler', () => {
    const { capacity } = capacityOf(2, { batchSize: 100 }, true)
    expect([capacity.reserve(nobody), capacity.reserve(nobody), capacity.reserve(nobody)]).toEqual([
      100, 100, 0,
    ])
  })

  it('adds a prefetch of 100 ms of work at the measured rate, at most four batches', () => {
    const { capacity, clock } = capacityOf(10, { batchSize: 500 })
    clock.moveTo(1_000)
    capacity.finished(2_000)
    expect(capacity.reserve(nobody)).toBe(Math.ceil((10 + 200) / 4))
    const fast = capacityOf(10, { batchSize: 50 })
    fast.clock.moveTo(1_000)
    fast.capacity.finished(1_000_000)
    // 10 places and a prefetch of 200: three shares, then a gap of less than half that is not worth a claim.
    const reserved = Array.from({ length: 4 }, () => fast.capacity.reserve(nobody))
    expect(reserved).toEqual([50, 40, 30, 0])
  })

  it('refills the prefetch in halves, not task by task, but a free place at once', () => {
    const { capacity, clock } = capacityOf(10, { batchSize: 500 })
    clock.moveTo(1_000)
    capacity.finished(2_000)
    capacity.occupy(10)
    capacity.queued = 101
    expect(capacity.reserve(nobody)).toBe(0)
    capacity.queued = 100
    expect(capacity.reserve(nobody)).toBe(100 / 4)
    capacity.claimed(25, 25)
    capacity.queued = 0
    capacity.vacate(1)
    expect(capacity.reserve(nobody)).toBe(Math.ceil(201 / 4))
  })

  it('is closed while too many outcomes are not recorded', () => {
    const { capacity } = capacityOf(10, { batchSize: 10 })
    capacity.unrecorded = 41
    expect(capacity.reserve(nobody)).toBe(0)
    capacity.unrecorded = 40
    expect(capacity.reserve(nobody)).toBe(10)
  })

  it('tells the hungry one at a time, first come first served', () => {
    const { capacity } = capacityOf(1)
    const told: string[] = []
    capacity.occupy(1)
    capacity.reserve(() => told.push('a'))
    capacity.reserve(() => told.push('b'))
    capacity.offer()
    expect(told).toEqual([])
    capacity.vacate(1)
    capacity.offer()
    expect(told).toEqual(['a'])
    capacity.offer()
    expect(told).toEqual(['a', 'b'])
  })
})

describe('the whole capacity for a suspect', () => {
  it('is given when idle; nobody else gets any until it is idle again', () => {
    const { capacity } = capacityOf(5)
    expect(capacity.reserveAlone(nobody)).toBe(true)
    expect(capacity.reserve(nobody)).toBe(0)
    capacity.occupy(1)
    capacity.claimed(1, 1)
    capacity.offer()
    expect(capacity.reserve(nobody)).toBe(0)
    capacity.vacate(1)
    capacity.offer()
    expect(capacity.reserve(nobody)).toBe(5)
  })

  it('is waited for: work drains, then the waiting puller is told', () => {
    const { capacity } = capacityOf(5)
    const told: string[] = []
    capacity.occupy(2)
    expect(capacity.reserveAlone(() => told.push('lonely'))).toBe(false)
    expect(capacity.reserve(() => told.push('hungry'))).toBe(0)
    capacity.vacate(1)
    capacity.offer()
    expect(told).toEqual([])
    capacity.vacate(1)
    capacity.offer()
    expect(told).toEqual(['lonely'])
    expect(capacity.reserveAlone(nobody)).toBe(true)
  })

  it('leaves ordinary work as much time afterwards as it took', () => {
    const { capacity, clock } = capacityOf(5)
    capacity.reserveAlone(nobody)
    clock.moveTo(1_000)
    capacity.claimed(1, 0)
    capacity.offer()
    expect(capacity.reserveAlone(nobody)).toBe(false)
    clock.moveTo(1_999)
    expect(capacity.reserveAlone(nobody)).toBe(false)
    clock.moveTo(2_000)
    expect(capacity.reserveAlone(nobody)).toBe(true)
  })

  it('is not waited for again and again: after one lease in vain, suspects run beside what runs', () => {
    const { capacity, clock } = capacityOf(5, { lease: '3s' })
    const told: string[] = []
    capacity.occupy(1)
    expect(capacity.reserveAlone(() => told.push('lonely'))).toBe(false)
    clock.moveTo(2_999)
    expect(capacity.reserveAlone(nobody)).toBe(false)
    clock.moveTo(3_000)
    expect(capacity.reserveAlone(nobody)).toBe(true)
    const { number, isAmongOthers } = capacity.turn
    expect(isAmongOthers).toBe(true)
    expect(capacity.reserve(nobody)).toBe(0)
    capacity.claimed(1, 1)
    clock.moveTo(3_100)
    capacity.endTurn(number)
    // Ordinary work has its turn, then the next suspect, which waits for nobody.
    expect(capacity.reserve(nobody)).toBe(4)
    capacity.claimed(4, 0)
    expect(capacity.reserveAlone(nobody)).toBe(false)
    clock.moveTo(3_200)
    expect(capacity.reserveAlone(nobody)).toBe(true)
    // The first one speaks late: this one's turn is not over by that.
    capacity.endTurn(number)
    expect(capacity.reserve(nobody)).toBe(0)
    // It hangs: the others wait for one lease, and no longer.
    clock.moveTo(6_200)
    expect(capacity.reserve(nobody)).toBeGreaterThan(0)
  })

  it('is judged by itself as soon as the consumer is idle', () => {
    const { capacity, clock } = capacityOf(5, { lease: '3s' })
    capacity.occupy(1)
    capacity.reserveAlone(nobody)
    clock.moveTo(3_000)
    capacity.vacate(1)
    expect(capacity.reserveAlone(nobody)).toBe(true)
    expect(capacity.turn.isAmongOthers).toBe(false)
  })
})
