import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { onRedis } from './hint-table/on-redis.ts'
import { openRedisHintTable } from './hint-table/redis-harness.ts'
import { hintTableContract } from './hint-table.ts'

let server: RedisServer
beforeAll(async () => {
  // One of the cases restarts it.
  server = await startRedis({ config: { appendonly: 'yes' } })
})
afterAll(() => server.stop())

hintTableContract('Redis, on a virtual clock', () => openRedisHintTable(server), onRedis)
