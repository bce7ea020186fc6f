import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RateLimiter } from './rate-limiter.ts'

const rate = { limit: 10, perMs: 1_000 }

describe('a rate limiter', () => {
  it('grants everything without a rate', () => {
    const rateLimiter = new RateLimiter()
    expect(rateLimiter.take(1_000_000, null, 0)).toBe(1_000_000)
    expect(rateLimiter.nextMs(null, 0)).toBe(0)
  })

  it('grants the limit, then nothing until a span has passed', () => {
    const rateLimiter = new RateLimiter()
    expect(rateLimiter.take(4, rate, 0)).toBe(4)
    expect(rateLimiter.take(25, rate, 300)).toBe(6)
    expect(rateLimiter.take(25, rate, 300)).toBe(0)
    expect(rateLimiter.nextMs(rate, 300)).toBe(1_000)
    expect(rateLimiter.take(25, rate, 999)).toBe(0)
    expect(rateLimiter.take(25, rate, 1_000)).toBe(4)
    expect(rateLimiter.nextMs(rate, 1_000)).toBe(1_300)
    expect(rateLimiter.take(25, rate, 60_000)).toBe(10)
  })

  it('counts a reserved start from the start, not from the reservation', () => {
    const rateLimiter = new RateLimiter()
    expect(rateLimiter.reserve(10, rate, 0)).toBe(10)
    expect(rateLimiter.nextMs(rate, 0)).toBe(1_000)
    // However long the reservation lasts, it counts.
    expect(rateLimiter.take(1, rate, 5_000)).toBe(0)
    for (let n = 0; n < 10; n++) expect(rateLimiter.start(rate, 5_000)).toBe(true)
    expect(rateLimiter.take(1, rate, 5_999)).toBe(0)
    expect(rateLimiter.nextMs(rate, 5_999)).toBe(6_000)
    expect(rateLimiter.take(25, rate, 6_000)).toBe(10)
  })

  it('counts a start from the time to which it was postponed', () => {
    const rateLimiter = new RateLimiter()
    rateLimiter.take(6, rate, 0)
    rateLimiter.take(4, rate, 100)
    rateLimiter.postpone(5, rate, 300)
    expect(rateLimiter.take(25, rate, 999)).toBe(0)
    expect(rateLimiter.take(25, rate, 1_000)).toBe(5)
    expect(rateLimiter.take(25, rate, 1_299)).toBe(0)
    expect(rateLimiter.take(25, rate, 1_300)).toBe(5)
    // Starts that were made before there was a rate are not known.
    rateLimiter.postpone(25, rate, 2_000)
    expect(rateLimiter.take(25, rate, 2_999)).toBe(0)
    expect(rateLimiter.take(25, rate, 3_000)).toBe(10)
  })

  it('takes back reserved starts that are not made', () => {
    const rateLimiter = new RateLimiter()
    rateLimiter.reserve(10, rate, 0)
    rateLimiter.release(4)
    expect(rateLimiter.reserve(10, rate, 0)).toBe(4)
    rateLimiter.release(10)
    expect(rateLimiter.take(10, rate, 0)).toBe(10)
  })

  it('makes no reserved start that a lower rate does not allow', () => {
    const rateLimiter = new RateLimiter()
    const lower = { limit: 1, perMs: 1_000 }
    rateLimiter.reserve(3, rate, 0)
    expect([1, 2, 3].map(() => rateLimiter.start(lower, 500))).toEqual([true, false, false])
    expect(rateLimiter.take(1, lower, 1_499)).toBe(0)
    expect(rateLimiter.take(1, lower, 1_500)).toBe(1)
  })

  it('applies a new rate at once', () => {
    const rateLimiter = new RateLimiter()
    rateLimiter.take(10, rate, 0)
    expect(rateLimiter.take(100, { limit: 50, perMs: 1_000 }, 1)).toBe(40)
    expect(rateLimiter.take(100, { limit: 5, perMs: 1_000 }, 2)).toBe(0)
    expect(rateLimiter.take(100, null, 3)).toBe(100)
  })

  it('rounds the end of a span up: between two steps, a grant is kept longer, never shorter', () => {
    for (const atMs of [0.2, 0.999, 1, 1.001, 33.3]) {
      const rateLimiter = new RateLimiter()
      rateLimiter.take(10, rate, atMs)
      expect(rateLimiter.nextMs(rate, atMs)).toBe(Math.ceil(atMs) + 1_000)
      expect(rateLimiter.take(1, rate, atMs + 999.999)).toBe(0)
      expect(rateLimiter.take(1, rate, Math.ceil(atMs) + 1_000)).toBe(1)
    }
  })

  it('holds for any rate, at any times, also with starts that are made later, postponed or not made', () => {
    const step = fc.record({
      afterMs: fc.double({ min: 0, max: 40, noNaN: true }),
      wanted: fc.integer({ min: 0, max: 5 }),
      made: fc.integer({ min: 0, max: 5 }),
      unused: fc.integer({ min: 0, max: 2 }),
      suspendedMs: fc.constantFrom(0, 0, 3.3),
    })
    const limits = fc.record({
      limit: fc.integer({ min: 1, max: 7 }),
      perMs: fc.integer({ min: 1, max: 100 }),
    })
    fc.assert(
      fc.property(limits, fc.array(step, { maxLength: 40 }), ({ limit, perMs }, steps) => {
        const rateLimiter = new RateLimiter()
        const starts: number[] = []
        let nowMs = 0
        for (const { afterMs, wanted, made, unused, suspendedMs } of steps) {
          nowMs += afterMs
          rateLimiter.reserve(wanted, { limit, perMs }, nowMs)
          const started = Math.min(made, rateLimiter.reserved)
          for (let n = 0; n < started; n++) expect(rateLimiter.start({ limit, perMs }, nowMs)).toBe(true)
          nowMs += suspendedMs
          rateLimiter.postpone(started, { limit, perMs }, nowMs)
          for (let n = 0; n < started; n++) starts.push(nowMs)
          rateLimiter.release(Math.min(unused, rateLimiter.reserved))
          expect(starts.filter((atMs) => atMs > nowMs - perMs).length).toBeLessThanOrEqual(limit)
        }
        rateLimiter.release(rateLimiter.reserved)
        // At the time that it names, and not before, there is a grant. Sums of fractions are exact to a microsecond only.
        const nextMs = rateLimiter.nextMs({ limit, perMs }, nowMs)
        if (nextMs > nowMs) expect(rateLimiter.take(1, { limit, perMs }, nowMs)).toBe(0)
        expect(rateLimiter.take(1, { limit, perMs }, Math.max(nowMs, nextMs) + 0.001)).toBe(1)
      }),
    )
  })

  it('never grants more than the limit in any span, and uses all of it', () => {
    const rateLimiter = new RateLimiter()
    const starts: number[] = []
    for (let nowMs = 0; nowMs < 10_000; nowMs += 7)
      for (let n = rateLimiter.take(3, rate, nowMs); n > 0; n--) starts.push(nowMs)
    for (const from of starts)
      expect(starts.filter((at) => at >= from && at < from + 1_000).length).toBeLessThanOrEqual(10)
    expect(starts.length).toBeGreaterThanOrEqual(99)
  })
})
