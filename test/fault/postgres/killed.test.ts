import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type Away, COMPOSITIONS, underLoad } from './under-load.ts'

const KILLS = 3
const CALL_TIMEOUT_MS = 1_500
const ANSWERS_BETWEEN_KILLS = 200

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

test.each(COMPOSITIONS)(
  `%s: killed ${KILLS} times under load, and started again`,
  { timeout: 120_000 },
  async (composition) => {
    await underLoad(`${KILLS} × SIGKILL`, postgres, composition, CALL_TIMEOUT_MS, async ({ load }) => {
      const aways: Away[] = []
      for (let kill = 0; kill < KILLS; kill++) {
        await load.untilCount('answer', load.of('answer').length + ANSWERS_BETWEEN_KILLS)
        const failures = load.of('failure').length
        await postgres.kill()
        const fromMs = Date.now()
        // Every loop has met it, and met a server that is away.
        await load.untilCount('failure', failures + 60)
        aways.push({ fromMs, toMs: Date.now() })
        await postgres.start()
      }
      expect(load.of('failure').map(({ code }) => code)).toContain('ledger-unavailable')
      return aways
    })
  },
)
