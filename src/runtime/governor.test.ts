import { describe, expect, it } from 'vitest'
import { Governor } from './governor.ts'

describe('the governor', () => {
  it('lets everything through without a rate', () => {
    const governor = new Governor()
    expect(governor.take(1_000_000, null, 0)).toBe(1_000_000)
    expect(governor.nextMs(0)).toBe(0)
  })

  it('grants one span at first, then as fast as the bucket fills, never more than one span at once', () => {
    const governor = new Governor()
    const rate = { limit: 10, perMs: 1_000 }
    expect(governor.take(25, rate, 0)).toBe(10)
    expect(governor.take(25, rate, 0)).toBe(0)
    expect(governor.nextMs(0)).toBe(100)
    expect(governor.take(25, rate, 99)).toBe(0)
    expect(governor.take(25, rate, 100)).toBe(1)
    expect(governor.take(25, rate, 60_000)).toBe(10)
  })

  it('takes back what was granted and not used', () => {
    const governor = new Governor()
    const rate = { limit: 10, perMs: 1_000 }
    governor.take(10, rate, 0)
    governor.giveBack(4)
    expect(governor.take(10, rate, 0)).toBe(4)
  })

  it('follows a new rate at once', () => {
    const governor = new Governor()
    governor.take(10, { limit: 10, perMs: 1_000 }, 0)
    expect(governor.take(100, { limit: 50, perMs: 1_000 }, 1)).toBe(50)
    expect(governor.take(100, null, 2)).toBe(100)
  })

  it('over ten seconds lets the limit through, and one span more', () => {
    const governor = new Governor()
    const rate = { limit: 20, perMs: 1_000 }
    let granted = 0
    for (let nowMs = 0; nowMs < 10_000; nowMs += 7) granted += governor.take(3, rate, nowMs)
    expect(granted).toBeGreaterThanOrEqual(199)
    expect(granted).toBeLessThanOrEqual(220)
  })
})
