import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'

const TOPIC = 'shifted'
const HOUR_MS = 3_600_000
const COUNT = 50
const DELAY_MS = 1_000
/** Far from an hour, and far from what a busy machine makes of a second. */
const LATE_MS = 60_000

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test('workers whose clocks are an hour off ring in time', { timeout: 60_000 }, async () => {
  const start = (name: string, shiftMs: number) => {
    const options = {
      open: { timetable: redis.url },
      topic: TOPIC,
      name,
      shiftMs,
      count: COUNT,
      delayMs: DELAY_MS,
    }
    return startProgram('shifted-loop', options, ['shift-clock'])
  }
  await using ahead = await start('ahead', HOUR_MS)
  await using behind = await start('behind', -HOUR_MS)
  const programs = [ahead, behind]
  await Promise.all(programs.map((program) => program.untilCount('finished', 1)))
  const of = (event: string) => programs.flatMap((program) => program.of(event))
  await eventually('all have started', () => of('start').length === 2 * COUNT)
  await Promise.all(programs.map((program) => program.close()))

  const [clockAhead, clockBehind] = of('clock')
  // Read one after the other, not in one millisecond.
  expect(clockAhead!.ms - clockAhead!.nowMs).toBeGreaterThan(HOUR_MS - LATE_MS)
  expect(clockBehind!.ms - clockBehind!.nowMs).toBeLessThan(-HOUR_MS + LATE_MS)

  const starts = of('start')
  const scheduled = new Map(of('scheduled').map((entry) => [entry.key, entry]))
  expect(starts.map(({ key }) => key).toSorted()).toEqual([...scheduled.keys()].toSorted())
  for (const { key, dueMs, nowMs, latenessMs } of starts) {
    const { nowMs: calledMs, dueMs: saidMs } = scheduled.get(key)!
    expect(dueMs).toBe(saidMs)
    // By the machine's clock, which is Redis's: a second after it was scheduled, neither early nor an hour late.
    expect(dueMs).toBeLessThanOrEqual(calledMs + DELAY_MS)
    expect(dueMs).toBeGreaterThan(calledMs + DELAY_MS - LATE_MS)
    expect(nowMs).toBeGreaterThanOrEqual(dueMs)
    expect(nowMs).toBeLessThan(dueMs + LATE_MS)
    expect(Math.abs(latenessMs)).toBeLessThan(LATE_MS)
  }
  for (const { ms, nowMs } of of('created')) expect(Math.abs(ms - nowMs)).toBeLessThan(LATE_MS)
  expect(of('unhandled')).toEqual([])
})
