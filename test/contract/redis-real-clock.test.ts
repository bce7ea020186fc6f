/**
 * The contract on Redis's own clock. Most of its time is spent waiting for leases and rescued tasks, so the cases run
 * side by side: each has a timetable with keys of its own, and none reads a clock that another could move.
 */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { openOnRealClock } from './redis-harness.ts'
import { runSideBySide } from './side-by-side.ts'
import { timetableCases } from './timetable.ts'

/** Of all of them: on a machine that is busy with other things it takes longer. */
const TIMEOUT_MS = 180_000

const cases = timetableCases.filter(({ leaps }) => leaps !== true)

let server: RedisServer
let outcomes: Map<string, Promise<void>>

beforeAll(async () => {
  server = await startRedis()
  outcomes = runSideBySide(cases, () => openOnRealClock(server))
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
