import type { Pool, PoolClient, types as Types } from 'pg'
import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { Logger } from '../../logger.ts'
import type { Random } from '../../random.ts'
import { Runs } from '../../runs.ts'
import { Database, type TypeParsers } from './database.ts'
import { PostgresLedger, Topics } from './ledger.ts'
import { Listener } from './listener.ts'
import { type LedgerFacts, migrate, type Migrating } from './migrations.ts'
import type { CheckedOptions } from './options.ts'
import { makeSteps } from './prepared-steps.ts'
import { Transactions } from './transactions.ts'
import { Writes } from './writes.ts'

export interface PostgresSettings {
  readonly callTimeoutMs: number
  /** Who listens to the ledger is told of what rings within this; 0: nobody listens. */
  readonly tellWithinMs: number
  /** Which part of a ledger over several databases this is: '1 of 1', '2 of 4'. */
  readonly shard: string
}

export interface PostgresSurroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

const VERSION_MIN = 130_000
/** Migrations of others are waited for: with large tables they may take a while. */
const MIGRATION_MS = 60_000
const ID_LENGTH = 12

/** Connects, checks what is at the other end, brings its tables up to date, and puts a ledger together. */
export async function openPostgres(
  options: CheckedOptions,
  { callTimeoutMs, tellWithinMs, shard }: PostgresSettings,
  { clock, random, logger }: PostgresSurroundings,
): Promise<PostgresLedger> {
  const { where, isLocal, isEncrypted } = options
  const { pool, types, isOurs } = await poolOf(options, callTimeoutMs)
  // A connection that breaks while it is idle: the pool makes a new one, and nobody need hear of it.
  const onError = () => {}
  pool.on('error', onError)
  // What comes in one chunk with the end of connecting comes before anybody else can listen.
  const onConnect = (client: PoolClient) => client.on('error', onError)
  pool.on('connect', onConnect)
  const database = new Database(pool, types, clock, callTimeoutMs, where)
  const release = async () => {
    if (isOurs) await pool.end().catch(() => {})
    else pool.off('error', onError).off('connect', onConnect)
  }
  try {
    const wanted = { id: newId(random), partitions: options.partitions, shard }
    const { facts, session } = await prepared(database, wanted, clock, where)
    if (facts.shard !== shard) throw otherShard(where, facts.shard, shard)
    if (facts.partitions !== options.partitions && options.partitions > 1)
      logger.warn(
        { partitions: facts.partitions },
        `the tables of ${where} were made with ${facts.partitions} partitions; that does not change any more`,
      )
    if (!isLocal && !isEncrypted)
      logger.warn(
        { ledger: where },
        'the connection to PostgreSQL is not encrypted; add ?sslmode=verify-full',
      )
    const writes = new Writes(session, tellWithinMs)
    const topics = new Topics(database)
    const runs = new Runs(clock, callTimeoutMs)
    const listener = new Listener(pool, clock, random, logger, callTimeoutMs)
    const transactions = new Transactions(database, writes, clock, facts.id, (name) => topics.made(name))
    const ledger = new PostgresLedger({
      id: facts.id,
      database,
      writes,
      runs,
      transactions,
      listener,
      topics,
      clock,
      close: async () => {
        // What was called before is written; its deadlines bound the wait.
        await runs.drained()
        await listener.close()
        await release()
      },
    })
    // Sets the clock of record before anything is written.
    await ledger.nowMs()
    return ledger
  } catch (error) {
    await release()
    throw error
  }
}

async function poolOf(
  { url, pool, connections }: CheckedOptions,
  callTimeoutMs: number,
): Promise<{ pool: Pool; types: TypeParsers; isOurs: boolean }> {
  const driver = await loadDriver()
  if (pool !== null) return { pool: pool as Pool, types: driver.types, isOurs: false }
  const ours = new driver.Pool({
    connectionString: url as string,
    max: connections,
    connectionTimeoutMillis: callTimeoutMs,
    application_name: 'tocsin',
  })
  return { pool: ours, types: driver.types, isOurs: true }
}

/** Here, not above: whoever has no PostgreSQL need not have its driver. */
async function loadDriver(): Promise<{ Pool: typeof Pool; types: typeof Types }> {
  try {
    const { default: driver } = await import('pg')
    return driver
  } catch (error) {
    throw new TocsinError(
      'driver-missing',
      `a PostgreSQL ledger needs the package pg, which cannot be loaded (${describeError(error)}). Install it: npm install pg`,
      { package: 'pg' },
      error,
    )
  }
}

async function prepared(
  database: Database,
  wanted: LedgerFacts,
  clock: Clock,
  where: string,
): Promise<{ facts: LedgerFacts; session: number }> {
  const call = { doing: 'open', deadlineMs: database.deadlineMs(), isRepeatable: true }
  const [[version, isStandby] = []] = await database.query(
    "SELECT current_setting('server_version_num')::integer, pg_is_in_recovery()",
    [],
    call,
  )
  if ((version as number) < VERSION_MIN)
    throw new TocsinError(
      'ledger-refused',
      `${where} is PostgreSQL ${Math.floor((version as number) / 10_000)}; Tocsin needs 13 or later`,
    )
  if (isStandby === true)
    throw new TocsinError('ledger-refused', `${where} is a standby, which is read-only; name the primary`)
  const migrating = { doing: 'migrate', deadlineMs: clock.monotonicNow() + MIGRATION_MS, isRepeatable: true }
  const { facts, areStepsMade } = await database.session(
    (client) => migrated(client, wanted, where),
    migrating,
  )
  if (areStepsMade) database.useSteps()
  const [row] = await database.query("SELECT nextval('tocsin.session')", [], {
    ...call,
    deadlineMs: database.deadlineMs(),
  })
  return { facts, session: row?.[0] as number }
}

async function migrated(
  client: PoolClient,
  wanted: LedgerFacts,
  where: string,
): Promise<{ facts: LedgerFacts; areStepsMade: boolean }> {
  await client.query('BEGIN')
  try {
    const facts = await migrate(client as unknown as Migrating, wanted, where)
    const areStepsMade = await makeSteps(client)
    await client.query('COMMIT')
    return { facts, areStepsMade }
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}

function newId(random: Random): string {
  return random.uniqueId().replaceAll('-', '').slice(0, ID_LENGTH)
}

function otherShard(where: string, found: string, wanted: string): TocsinError {
  return new TocsinError(
    'ledger-refused',
    `${where} is part ${found} of its ledger, and was given as part ${wanted}. Name the same databases in the same order as when they were made: tasks do not move`,
    { found, wanted },
  )
}
