/** However many lines come in, the server holds few of them. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isLong } from '../generated.ts'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { startRedis } from '../real-servers/redis-server.ts'
import { BulkClient } from './bulk-client.ts'
import { startServer } from './server-process.ts'

const MIB = 1024 * 1024
/** Growth ends long before either: more lines take more time, not more room. */
const LINES = isLong ? 1_000_000 : 100_000
const GROWTH_MAX = 100 * MIB
/**
 * What a thread that writes takes, if the disk is slow: a page cache and a heap of its own. The allocator also keeps the
 * first page cache, which is no longer used.
 */
const THREAD_MAX = 200 * MIB
const PIECE = 1_000
const OPTIONS = { timeout: 300_000 }

test(`${LINES} lines into Redis, where tasks take no room in the server`, OPTIONS, async () => {
  await using redis = await startRedis()
  const { growth } = await growthBy({ timetable: redis.url })
  expect(growth).toBeLessThan(GROWTH_MAX)
})

test(`${LINES} lines into a file`, OPTIONS, async () => {
  using folder = temporaryFolder()
  // 64 MiB of it are SQLite's page cache.
  const { growth, hasThread } = await growthBy({ ledger: `sqlite:${join(folder.path, 't.db')}` })
  expect(growth).toBeLessThan(GROWTH_MAX + (hasThread ? THREAD_MAX : 0))
})

const LARGE_LINES = 12_000
const LARGE = { note: 'x'.repeat(60_000) }

test.runIf(isLong)(`${LARGE_LINES} lines of 60 KB into Redis`, OPTIONS, async () => {
  await using redis = await startRedis()
  const { growth } = await growthBy({ timetable: redis.url }, LARGE_LINES, 10, LARGE)
  expect(growth).toBeLessThan(2 * GROWTH_MAX)
})

/**
 * Returns the growth in bytes, from a server that has nothing to do to the most it had meanwhile, and whether it started
 * a thread.
 */
async function growthBy(
  open: Record<string, unknown>,
  count = LINES,
  piece = PIECE,
  payload: object = { orderId: 12_345_678, userId: 987_654, amount: 99.5, note: 'x'.repeat(40) },
): Promise<{ growth: number; hasThread: boolean }> {
  await using server = await startServer(open)
  await server.declare('orders')
  await server.program.untilCount('memory', 1)
  const before = server.memory().at(-1) as number
  const startedMs = performance.now()
  using client = new BulkClient(server.url, 'orders')
  const answer = client.rest()
  for (let n = 0; n < count; n += piece) {
    const lines = Array.from({ length: piece }, (_, i) => ({ key: `order-${n + i}`, delay: '30d', payload }))
    if (!client.send(...lines)) await client.drained()
  }
  client.end()
  expect(await answer).toEqual([{ summary: { created: count, replaced: 0, kept: 0, failed: 0 } }])
  const growth = Math.max(...server.memory()) - before
  const hasThread = server.program.of('thread').length > 0
  const figures = {
    lines: count,
    seconds: Math.round((performance.now() - startedMs) / 100) / 10,
    beforeMiB: Math.round(before / MIB),
    growthMiB: Math.round(growth / MIB),
    hasThread,
  }
  console.log(`bulk over HTTP, ${Object.keys(open).join()}:`, JSON.stringify(figures))
  return { growth, hasThread }
}
