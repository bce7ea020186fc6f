import { systemClock } from '../../src/clock.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { ShardedLedger } from '../../src/ledgers/sharded.ts'
import { silentLogger } from '../../src/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { type PostgresServer, sql } from '../servers/postgres-server.ts'
import type { LedgerHarness } from './ledger.ts'
import { START_MS } from './memory-harness.ts'

export interface PostgresHarnessOptions {
  readonly partitions?: number
  readonly databases?: number
  readonly plant?: (sound: Ledger) => Ledger
}

/**
 * A ledger in databases of its own. The statements are the product's; only the one function that reads the clock is
 * another one: it stands still until a test moves it. So years pass in a test, on a real PostgreSQL.
 */
export async function openPostgresLedger(
  server: PostgresServer,
  { partitions = 1, databases = 1, plant = (sound) => sound }: PostgresHarnessOptions = {},
): Promise<LedgerHarness> {
  const urls: string[] = []
  for (let n = 0; n < databases; n++) urls.push(await server.createDatabase())
  let nowMs = START_MS
  const setClock = (): Promise<unknown> =>
    Promise.all(
      urls.map((url) =>
        sql(
          url,
          `CREATE OR REPLACE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
             $$ SELECT ${nowMs}::bigint $$`,
        ),
      ),
    )
  const open = async (): Promise<Ledger> => {
    const shards = await Promise.all(
      urls.map((url, i) =>
        openPostgres(
          checkPostgresOptions({ url, partitions, connections: 4 }),
          { callTimeoutMs: 10_000, tellWithinMs: 0, shard: `${i + 1} of ${urls.length}` },
          { clock: systemClock, random: systemRandom, logger: silentLogger },
        ),
      ),
    )
    return shards.length === 1 ? (shards[0] as Ledger) : new ShardedLedger(shards)
  }
  let sound = await open()
  await setClock()
  let ledger = plant(sound)
  return {
    get ledger() {
      return ledger
    },
    topic: 'contract',
    isShared: true,
    async advance(ms) {
      nowMs += Math.ceil(ms)
      await setClock()
    },
    async reopen() {
      await sound.close()
      sound = await open()
      ledger = plant(sound)
    },
    async close() {
      await sound.close()
    },
  }
}
