import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { openOnVirtualClock } from './redis-harness.ts'
import { timetableContract } from './timetable.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

timetableContract('Redis, on a virtual clock', () => openOnVirtualClock(server))
// While an older node is there.
timetableContract('Redis, claims stored task by task', () => openOnVirtualClock(server, { shape: 'tasks' }))
