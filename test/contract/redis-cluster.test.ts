/**
 * The contract on the masters of a Redis Cluster, on their own clocks: every fifth case, and all of them in the long run.
 */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { isLong } from '../generated.ts'
import { type RedisCluster, startRedisCluster } from '../real-servers/redis-cluster.ts'
import { openOnRealClock } from './redis-harness.ts'
import { runSideBySide } from './side-by-side.ts'
import { timetableCases } from './timetable.ts'

const SLICE = 5
const TIMEOUT_MS = 180_000

const cases = timetableCases
  .filter(({ leaps, slow }) => leaps !== true && (isLong || slow !== true))
  .filter((_, n) => isLong || n % SLICE === 0)

let cluster: RedisCluster
let outcomes: Map<string, Promise<void>>

beforeAll(async () => {
  cluster = await startRedisCluster({ replicasEach: 0 })
  const url = `redis+cluster://${cluster.addresses.join(',')}`
  outcomes = runSideBySide(cases, () => openOnRealClock({ url }))
})
afterAll(async () => {
  await Promise.allSettled(outcomes.values())
  await cluster.stop()
}, TIMEOUT_MS)

describe('the contract of a timetable: Redis Cluster, on its own clocks', () => {
  for (const { name } of cases) it(name, () => outcomes.get(name), TIMEOUT_MS)
})
