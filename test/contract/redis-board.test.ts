import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { openRedisBoard } from './board/redis-harness.ts'
import { boardContract } from './board.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

boardContract('Redis, on a virtual clock', () => openRedisBoard(server))
