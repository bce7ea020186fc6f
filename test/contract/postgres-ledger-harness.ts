import pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { BATCH_MIN } from '../../src/ledgers/postgres/statements/batches.ts'
import { ShardedLedger } from '../../src/ledgers/sharded.ts'
import { systemRandom } from '../../src/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { ledgerContract, type LedgerHarness } from './ledger.ts'
import { START_MS } from './memory-harness.ts'

export interface PostgresLedgerLayout {
  readonly partitions?: number
  readonly databases?: number
  readonly schema?: string
  /** The smallest number of tasks that are kept as one batch when they end. */
  readonly batchMin?: number
}

/**
 * Cases about one process that owns its ledger: its claims end with it. A shared ledger cannot know that a process has
 * ended; it waits for the leases (postgres-sharing.test.ts).
 */
export const OF_ONE_PROCESS = [
  'reopening: what the former process held is free at once, and its loss is counted',
  'reopening: a suspect that took the process with it, alone, is poison',
  'reopening: a stamp of the former process means nothing',
  'reopening: what was cancelled in flight is not delivered again: it is cancelled',
  'reopening: what the former process held can be cancelled, moved or replaced, exactly',
  'reopening: every one of many sessions adds to the same books',
  // If a purge and the janitor run at the same time, one forgotten task may count for both.
  'dead: what is purged in the same breath is not counted twice: no more are forgotten than too many',
]

const SERVER_TIMEOUT_MS = 60_000

/** Runs the contract of a ledger on a PostgreSQL of this file's own. Every case but a few shares one database. */
export function postgresLedgerContract(
  name: string,
  layout: PostgresLedgerLayout,
  except: readonly string[],
): void {
  let server: PostgresServer
  let shared: PostgresLedgers | null = null
  beforeAll(async () => {
    server = await startPostgres()
    shared = await PostgresLedgers.open(server, layout)
  }, SERVER_TIMEOUT_MS)
  afterAll(async () => {
    try {
      await shared?.close()
    } finally {
      await server.stop()
    }
  }, SERVER_TIMEOUT_MS)

  const open = async (isEmpty: boolean): Promise<LedgerHarness> => {
    if (!isEmpty && shared !== null) return shared.harness()
    const own = await PostgresLedgers.open(server, layout)
    return own.harness(() => own.close())
  }
  ledgerContract(name, (one) => open(one.needsEmptyLedger === true), except)
}

/**
 * Databases with a virtual clock, and a ledger that is open on them. The statements are the product's. Only the SQL
 * function that reads the clock is replaced: it reads a table of one row. Years pass in a test, on a real PostgreSQL.
 */
class PostgresLedgers {
  readonly #databases: readonly VirtualDatabase[]
  #ledger: Ledger
  #harnesses = 0

  private constructor(databases: readonly VirtualDatabase[], ledger: Ledger) {
    this.#databases = databases
    this.#ledger = ledger
  }

  static async open(
    server: PostgresServer,
    { partitions = 1, databases = 1, schema = 'tocsin', batchMin = BATCH_MIN }: PostgresLedgerLayout,
  ): Promise<PostgresLedgers> {
    const all: VirtualDatabase[] = []
    for (let n = 1; n <= databases; n++)
      all.push(await VirtualDatabase.create(server, partitions, schema, `${n} of ${databases}`, batchMin))
    return new PostgresLedgers(all, await openAll(all))
  }

  /** A topic of its own on the ledger, and the clock back at START_MS. */
  async harness(onClose = async (): Promise<void> => {}): Promise<LedgerHarness> {
    const others: Ledger[] = []
    const current = (): Ledger => this.#ledger
    let nowMs = START_MS
    const setClock = () => Promise.all(this.#databases.map((database) => database.setClock(nowMs)))
    await setClock()
    // A new ledger has seen no key conflict yet: the insert-only fast path of `schedule` is on again for each case.
    if (this.#harnesses > 0) await this.#reopen()
    return {
      get ledger() {
        return current()
      },
      topic: `contract-${++this.#harnesses}`,
      isShared: true,
      advance: async (ms) => {
        nowMs += Math.ceil(ms)
        await setClock()
      },
      another: async () => {
        const other = await openAll(this.#databases)
        others.push(other)
        return other
      },
      reopen: () => this.#reopen(),
      close: async () => {
        for (const other of others) await other.close()
        await onClose()
      },
    }
  }

  async #reopen(): Promise<void> {
    await this.#ledger.close()
    this.#ledger = await openAll(this.#databases)
  }

  async close(): Promise<void> {
    await this.#ledger.close()
    for (const database of this.#databases) await database.close()
  }
}

async function openAll(databases: readonly VirtualDatabase[]): Promise<Ledger> {
  const opened = await Promise.all(databases.map((database) => database.open()))
  return opened.length === 1 ? (opened[0] as Ledger) : new ShardedLedger(opened)
}

class VirtualDatabase {
  readonly #url: string
  readonly #partitions: number
  readonly #schema: string
  readonly #shard: string
  readonly #batchMin: number
  readonly #clock: pg.Client

  private constructor(url: string, partitions: number, schema: string, shard: string, batchMin: number) {
    this.#url = url
    this.#partitions = partitions
    this.#schema = schema
    this.#shard = shard
    this.#batchMin = batchMin
    this.#clock = new pg.Client({ connectionString: url })
  }

  static async create(
    server: PostgresServer,
    partitions: number,
    schema: string,
    shard: string,
    batchMin: number,
  ): Promise<VirtualDatabase> {
    const database = new VirtualDatabase(await server.createDatabase(), partitions, schema, shard, batchMin)
    // Creates the tables of the product.
    await (await database.open()).close()
    await database.#clock.connect()
    await database.#clock.query(
      `CREATE TABLE public.virtual_clock (now_ms bigint NOT NULL);
       INSERT INTO public.virtual_clock VALUES (${START_MS});
       CREATE OR REPLACE FUNCTION "${schema}".now_ms() RETURNS bigint LANGUAGE sql STABLE AS
         $$ SELECT now_ms FROM public.virtual_clock $$`,
    )
    return database
  }

  open(): Promise<Ledger> {
    return openPostgres(
      checkPostgresOptions({
        url: this.#url,
        partitions: this.#partitions,
        schema: this.#schema,
        connections: 4,
      }),
      { callTimeoutMs: 10_000, notifyWithinMs: 0, shard: this.#shard, batchMin: this.#batchMin },
      { clock: systemClock, random: systemRandom, logger: silentLogger },
    )
  }

  // A table and not a new function body at each move: a new body would invalidate every prepared plan of the product.
  async setClock(nowMs: number): Promise<void> {
    await this.#clock.query('UPDATE public.virtual_clock SET now_ms = $1', [nowMs])
  }

  close(): Promise<void> {
    return this.#clock.end()
  }
}
