/** Ledgers on a virtual clock, which only the commands of a sequence advance. Each sequence has a topic of its own. */
import { clearTimeout, setTimeout } from 'node:timers'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Clock, systemClock } from '../../src/clock.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { openSqlite } from '../../src/ledgers/sqlite/open.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { START_MS } from '../contract/memory-harness.ts'
import { unwatchedTurn } from '../contract/redis-virtual-clock.ts'
import { pooled, type PostgresServer } from '../real-servers/postgres-server.ts'
import type { Source } from './sequences.ts'

export type Plant = (sound: Ledger) => Ledger

/** A folder in memory, if the system has one: durability is not tested here. */
const FOLDER = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

export async function openSqliteSource(plant: Plant = (sound) => sound): Promise<Source<Ledger>> {
  const folder = mkdtempSync(join(FOLDER, 'tocsin-model-'))
  const clock = new VirtualClock(START_MS)
  const sound = openSqlite({ path: join(folder, 'tocsin.db'), callTimeoutMs: 5_000 }, clock)
  let begun = 0
  return {
    async next() {
      return {
        port: plant(sound),
        topic: `model-${++begun}`,
        startMs: clock.now(),
        rescues: false,
        pass: async (ms) => clock.moveTo(clock.monotonicNow() + ms),
        stepWall: (ms) => clock.stepWall(ms),
      }
    },
    async close() {
      await sound.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Timers that the leak check does not see: it takes a stack trace for every timer, and each statement sets two. */
const unwatchedClock: Clock = {
  ...systemClock,
  after(delayMs, ring) {
    const timer = setTimeout(ring, Math.ceil(delayMs)).unref()
    return () => clearTimeout(timer)
  },
  turn: unwatchedTurn,
}

/**
 * Gives every statement of the ledger a name, so that PostgreSQL plans it once per connection and not at each call: planning
 * is most of the cost of a statement here. The texts are the product's.
 */
class PreparingClient extends pg.Client {
  static readonly #names = new Map<string, string>()

  // What pg declares for it are some ten overloads; the ledger uses one.
  override query = ((statement: unknown, ...rest: unknown[]) => {
    const { text, values } = (statement ?? {}) as { text?: string; values?: unknown[] }
    const ask = super.query.bind(this) as (...all: unknown[]) => unknown
    if (text === undefined || values === undefined) return ask(statement, ...rest)
    const name = PreparingClient.#names.get(text) ?? `s${PreparingClient.#names.size}`
    PreparingClient.#names.set(text, name)
    return ask({ ...(statement as object), name }, ...rest)
  }) as typeof pg.Client.prototype.query
}

/**
 * The product's statements; only the function that reads the clock is replaced. It reads a sequence, which is set in one
 * round trip and keeps the prepared plans: a new function body at each move would invalidate them.
 */
export async function openPostgresSource(server: PostgresServer): Promise<Source<Ledger>> {
  const url = await server.createDatabase()
  // A plan that is made while the tables are empty would be a sequential scan.
  const options = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off'
  const pool = pooled(url, { max: 2, Client: PreparingClient, options })
  const ledger = await openPostgres(
    checkPostgresOptions({ pool }),
    { callTimeoutMs: 10_000, notifyWithinMs: 0, shard: '1 of 1' },
    { clock: unwatchedClock, random: systemRandom, logger: silentLogger },
  )
  await pool.query(`CREATE SEQUENCE tocsin.model_clock START ${START_MS};
    CREATE OR REPLACE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
      $$ SELECT last_value FROM tocsin.model_clock $$`)
  let nowMs = START_MS
  let begun = 0
  return {
    async next() {
      return {
        port: ledger,
        topic: `model-${++begun}`,
        startMs: nowMs,
        rescues: false,
        async pass(ms) {
          nowMs += ms
          await pool.query("SELECT setval('tocsin.model_clock', $1)", [nowMs])
        },
      }
    },
    async close() {
      await ledger.close()
      await pool.end()
      await server.dropDatabase(url)
    },
  }
}
