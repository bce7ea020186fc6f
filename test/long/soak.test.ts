/**
 * A minute of mixed work on the real clock, and five million timers: `npm run test:long`. What was told to callers and
 * seen by handlers is recorded here; the engine's own figures are only compared with it.
 */
import { Tocsin } from 'tocsin'
import { describe, expect, it } from 'vitest'
import { isLong } from '../generated.ts'
import { systemClock } from '../../src/clock.ts'

const SOAK_MS = 60_000
const MEGABYTE = 1_000_000

describe.skipIf(!isLong)('long rounds (npm run test:long)', () => {
  it('a minute of schedules, cancels, failures and restarts: nothing lost, early or after its cancel', async () => {
    await using toc = await Tocsin.open({ timetable: 'memory:', logger: false })
    const topic = toc.topic<{ dueMs: number }>('soak', {
      retry: { min: '10ms', max: '50ms', maxAttempts: 50 },
    })
    const expected = new Map<string, number>()
    const ended = new Set<string>()
    const cancelled = new Set<string>()
    const problems: string[] = []
    const handle = async ({
      key,
      payload,
      attempt,
    }: {
      key: string
      payload: { dueMs: number }
      attempt: number
    }) => {
      if (systemClock.now() < payload.dueMs) problems.push(`${key} fired early`)
      if (cancelled.has(key)) problems.push(`${key} fired after it was cancelled`)
      if (attempt === 1 && key.endsWith('7')) throw new Error('the first attempt of every tenth fails')
      await systemClock.turn()
      ended.add(key)
    }
    let consumer = topic.consume(handle, { concurrency: 100 })
    const untilMs = systemClock.monotonicNow() + SOAK_MS
    const memory: number[] = []
    for (let n = 0, round = 0; systemClock.monotonicNow() < untilMs; round++) {
      const nowMs = systemClock.now()
      const batch = Array.from({ length: 200 }, () => {
        const dueMs = nowMs + Math.floor(Math.random() * 1_000)
        const key = `k${n++}`
        expected.set(key, dueMs)
        return { key, at: dueMs, payload: { dueMs } }
      })
      await topic.scheduleMany(batch)
      const unwanted = batch.slice(0, 20).map(({ key }) => key)
      for (const { key, outcome } of await topic.cancelMany(unwanted))
        if (outcome === 'cancelled') cancelled.add(key)
      if (round % 100 === 99) {
        await consumer.stop()
        consumer = topic.consume(handle, { concurrency: 100 })
        memory.push(process.memoryUsage().rss)
      }
      await new Promise((resolve) => systemClock.after(20, () => resolve(null)))
    }
    for (
      let counts = await topic.counts();
      counts.pending + counts.claimed > 0;
      counts = await topic.counts()
    )
      await new Promise((resolve) => systemClock.after(50, () => resolve(null)))
    const lost = [...expected.keys()].filter((key) => !ended.has(key) && !cancelled.has(key))
    expect({ problems, lost }).toEqual({ problems: [], lost: [] })
    expect(ended.size).toBeGreaterThanOrEqual(expected.size - cancelled.size)
    expect(expected.size).toBeGreaterThan(10_000)
    // Our own records grow by some 300 bytes a task; what comes on top of that must not.
    const grownMb = ((memory.at(-1) ?? 0) - (memory[2] ?? 0)) / MEGABYTE
    expect(grownMb).toBeLessThan(400)
  }, 180_000)

  it('five million timers: scheduled, looked at, cancelled by tag, and a burst among them', async () => {
    await using toc = await Tocsin.open({ timetable: 'memory:', logger: false })
    const topic = toc.topic<null>('million')
    const farMs = systemClock.now() + 30 * 86_400_000
    function* far(count: number) {
      for (let i = 0; i < count; i++)
        yield {
          key: `far-${i}`,
          at: farMs + (i % 1_000),
          payload: null,
          ...(i % 1_000 === 0 ? { tags: ['rare'] } : {}),
        }
    }
    expect(await topic.scheduleMany(far(5_000_000))).toEqual({ created: 5_000_000, replaced: 0, kept: 0 })
    expect(await topic.cancelBy({ tag: 'rare' })).toEqual({ cancelled: 5_000, inFlight: 0 })
    expect((await topic.list({ limit: 3 })).tasks.map(({ key }) => key)).toEqual([
      'far-1',
      'far-1000001',
      'far-100001',
    ])
    let fired = 0
    topic.consumeBatch(async (tasks) => void (fired += tasks.length))
    const dueMs = systemClock.now() + 500
    await topic.scheduleMany(
      Array.from({ length: 100_000 }, (_, i) => ({ key: `near-${i}`, at: dueMs, payload: null })),
    )
    while (fired < 100_000) await new Promise((resolve) => systemClock.after(20, () => resolve(null)))
    // The last ones have been handled, and are being settled.
    await expect
      .poll(() => topic.counts(), { timeout: 30_000 })
      .toMatchObject({ pending: 4_995_000, due: 0, claimed: 0 })
  }, 300_000)
})
