import { describe, expect, test } from 'vitest'
import { backoffMs, type RetryPolicy } from './retry.ts'

const POLICY: RetryPolicy = {
  maxAttempts: 16,
  backoff: 'exponential',
  minMs: 1_000,
  maxMs: 300_000,
  jitter: 0,
}

const YEARS_100_MS = 36_500 * 86_400_000

describe('exponential', () => {
  test('doubles from min and stops at max', () => {
    const waits = Array.from({ length: 12 }, (_, i) => backoffMs(POLICY, i + 1, 0.5))
    expect(waits).toEqual([
      1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000, 300_000,
    ])
  })

  test.each([31, 32, 33, 64, 999, 1_100])('failure %s is finite and at max', (failures) =>
    expect(backoffMs(POLICY, failures, 0.5)).toBe(300_000),
  )

  test.each([1, 10, 1_000])('reaches the longest max from a min of %s ms', (minMs) =>
    expect(backoffMs({ ...POLICY, minMs, maxMs: YEARS_100_MS }, 999, 0.5)).toBe(YEARS_100_MS),
  )

  test('never shrinks', () => {
    const waits = Array.from({ length: 999 }, (_, i) => backoffMs({ ...POLICY, minMs: 7 }, i + 1, 0.5))
    expect(waits).toEqual(waits.toSorted((a, b) => a - b))
  })

  test('min 0 means at once, every time', () => {
    for (const failures of [1, 2, 999]) expect(backoffMs({ ...POLICY, minMs: 0 }, failures, 0.5)).toBe(0)
  })
})

describe('fixed', () => {
  test.each([1, 2, 16, 999])('failure %s waits min', (failures) =>
    expect(backoffMs({ ...POLICY, backoff: 'fixed' }, failures, 0.5)).toBe(1_000),
  )
})

describe('jitter', () => {
  const jittered = { ...POLICY, jitter: 0.2 }

  test.each([
    [0, 800],
    [0.25, 900],
    [0.5, 1_000],
    [0.75, 1_100],
  ])('fraction %s of ±20 %% around 1 s is %s ms', (fraction, ms) =>
    expect(backoffMs(jittered, 1, fraction)).toBe(ms),
  )

  test('stays within its bounds, also at max, and gives whole milliseconds', () => {
    for (const failures of [1, 5, 16, 999]) {
      const plainMs = backoffMs(POLICY, failures, 0.5)
      for (let fraction = 0; fraction < 1; fraction += 0.001) {
        const ms = backoffMs(jittered, failures, fraction)
        expect(Number.isInteger(ms)).toBe(true)
        expect(ms).toBeGreaterThanOrEqual(plainMs * 0.8)
        expect(ms).toBeLessThanOrEqual(plainMs * 1.2)
      }
    }
  })

  test('of 100 % is never negative', () => {
    expect(backoffMs({ ...POLICY, jitter: 1 }, 3, 0)).toBe(0)
    expect(backoffMs({ ...POLICY, jitter: 1 }, 3, 0.999_999)).toBeLessThanOrEqual(8_000)
  })

  test('spreads what failed together', () => {
    const waits = Array.from({ length: 100 }, (_, i) => backoffMs(jittered, 9, i / 100))
    expect(new Set(waits).size).toBe(100)
  })
})
