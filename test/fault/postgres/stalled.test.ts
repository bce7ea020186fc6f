import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { COMPOSITIONS, underLoad } from './under-load.ts'

const STALL_MS = isLong ? 30_000 : 6_000
const CALL_TIMEOUT_MS = 1_500

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

test.each(COMPOSITIONS)(
  `%s: stalled for ${STALL_MS / 1_000} s`,
  { timeout: STALL_MS + 90_000 },
  async (composition) => {
    await underLoad(`SIGSTOP, ${STALL_MS} ms`, postgres, composition, CALL_TIMEOUT_MS, async ({ load }) => {
      postgres.pause()
      const fromMs = Date.now()
      // Real time: how long the server is stalled is the point of the test.
      await sleep(STALL_MS)
      const toMs = Date.now()
      postgres.resume()
      // No call waited for the whole stall: calls timed out and were retried.
      expect(load.of('failure').length).toBeGreaterThan(30)
      return [{ fromMs, toMs }]
    })
  },
)
