import { describe, expect, it } from 'vitest'
import type { Heartbeat } from '../board.ts'
import { BEAT_MS, GONE_MS, Liveness } from './liveness.ts'

function heartbeat(id: string, beats: number, ageMs = 0): Heartbeat {
  return { id, beats, edition: 1, ageMs }
}

/** Looks every beat from `fromMs` until something is gone, and answers when that was. */
function goneAfter(liveness: Liveness, fromMs: number, silent: Heartbeat): number {
  for (let nowMs = fromMs; ; nowMs += BEAT_MS)
    if (liveness.look([silent], nowMs).gone.length > 0) return nowMs - fromMs
}

describe('who is alive', () => {
  it('is one whose counter moves, however long', () => {
    const liveness = new Liveness()
    for (let beat = 1; beat < 100; beat++) {
      const { alive, gone } = liveness.look([heartbeat('a', beat)], beat * BEAT_MS)
      expect(alive).toEqual(['a'])
      expect(gone).toEqual([])
    }
  })

  it('is one whose counter starts anew, because its board was wiped', () => {
    const liveness = new Liveness()
    liveness.look([heartbeat('a', 1_000)], 0)
    for (let beat = 1; beat < 20; beat++)
      expect(liveness.look([heartbeat('a', beat)], beat * BEAT_MS)).toEqual({ alive: ['a'], gone: [] })
  })

  it('is gone within five seconds when its counter stands still', () => {
    const liveness = new Liveness()
    liveness.look([heartbeat('a', 6)], 0)
    liveness.look([heartbeat('a', 7)], BEAT_MS)
    const afterMs = goneAfter(liveness, BEAT_MS, heartbeat('a', 7))
    expect(afterMs).toBeGreaterThanOrEqual(GONE_MS)
    expect(afterMs).toBeLessThanOrEqual(5_000)
  })

  it('uses the monotonic clock of this process: the age on the board makes no node dead, and keeps none alive', () => {
    const liveness = new Liveness()
    liveness.look([heartbeat('old', 1), heartbeat('young', 1)], 0)
    for (let beat = 1; beat < 20; beat++) {
      const { alive } = liveness.look(
        [heartbeat('old', 1 + beat, 3_600_000), heartbeat('young', 1, -5)],
        beat * BEAT_MS,
      )
      expect(alive).toContain('old')
      if (beat * BEAT_MS > GONE_MS) expect(alive).not.toContain('young')
    }
  })

  it('is not gone because we were away', () => {
    const liveness = new Liveness()
    liveness.look([heartbeat('a', 1)], 0)
    liveness.look([heartbeat('a', 2)], BEAT_MS)
    // This process or the board stopped for an hour: no node could beat, or be seen to beat.
    expect(liveness.look([heartbeat('a', 2)], 3_600_000).alive).toEqual(['a'])
    expect(liveness.look([heartbeat('a', 3)], 3_600_000 + BEAT_MS).alive).toEqual(['a'])
  })

  it('is not one whose card was left by a process long dead, though we never saw it alive', () => {
    const liveness = new Liveness()
    expect(liveness.look([heartbeat('ghost', 9, GONE_MS + 1)], 0)).toEqual({ alive: [], gone: [] })
    expect(goneAfter(liveness, BEAT_MS, heartbeat('ghost', 9, GONE_MS + 1))).toBeLessThanOrEqual(5_000)
  })

  it('is one that the board calls old, as soon as it is seen to beat', () => {
    const liveness = new Liveness()
    liveness.look([heartbeat('a', 1, 60_000)], 0)
    expect(liveness.look([heartbeat('a', 2, 60_000)], BEAT_MS).alive).toEqual(['a'])
  })

  it('is one that was buried and beats again, though the board counts from the start', () => {
    const liveness = new Liveness()
    liveness.look([heartbeat('a', 50)], 0)
    expect(goneAfter(liveness, BEAT_MS, heartbeat('a', 50))).toBeLessThanOrEqual(5_000)
    liveness.look([], 10_000)
    expect(liveness.look([heartbeat('a', 1)], 10_000 + BEAT_MS)).toEqual({ alive: ['a'], gone: [] })
  })
})
