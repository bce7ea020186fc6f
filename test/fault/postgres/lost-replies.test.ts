import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { startProxy } from '../../real-servers/tcp-proxy.ts'
import { COMPOSITIONS, underLoad } from './under-load.ts'

const CALL_TIMEOUT_MS = 1_500
const FOR_MS = isLong ? 30_000 : 5_000
const PAUSE_MS = 10

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

test.each(COMPOSITIONS)(
  '%s: what was done and not answered is told as unknown, and claims and outcomes are asked for again',
  { timeout: FOR_MS + 90_000 },
  async (composition) => {
    await using proxy = await startProxy(postgres)
    const through = (url: string) => proxy.url(url)
    const name = 'lost replies'
    await underLoad(
      name,
      postgres,
      composition,
      CALL_TIMEOUT_MS,
      async ({ load }) => {
        const until = performance.now() + FOR_MS
        let dropped = 0
        while (performance.now() < until) {
          await proxy.dropNextReply()
          dropped++
          // Real time: some replies get through between two lost ones.
          await sleep(PAUSE_MS)
        }
        console.log(`${dropped} replies lost in ${FOR_MS} ms`)
        expect(dropped).toBeGreaterThan(FOR_MS / PAUSE_MS / 20)
        expect(load.of('failure').map(({ code }) => code)).toContain('unknown-outcome')
        return []
      },
      through,
    )
  },
)
