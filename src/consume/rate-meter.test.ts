import { describe, expect, it } from 'vitest'
import { RateMeter } from './rate-meter.ts'

describe('a rate meter', () => {
  it('knows nothing before its first window of 20 ms has ended', () => {
    const meter = new RateMeter(1_000)
    meter.add(50, 1_019)
    expect(meter.perMs).toBe(0)
    meter.add(50, 1_020)
    expect(meter.perMs).toBe(5)
  })

  it('moves to a new rate by three tenths of the difference per window', () => {
    const meter = new RateMeter(0)
    meter.add(100, 20)
    meter.add(300, 40)
    expect(meter.perMs).toBeCloseTo(5 + 0.3 * 10)
    meter.add(0, 80)
    expect(meter.perMs).toBeCloseTo(8 - 0.3 * 8)
  })

  it('counts a long pause as a long window', () => {
    const meter = new RateMeter(0)
    meter.add(100, 1_000)
    expect(meter.perMs).toBeCloseTo(0.1)
  })
})
