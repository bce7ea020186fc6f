import { describe, expect, it } from 'vitest'
import { RecordClock } from './record-clock.ts'

describe("what a server's clock says, as far as was heard", () => {
  /** Our clock, running faster or slower than the server's. */
  const clockAt = (rate: number) => {
    let serverMs = 0
    const own = {
      now: () => 0,
      monotonicNow: () => serverMs * rate,
      after: () => () => {},
      turn: () => Promise.resolve(),
    }
    const record = new RecordClock(own)
    return { record, pass: (ms: number) => (serverMs += ms), server: () => Math.floor(serverMs) }
  }

  it.each([0.9995, 1, 1.000048, 1.0005])('never leads, though ours runs at a rate of %d', (rate) => {
    const { record, pass, server } = clockAt(rate)
    for (let n = 0; n < 100_000; n++) {
      if (n % 37 === 0) record.heard(server())
      pass(137.3)
      expect(record.now()).toBeLessThanOrEqual(server())
    }
  })

  it('and lags by little: two milliseconds in a second', () => {
    const { record, pass, server } = clockAt(0.9995)
    record.heard(server())
    pass(1_000)
    expect(server() - record.now()).toBeLessThanOrEqual(3)
  })

  it('is the heard time plus the time since, and starts anew with each answer', () => {
    const { record, pass } = clockAt(1)
    record.heard(5_000)
    expect([record.now(), record.about(), record.ageMs()]).toEqual([5_000, 5_000, 0])
    pass(250.9)
    expect([record.now(), record.about(), record.ageMs()]).toEqual([5_250, 5_250, 250.9])
    pass(9_749.1)
    expect([record.now(), record.about()]).toEqual([14_990, 15_000])
    record.heard(4_000)
    expect([record.now(), record.about()]).toEqual([4_000, 4_000])
  })
})
