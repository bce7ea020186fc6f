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
    let mostMs = Number.NEGATIVE_INFINITY
    for (let n = 0; n < 100_000; n++) {
      if (n % 37 === 0) record.heard(server())
      pass(137.3)
      mostMs = Math.max(mostMs, record.now() - server())
    }
    expect(mostMs).toBeLessThanOrEqual(0)
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

  it.each([0.9995, 1, 1.0005])(
    "tells a deadline by the server's clock, never too late, at a rate of %d",
    (rate) => {
      const { record, pass, server } = clockAt(rate)
      record.heard(server())
      pass(400.5)
      const deadlineMs = 1_000
      const notAfterMs = record.at(deadlineMs)
      while (record.ageMs() < deadlineMs) pass(0.25)
      expect(notAfterMs).toBeLessThanOrEqual(server())
      expect(server() - notAfterMs).toBeLessThanOrEqual(3)
    },
  )

  it('tells a deadline that has passed', () => {
    const { record, pass } = clockAt(1)
    record.heard(5_000)
    pass(2_000)
    expect([record.at(2_000), record.at(1_500.5), record.at(2_500.5)]).toEqual([6_998, 6_498, 7_498])
  })
})
