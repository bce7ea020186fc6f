/** Any number of tasks, of any size, in a small process: what it holds is bounded in bytes. */
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { type Entry, startProgram } from '../fault/program.ts'
import { isLong } from '../generated.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

const COUNT = 12_000
const BYTES = 60_000
const WITHIN_MS = 300_000
const HEAP_MB = 512
/**
 * Without a bound in bytes it took over 1,300 MB, or the process ran out of memory. Now three times as many tasks take no
 * more. Embedded takes the most (500 MB on a busy machine), because its writer thread has a heap of its own.
 */
const RSS_MB_MAX = 640

interface Memory extends Entry {
  readonly rssMb: number
  readonly heapMb: number
}

describe.runIf(isLong)('long rounds (npm run test:long)', () => {
  let redis: RedisServer
  let postgres: PostgresServer
  beforeAll(async () => {
    redis = await startRedis()
    postgres = await startPostgres()
  }, 60_000)
  afterAll(() => Promise.all([redis?.stop(), postgres?.stop()]))

  const folder = temporaryFolder()
  afterAll(() => folder[Symbol.dispose]())

  it.each([
    ['embedded', async () => ({ ledger: `sqlite:${join(folder.path, 't.db')}` })],
    ['Redis', async () => ({ timetable: redis.url })],
    ['Redis + PostgreSQL', async () => ({ timetable: redis.url, ledger: await postgres.createDatabase() })],
    ['PostgreSQL alone', async () => ({ ledger: await postgres.createDatabase() })],
  ])(
    `${COUNT} tasks of ${BYTES} bytes, scheduled by a stream and consumed: %s`,
    async (name, open) => {
      const options = { open: await open(), topic: 'large', count: COUNT, bytes: BYTES }
      await using program = await startProgram('large', options, [], [`--max-old-space-size=${HEAP_MB}`])
      await program.until('over', (entries) => entries.some(({ event }) => event === 'closed'), WITHIN_MS)
      expect(program.of('failed')).toEqual([])
      expect(program.of('scheduled')).toMatchObject([{ created: COUNT }])
      expect(program.of('consumed')).toMatchObject([{ handled: COUNT }])
      const memory = program.of('memory') as Memory[]
      const peakMb = Math.max(...memory.map(({ rssMb }) => rssMb))
      const seconds = (event: string) => Math.round((program.of(event)[0]?.ms ?? 0) / 100) / 10
      console.log(
        `large payloads, ${name}:`,
        JSON.stringify({
          scheduledInSeconds: seconds('scheduled'),
          consumedInSeconds: seconds('consumed'),
          peakRssMb: peakMb,
          peakHeapMb: Math.max(...memory.map(({ heapMb }) => heapMb)),
        }),
      )
      expect(peakMb).toBeLessThan(RSS_MB_MAX)
    },
    WITHIN_MS + 30_000,
  )
})
