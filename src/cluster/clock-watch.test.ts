import { describe, expect, it } from 'vitest'
import { silentLogger } from '../telemetry/logger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { ClockWatch } from './clock-watch.ts'

const HOUR_MS = 3_600_000

function watch() {
  const clock = new VirtualClock(10 * HOUR_MS)
  const said: string[] = []
  const logger = { ...silentLogger, warn: (_: object, message: string) => void said.push(message) }
  return { clock, said, watched: new ClockWatch(clock, logger) }
}

describe('clocks that are apart', () => {
  it('are measured by half of the way of an answer', () => {
    const { clock, watched, said } = watch()
    const sentMs = clock.monotonicNow()
    const serverMs = clock.now() + 20
    clock.moveTo(clock.monotonicNow() + 40)
    watched.record('board', serverMs, sentMs)
    expect(watched.aheadMs).toBe(0)
    expect(said).toEqual([])
  })

  it('by more than a few milliseconds are told of: once in an hour', () => {
    const { clock, watched, said } = watch()
    const hear = () => watched.record('board', clock.now() - HOUR_MS, clock.monotonicNow())
    hear()
    hear()
    expect(watched.aheadMs).toBe(HOUR_MS)
    expect(said).toHaveLength(1)
    expect(said[0]).toContain('3600000 ms ahead of the server')
    clock.moveTo(clock.monotonicNow() + HOUR_MS)
    hear()
    expect(said).toHaveLength(2)
  })

  it('are not told of where the answer took so long that they may be the same', () => {
    const { clock, watched, said } = watch()
    const sentMs = clock.monotonicNow()
    const serverMs = clock.now()
    clock.moveTo(clock.monotonicNow() + 110)
    watched.record('board', serverMs, sentMs)
    expect(watched.aheadMs).toBe(55)
    clock.moveTo(clock.monotonicNow() + 1_000)
    watched.record('board', serverMs, sentMs)
    expect(watched.aheadMs, 'too long under way to say anything').toBe(55)
    expect(said).toEqual([])
  })

  it('are compared between the servers, whatever this machine thinks', () => {
    const { clock, watched, said } = watch()
    watched.record('timetable', clock.now() + 80, clock.monotonicNow())
    expect(said, 'nothing to compare it with yet').toEqual([])
    watched.record('board', clock.now() - 10, clock.monotonicNow())
    watched.record('timetable', clock.now() + 80, clock.monotonicNow())
    expect(said).toHaveLength(1)
    expect(said[0]).toContain("Redis is 90 ms ahead of the ledger's")
  })
})
