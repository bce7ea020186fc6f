import { describe, expect, it } from 'vitest'
import { RecordClock } from '../../lib/record-clock.ts'
import { VirtualClock } from '../../testing/virtual-clock.ts'
import type { RedisParts } from './parts.ts'
import { RedisTimetable } from './timetable.ts'

const AT = { topic: 't', cell: 0 }
const NOW_MS = 1_000_000

/** A timetable whose Redis has a task at `NOW_MS` + 60 s, and the clock that `world` says. */
function looking() {
  const clock = new VirtualClock(0)
  const world = { nowMs: NOW_MS, isAway: false }
  const server = { clock: new RecordClock(clock) }
  server.clock.heard(NOW_MS)
  const caller = {
    command: async () => [String(NOW_MS + 60_000), null, null],
    async timeOf() {
      if (world.isAway) throw new Error('unreachable')
      server.clock.heard(world.nowMs)
      return world.nowMs
    },
  }
  const parts = { caller, servers: { of: () => server }, keys: { of: () => ({ meta: 'm' }) }, lookMs: 1 }
  return { clock, world, timetable: new RedisTimetable(parts as unknown as RedisParts) }
}

describe('a look', () => {
  it("reads Redis's clock again: an idle process makes no claim that would tell it", async () => {
    const { clock, world, timetable } = looking()
    clock.moveTo(10_000)
    world.nowMs = NOW_MS + 50_000
    expect((await timetable.look(AT)).ringInMs).toBe(10_000)
  })

  it('reads it again after a reading that failed', async () => {
    const { clock, world, timetable } = looking()
    clock.moveTo(10_000)
    world.isAway = true
    await expect(timetable.look(AT)).rejects.toThrow('unreachable')
    world.isAway = false
    world.nowMs = NOW_MS + 50_000
    expect((await timetable.look(AT)).ringInMs).toBe(10_000)
  })
})
