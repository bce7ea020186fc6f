import { systemClock } from '../../src/clock.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { ShardedLedger } from '../../src/ledgers/sharded.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { type PostgresServer, sql } from '../real-servers/postgres-server.ts'
import type { LedgerHarness } from './ledger.ts'
import { START_MS } from './memory-harness.ts'

export interface PostgresHarnessOptions {
  readonly partitions?: number
  readonly databases?: number
  readonly plant?: (sound: Ledger) => Ledger
}

/** That the claims of a process end with it: a ledger of many processes cannot know. Their leases run out (sharing). */
export const OF_ONE_PROCESS = [
  'reopening: what the former process held is free at once, and its loss is counted',
  'reopening: a suspect that took the process with it, alone, is poison',
  'reopening: a stamp of the former process means nothing',
  'reopening: what was cancelled in flight is not delivered again: it is cancelled',
  'reopening: what the former process held can be cancelled, moved or replaced, exactly',
  'reopening: every one of many sessions adds to the same books',
  // A purge and the janitor at the same time: one that is gone may count for both.
  'dead: what is purged in the same breath is not counted twice: no more are forgotten than too many',
]

/** The same by other chances, which takes long: one of them does where only the tables are divided. */
export const MORE_OF_THE_SAME = [
  'bookkeeping: 2,000 steps by chance are what a model says they are (seed 2)',
  'bookkeeping: 2,000 steps by chance are what a model says they are (seed 3)',
]

/** Databases with tables and no task, by server and kind: each case gets a copy. */
const models = new WeakMap<PostgresServer, Map<string, Promise<string>>>()

async function modelOf(server: PostgresServer, partitions: number, shard: string): Promise<string> {
  const ofServer = models.get(server) ?? new Map<string, Promise<string>>()
  models.set(server, ofServer)
  const name = `${partitions}/${shard}`
  const made =
    ofServer.get(name) ??
    server.createDatabase().then(async (url) => {
      await (await openOne(url, partitions, shard)).close()
      return url
    })
  ofServer.set(name, made)
  return made
}

function openOne(url: string, partitions: number, shard: string): Promise<Ledger> {
  return openPostgres(
    checkPostgresOptions({ url, partitions, connections: 4 }),
    { callTimeoutMs: 10_000, notifyWithinMs: 0, shard },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )
}

/**
 * A ledger in databases of its own. The statements are the product's; only the one function that reads the clock is
 * another one: it stands still until a test moves it. So years pass in a test, on a real PostgreSQL.
 */
export async function openPostgresLedger(
  server: PostgresServer,
  { partitions = 1, databases = 1, plant = (sound) => sound }: PostgresHarnessOptions = {},
): Promise<LedgerHarness> {
  const shards = Array.from({ length: databases }, (_, n) => `${n + 1} of ${databases}`)
  const urls: string[] = []
  for (const shard of shards) urls.push(await server.copyDatabase(await modelOf(server, partitions, shard)))
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
    const opened = await Promise.all(urls.map((url, i) => openOne(url, partitions, shards[i] as string)))
    return opened.length === 1 ? (opened[0] as Ledger) : new ShardedLedger(opened)
  }
  let sound = await open()
  const others: Ledger[] = []
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
    async another() {
      const other = await open()
      others.push(other)
      return other
    },
    async reopen() {
      await sound.close()
      sound = await open()
      ledger = plant(sound)
    },
    async close() {
      await Promise.all([sound, ...others].map((one) => one.close()))
      for (const url of urls) await server.dropDatabase(url)
    },
  }
}
