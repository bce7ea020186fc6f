import { describe, expect, it } from 'vitest'
import { effectiveConfig, settingsOf, type TopicConfig } from '../config.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Governor } from './governor.ts'
import { Room } from './room.ts'

function roomOf(places: number, config: TopicConfig = {}, batched = false) {
  const clock = new VirtualClock(0)
  const settings = settingsOf(effectiveConfig(config, {}), 'topic')
  return {
    clock,
    room: new Room(
      clock,
      new Governor(),
      () => settings,
      () => settings.rate,
      places,
      batched,
    ),
  }
}

const nobody = () => {}

describe('room', () => {
  it('is the free places, until there is a rate to prefetch by', () => {
    const { room } = roomOf(12)
    expect(room.reserve(nobody)).toBe(12)
    expect(room.reserve(nobody)).toBe(0)
    room.claimed(12, 2)
    room.queued = 2
    expect([1, 2, 3, 4].map(() => room.reserve(nobody))).toEqual([4, 4, 2, 0])
  })

  it('is shared by many claims where each brings little, and by few again where they come back full', () => {
    const { room } = roomOf(64)
    const claim = (taken: (reserved: number) => number) => {
      const reserved = room.reserve(nobody)
      room.claimed(reserved, taken(reserved))
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
      const { room } = roomOf(places)
      return Array.from({ length: claims }, () => room.reserve(nobody))
    }
    expect(reserved(64, 5)).toEqual([16, 16, 16, 16, 0])
    expect(reserved(400, 4)).toEqual([100, 75, 57, 42])
  })

  it('is never more than a batch per claim', () => {
    const { room } = roomOf(2_000, { batchSize: 300 })
    expect(room.reserve(nobody)).toBe(300)
    expect(room.reserve(nobody)).toBe(300)
  })

  it('counts places in batches for a batch handler', () => {
    const { room } = roomOf(2, { batchSize: 100 }, true)
    expect([room.reserve(nobody), room.reserve(nobody), room.reserve(nobody)]).toEqual([100, 100, 0])
  })

  it('adds a prefetch of 100 ms of work at the measured rate, at most four batches', () => {
    const { room, clock } = roomOf(10, { batchSize: 500 })
    clock.moveTo(1_000)
    room.finished(2_000)
    expect(room.reserve(nobody)).toBe(Math.ceil((10 + 200) / 4))
    const fast = roomOf(10, { batchSize: 50 })
    fast.clock.moveTo(1_000)
    fast.room.finished(1_000_000)
    // 10 places and a prefetch of 200: three shares, then a gap of less than half that is not worth a claim.
    const reserved = Array.from({ length: 4 }, () => fast.room.reserve(nobody))
    expect(reserved).toEqual([50, 40, 30, 0])
  })

  it('refills the prefetch in halves, not task by task, but a free place at once', () => {
    const { room, clock } = roomOf(10, { batchSize: 500 })
    clock.moveTo(1_000)
    room.finished(2_000)
    room.occupy(10)
    room.queued = 101
    expect(room.reserve(nobody)).toBe(0)
    room.queued = 100
    expect(room.reserve(nobody)).toBe(100 / 4)
    room.claimed(25, 25)
    room.queued = 0
    room.vacate(1)
    expect(room.reserve(nobody)).toBe(Math.ceil(201 / 4))
  })

  it('is closed while too many outcomes are not recorded', () => {
    const { room } = roomOf(10, { batchSize: 10 })
    room.unrecorded = 41
    expect(room.reserve(nobody)).toBe(0)
    room.unrecorded = 40
    expect(room.reserve(nobody)).toBe(10)
  })

  it('tells the hungry one at a time, first come first served', () => {
    const { room } = roomOf(1)
    const told: string[] = []
    room.occupy(1)
    room.reserve(() => told.push('a'))
    room.reserve(() => told.push('b'))
    room.offer()
    expect(told).toEqual([])
    room.vacate(1)
    room.offer()
    expect(told).toEqual(['a'])
    room.offer()
    expect(told).toEqual(['a', 'b'])
  })
})

describe('the whole room for a suspect', () => {
  it('is given when idle; nobody else gets any until it is idle again', () => {
    const { room } = roomOf(5)
    expect(room.reserveAlone(nobody)).toBe(true)
    expect(room.reserve(nobody)).toBe(0)
    room.occupy(1)
    room.claimed(1, 1)
    room.offer()
    expect(room.reserve(nobody)).toBe(0)
    room.vacate(1)
    room.offer()
    expect(room.reserve(nobody)).toBe(5)
  })

  it('is waited for: work drains, then the waiting puller is told', () => {
    const { room } = roomOf(5)
    const told: string[] = []
    room.occupy(2)
    expect(room.reserveAlone(() => told.push('lonely'))).toBe(false)
    expect(room.reserve(() => told.push('hungry'))).toBe(0)
    room.vacate(1)
    room.offer()
    expect(told).toEqual([])
    room.vacate(1)
    room.offer()
    expect(told).toEqual(['lonely'])
    expect(room.reserveAlone(nobody)).toBe(true)
  })

  it('leaves ordinary work as much time afterwards as it took', () => {
    const { room, clock } = roomOf(5)
    room.reserveAlone(nobody)
    clock.moveTo(1_000)
    room.claimed(1, 0)
    room.offer()
    expect(room.reserveAlone(nobody)).toBe(false)
    clock.moveTo(1_999)
    expect(room.reserveAlone(nobody)).toBe(false)
    clock.moveTo(2_000)
    expect(room.reserveAlone(nobody)).toBe(true)
  })

  it('is not waited for again and again: after one lease in vain, suspects run beside what runs', () => {
    const { room, clock } = roomOf(5, { lease: '3s' })
    const told: string[] = []
    room.occupy(1)
    expect(room.reserveAlone(() => told.push('lonely'))).toBe(false)
    clock.moveTo(2_999)
    expect(room.reserveAlone(nobody)).toBe(false)
    clock.moveTo(3_000)
    expect(room.reserveAlone(nobody)).toBe(true)
    const { number, isAmongOthers } = room.turn
    expect(isAmongOthers).toBe(true)
    expect(room.reserve(nobody)).toBe(0)
    room.claimed(1, 1)
    clock.moveTo(3_100)
    room.endTurn(number)
    // Ordinary work has its turn, then the next suspect, which waits for nobody.
    expect(room.reserve(nobody)).toBe(4)
    room.claimed(4, 0)
    expect(room.reserveAlone(nobody)).toBe(false)
    clock.moveTo(3_200)
    expect(room.reserveAlone(nobody)).toBe(true)
    // The first one speaks late: this one's turn is not over by that.
    room.endTurn(number)
    expect(room.reserve(nobody)).toBe(0)
    // It hangs: the others wait for one lease, and no longer.
    clock.moveTo(6_200)
    expect(room.reserve(nobody)).toBeGreaterThan(0)
  })

  it('is judged by itself as soon as the consumer is idle', () => {
    const { room, clock } = roomOf(5, { lease: '3s' })
    room.occupy(1)
    room.reserveAlone(nobody)
    clock.moveTo(3_000)
    room.vacate(1)
    expect(room.reserveAlone(nobody)).toBe(true)
    expect(room.turn.isAmongOthers).toBe(false)
  })
})
