import { describe, expect, it } from 'vitest'
import { CELLS } from '../../src/values/cell.ts'
import type { NewEntry, Place } from '../../src/timetable.ts'
import { type MemoryHarness, openMemory } from './memory-harness.ts'
import {
  claim,
  DONE,
  expectBooks,
  hold,
  keysOf,
  keysOfOneCell,
  newRequest,
  only,
  place,
  rescue,
  schedule,
  scheduleAll,
  settle,
  view,
} from './timetable/helpers.ts'
import { timetableContract } from './timetable.ts'

timetableContract('in-process', () => openMemory())

const HOUR_MS = 3_600_000

describe.each([
  ['back', -HOUR_MS],
  ['forward', HOUR_MS],
])('the wall clock steps %s an hour', (_, stepMs) => {
  const withHarness = (run: (harness: MemoryHarness) => Promise<void>) => async () => {
    const harness = await openMemory()
    await run(harness)
    await harness.close()
  }

  it(
    'leases neither end nor last longer for it',
    withHarness(async (harness) => {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a', { leaseMs: 1_000 })
      harness.clock.stepWall(stepMs)
      await harness.advance(999)
      expect(await rescue(harness, 'a')).toMatchObject({ rescued: 0, nextLeaseEndInMs: 1 })
      await harness.advance(1)
      expect((await rescue(harness, 'a')).rescued).toBe(1)
      expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
    }),
  )

  it(
    'an extension lasts as long as it says',
    withHarness(async (harness) => {
      await schedule(harness, 'a')
      const req = newRequest()
      const { stamp } = await hold(harness, 'a', { req, leaseMs: 1_000 })
      harness.clock.stepWall(stepMs)
      const at = { topic: harness.topic, cell: place('a').cell }
      expect(await harness.timetable.extend(at, req, 2_000)).toBe('extended')
      await harness.advance(1_999)
      expect((await rescue(harness, 'a')).rescued).toBe(0)
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
    }),
  )

  it(
    'stamps still grow, and older ones are stale',
    withHarness(async (harness) => {
      const keys = keysOfOneCell(3)
      const [first = ''] = keys
      await scheduleAll(harness, keys, { atMs: (await harness.timetable.nowMs()) - 2 * HOUR_MS })
      const stamps: number[] = []
      for (let n = 0; n < 3; n++) {
        const { stamp, tasks } = await claim(harness, first, { limit: 1 })
        expect(only(tasks).key).toBe(keys[n])
        stamps.push(stamp)
        harness.clock.stepWall(stepMs)
      }
      expect(stamps).toEqual(stamps.toSorted((a, b) => a - b))
      expect(new Set(stamps).size).toBe(3)
      expect(await settle(harness, first, stamps[1] ?? 0, DONE)).toBe('stale')
      expect(await settle(harness, first, stamps[0] ?? 0, DONE)).toBe('settled')
    }),
  )

  it(
    'what is due is due by the wall clock',
    withHarness(async (harness) => {
      const { dueMs } = await schedule(harness, 'a', { delayMs: 2 * HOUR_MS })
      harness.clock.stepWall(stepMs)
      const leftMs = 2 * HOUR_MS - stepMs
      await harness.advance(leftMs - 1)
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await harness.advance(1)
      const { tasks, nowMs } = await claim(harness, 'a')
      expect(only(tasks).dueMs).toBe(dueMs)
      expect(nowMs).toBe(dueMs)
    }),
  )

  it(
    'a rescued task rings by the clock of now',
    withHarness(async (harness) => {
      await schedule(harness, 'a')
      await hold(harness, 'a', { leaseMs: 1_000 })
      harness.clock.stepWall(stepMs)
      await harness.advance(1_000)
      const { nowMs } = await rescue(harness, 'a')
      const { ringMs } = await view(harness, 'a')
      expect(ringMs).toBeGreaterThanOrEqual(nowMs)
      expect(ringMs).toBeLessThanOrEqual(nowMs + 2_000)
    }),
  )
})

const MILLION = 1_000_000
const CHUNK = 1_000
/** More than ten times what they take: loose enough for any machine, tight enough for a step that looks at everything. */
const SCHEDULE_MS_MAX = 60_000
const CANCEL_MS_MAX = 500
const CLAIM_MS_MAX = 500

it(
  'a million tasks wait, and a thousand of them are cancelled and claimed at once',
  async () => {
    const harness = await openMemory()
    const { timetable, topic } = harness
    const soonKeys = keysOfOneCell(1_000, 'soon')
    const { cell } = place(soonKeys[0] ?? '')
    let scheduleMs = 0
    for (let from = 0; from < MILLION; from += CHUNK) {
      const entries = Array.from({ length: CHUNK }, (_, n) => farEntry(from + n))
      scheduleMs += await took(async () => {
        await timetable.schedule(topic, entries, 0)
      })
    }
    await scheduleAll(harness, soonKeys)
    const far = Array.from({ length: 1_000 }, (_, n) => farPlace(n * 997))
    const cancelMs = await took(async () => {
      expect(new Set(await timetable.cancel(topic, far))).toEqual(new Set(['cancelled']))
    })
    const claimMs = await took(async () => {
      const request = { req: 'r', limit: 1_000, leaseMs: 1_000, from: 'lanes', wholePrefixes: false } as const
      const { tasks } = await timetable.claim({ topic, cell }, request)
      expect(keysOf(tasks)).toEqual(soonKeys)
    })
    await expectBooks(harness, {
      scheduled: MILLION + 1_000,
      pending: MILLION - 1_000,
      claimed: 1_000,
      cancelled: 1_000,
    })
    expect(scheduleMs).toBeLessThan(SCHEDULE_MS_MAX)
    expect(cancelMs).toBeLessThan(CANCEL_MS_MAX)
    expect(claimMs).toBeLessThan(CLAIM_MS_MAX)
    await harness.close()
  },
  2 * SCHEDULE_MS_MAX,
)

/** A timetable takes the caller's word for a task's cell; here they are dealt in turn. */
function farPlace(n: number): Place {
  return { key: `task-${n}`, cell: n % CELLS }
}

function farEntry(n: number): NewEntry {
  const when = { kind: 'delay', ms: HOUR_MS + ((n * 7_919) % HOUR_MS) } as const
  return { ...farPlace(n), body: 'x', when, priority: 'normal', tags: null, onConflict: 'replace' }
}

async function took(work: () => Promise<void>): Promise<number> {
  const startMs = performance.now()
  await work()
  return performance.now() - startMs
}
