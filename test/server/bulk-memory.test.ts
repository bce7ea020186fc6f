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
const PIECE = 1_000
const OPTIONS = { timeout: 300_000 }

test(`${LINES} lines into Redis, where tasks take no room in the server`, OPTIONS, async () => {
  await using redis = await startRedis()
  expect(await growthBy({ timetable: redis.url })).toBeLessThan(GROWTH_MAX)
})

test(`${LINES} lines into a file`, OPTIONS, async () => {
  using folder = temporaryFolder()
  // 64 MiB of it are SQLite's page cache.
  expect(await growthBy({ ledger: `sqlite:${join(folder.path, 't.db')}` })).toBeLessThan(GROWTH_MAX)
})

/** In bytes, from a server that has nothing to do to the most it had meanwhile. */
async function growthBy(open: Record<string, unknown>): Promise<number> {
  await using server = await startServer(open)
  await server.declare('orders')
  await server.program.untilCount('memory', 1)
  const before = server.memory().at(-1) as number
  const startedMs = performance.now()
  using client = new BulkClient(server.url, 'orders')
  const answer = client.rest()
  for (let n = 0; n < LINES; n += PIECE) {
    const lines = Array.from({ length: PIECE }, (_, i) => ({
      key: `order-${n + i}`,
      delay: '30d',
      payload: { orderId: 12_345_678, userId: 987_654, amount: 99.5, note: 'x'.repeat(40) },
    }))
    if (!client.send(...lines)) await client.drained()
  }
  client.end()
  expect(await answer).toEqual([{ summary: { created: LINES, replaced: 0, kept: 0, failed: 0 } }])
  const growth = Math.max(...server.memory()) - before
  const figures = {
    lines: LINES,
    seconds: Math.round((performance.now() - startedMs) / 100) / 10,
    beforeMiB: Math.round(before / MIB),
    growthMiB: Math.round(growth / MIB),
  }
  console.log(`bulk over HTTP, ${Object.keys(open).join()}:`, JSON.stringify(figures))
  return growth
}
