import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { COMPOSITIONS, underLoad } from './under-load.ts'

const CALL_TIMEOUT_MS = 1_500
const EVERY_MS = 50
const FOR_MS = isLong ? 30_000 : 5_000

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

test.each(COMPOSITIONS)(
  `%s: all connections terminated every ${EVERY_MS} ms`,
  { timeout: FOR_MS + 90_000 },
  async (composition) => {
    await underLoad('backends terminated', postgres, composition, CALL_TIMEOUT_MS, async ({ url }) => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      try {
        const until = performance.now() + FOR_MS
        let terminated = 0
        while (performance.now() < until) {
          const { rowCount } = await client.query(
            `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()`,
          )
          terminated += rowCount ?? 0
          // Real time: clients reconnect in between.
          await sleep(EVERY_MS)
        }
        console.log(`${terminated} connections terminated in ${FOR_MS} ms`)
        expect(terminated).toBeGreaterThan(FOR_MS / EVERY_MS / 2)
      } finally {
        await client.end()
      }
      return []
    })
  },
)
