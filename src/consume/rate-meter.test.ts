import { describe, expect, it } from 'vitest'
import { RateMeter } from './rate-meter.ts'

/** A meter of a consumer that has work since 0. */
function working(): RateMeter {
  const meter = new RateMeter()
  meter.begin(0)
  return meter
}

describe('a rate meter', () => {
  it('knows nothing before its first window of 20 ms of work has ended', () => {
    const meter = working()
    meter.add(50, 19)
    expect(meter.perMs).toBe(0)
    meter.add(50, 20)
    expect(meter.perMs).toBe(5)
  })

  it('moves to a new rate by three tenths of the difference per window', () => {
    const meter = working()
    meter.add(100, 20)
    meter.add(300, 40)
    expect(meter.perMs).toBeCloseTo(5 + 0.3 * 10)
    meter.add(0, 80)
    expect(meter.perMs).toBeCloseTo(8 - 0.3 * 8)
  })

  it('counts a handler that runs long as a long window', () => {
    const meter = working()
    meter.add(100, 1_000)
    expect(meter.perMs).toBeCloseTo(0.1)
  })

  it('does not count the time without work: 32 tasks that took 4 ms are 8 per ms, however far apart they came', () => {
    const meter = working()
    meter.add(8, 1)
    meter.end(1)
    expect(meter.perMs).toBe(0)
    meter.begin(5_000)
    meter.add(24, 5_003)
    meter.end(5_003)
    expect(meter.perMs).toBe(8)
  })

  it('does not take tasks that end at the same moment for a high rate: their work has to end', () => {
    const meter = working()
    // 200 handlers that wait for 10 ms, all at once.
    for (let n = 0; n < 200; n++) meter.add(1, 10)
    expect(meter.perMs).toBe(0)
    meter.end(10)
    expect(meter.perMs).toBe(20)
  })

  it('is at most a task per microsecond, by a clock that stood still', () => {
    const meter = working()
    meter.add(100, 0)
    meter.end(0)
    expect(meter.perMs).toBe(1_000)
  })
})
