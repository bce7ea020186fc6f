import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Alarm } from './alarm.ts'

function alarmed() {
  const clock = new VirtualClock(0)
  const rings: number[] = []
  const alarm = new Alarm(clock, () => rings.push(clock.monotonicNow()))
  return { clock, rings, alarm }
}

describe('an alarm', () => {
  it('rings once, at the earliest deadline', () => {
    const { clock, rings, alarm } = alarmed()
    alarm.noLaterThan(500)
    alarm.noLaterThan(100)
    alarm.noLaterThan(300)
    clock.moveTo(99)
    expect(rings).toEqual([])
    clock.moveTo(100)
    clock.moveTo(1_000)
    expect(rings).toEqual([100])
  })

  it('keeps one timer, however many deadlines are set', () => {
    const { clock, alarm } = alarmed()
    for (let atMs = 1_000; atMs > 0; atMs--) alarm.noLaterThan(atMs)
    expect(clock.timerCount).toBe(1)
  })

  it('can be set again after it rang, also for a time that has passed', () => {
    const { clock, rings, alarm } = alarmed()
    alarm.noLaterThan(10)
    clock.moveTo(10)
    alarm.noLaterThan(5)
    clock.moveTo(10)
    expect(rings).toEqual([10, 10])
  })

  it('sets no timer for Infinity, and does not ring when off', () => {
    const { clock, rings, alarm } = alarmed()
    alarm.noLaterThan(Number.POSITIVE_INFINITY)
    expect(clock.timerCount).toBe(0)
    alarm.noLaterThan(10)
    alarm.off()
    clock.moveTo(100)
    expect(rings).toEqual([])
    expect(clock.timerCount).toBe(0)
  })
})
