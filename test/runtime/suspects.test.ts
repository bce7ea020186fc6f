import { expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { TaskStore } from '../../src/store.ts'
import { TestTocsin } from '../../src/testing/test-tocsin.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { ALL_CELLS } from '../../src/values/cell.ts'

const TOPIC = 't'
const SUSPECTS = 20
const CONCURRENCY = 4
const SPAN_MS = 90_000

/** Moves the clock from timer to timer. Handlers that wait for the clock do not end before it moves. */
async function run(clock: VirtualClock, forMs: number): Promise<void> {
  const untilMs = clock.monotonicNow() + forMs
  while (clock.monotonicNow() < untilMs) {
    for (let calmTurns = 0; calmTurns < 3; calmTurns = clock.isTurning ? 0 : calmTurns + 1)
      await systemClock.turn()
    clock.moveTo(Math.min(untilMs, clock.nextTimerMs()))
  }
}

/** Makes suspects of all waiting tasks: each is claimed twice, and both leases end without an outcome. */
async function loseTwice(store: TaskStore, clock: VirtualClock): Promise<void> {
  let requests = 0
  const claimAll = (limit: number) =>
    Promise.all(
      ALL_CELLS.map((cell) =>
        store.claim(
          { topic: TOPIC, cell },
          { req: `lost-${++requests}`, limit, leaseMs: 1, from: 'lanes', wholePrefixes: false },
        ),
      ),
    )
  for (let losses = 0; losses < 2; losses++) {
    await claimAll(100)
    await run(clock, 60_000)
    // A claim without tasks makes the tasks with expired leases available again.
    await claimAll(0)
    await run(clock, 60_000)
  }
}

/** What a busy consumer starts within SPAN_MS, while this many suspects wait. */
async function startsBeside(suspects: number) {
  const clock = new VirtualClock(Date.UTC(2026, 0, 1))
  let store: TaskStore | null = null
  await using toc = new TestTocsin(clock, 5, (timetable) => {
    store = timetable
    return timetable
  })
  const topic = toc.topic<number>(TOPIC)
  await topic.scheduleMany(
    Array.from({ length: suspects }, (_, n) => ({ key: `s${n}`, delay: 0, payload: n })),
  )
  await loseTwice(store as unknown as TaskStore, clock)
  await topic.scheduleMany(Array.from({ length: 3_000 }, (_, n) => ({ key: `k${n}`, delay: 0, payload: n })))
  let running = 0
  let ordinary = 0
  let lastEnded = 'first'
  const started: string[] = []
  const besideOthers: string[] = []
  let emptyDrains = 0
  const consumer = topic.consume(
    async ({ key, payload }) => {
      const kind = key.startsWith('s') ? 'suspect' : 'ordinary'
      if (kind === 'ordinary') ordinary++
      else started.push(key)
      if (kind === 'suspect' && running > 0) besideOthers.push(key)
      // A consumer with a backlog is idle only if it was drained.
      if (kind === 'ordinary' && running === 0 && lastEnded === 'ordinary') emptyDrains++
      running++
      await new Promise<void>((resolve) => clock.after(100 + ((payload * 37) % 120), resolve))
      running--
      lastEnded = kind
    },
    { concurrency: CONCURRENCY },
  )
  await run(clock, SPAN_MS)
  void consumer.stop()
  return { ordinary, started, besideOthers, emptyDrains }
}

it('suspects run alone, cost a consumer less than a fifth of its time, and no drain is in vain', async () => {
  const without = await startsBeside(0)
  const { ordinary, started, besideOthers, emptyDrains } = await startsBeside(SUSPECTS)
  expect(without.emptyDrains).toBe(0)
  expect(emptyDrains).toBe(0)
  expect(new Set(started).size).toBe(SUSPECTS)
  expect(started.length).toBe(SUSPECTS)
  expect(besideOthers).toEqual([])
  expect(ordinary / without.ordinary).toBeGreaterThan(0.8)
})
