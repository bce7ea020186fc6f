/**
 * The contract on Redis's own clock. Most of its time is spent waiting for leases and rescued tasks, so the cases run
 * side by side: each has a timetable with keys of its own, and none reads a clock that another could move.
 */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { openOnRealClock } from './redis-harness.ts'
import { runCase, timetableCases } from './timetable.ts'

/** They mostly wait: as many as keep the machine busy. */
const SIDE_BY_SIDE = 12
/** Of all of them: on a machine that is busy with other things it takes longer. */
const TIMEOUT_MS = 180_000

const cases = timetableCases.filter(({ leaps }) => leaps !== true)

let server: RedisServer
let outcomes: Map<string, Promise<void>>

beforeAll(async () => {
  server = await startRedis()
  outcomes = runSideBySide()
})
afterAll(async () => {
  // All cases have started, also those whose test was filtered out (-t).
  await Promise.allSettled(outcomes.values())
  await server.stop()
}, TIMEOUT_MS)

// Not `describe.concurrent`: how many run side by side there is a setting of all files.
describe('the contract of a timetable: Redis, on its own clock', () => {
  for (const { name } of cases) it(name, () => outcomes.get(name), TIMEOUT_MS)
})

function runSideBySide(): Map<string, Promise<void>> {
  // Those that take long start first, so that the others fill the time beside them.
  const waiting = cases.toSorted((a, b) => Number(b.slow ?? false) - Number(a.slow ?? false))
  const started = new Map<string, () => void>()
  const all = new Map(
    waiting.map((one) => {
      const start = new Promise<void>((resolve) => started.set(one.name, resolve))
      const outcome = start.then(() => runCase(one, () => openOnRealClock(server)))
      return [one.name, outcome]
    }),
  )
  const startNext = (): void => {
    const next = waiting.shift()
    if (next === undefined) return
    void Promise.allSettled([all.get(next.name)]).then(startNext)
    started.get(next.name)?.()
  }
  for (let n = 0; n < SIDE_BY_SIDE; n++) startNext()
  return all
}
