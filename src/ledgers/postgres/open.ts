import type { Connection, Pool, PoolClient, types as Types } from 'pg'
import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Random } from '../../random.ts'
import { Batcher } from '../../lib/batcher.ts'
import { CancelRequests } from './cancel-request.ts'
import { Database, type TypeParsers } from './database.ts'
import { PostgresLedger } from './ledger.ts'
import { refuseEarlierTasks } from './earlier-prefixes.ts'
import { HandlerTransactions } from './handler-transactions.ts'
import { History } from './history.ts'
import { Listener } from './listener.ts'
import { type LedgerFacts, migrate } from './migrations.ts'
import type { CheckedOptions } from './options.ts'
import { makeSteps } from './prepared-steps.ts'
import type { Schema } from './schema.ts'
import { BATCH_MIN } from './statements/batches.ts'
import { UPKEEP } from './statements/upkeep.ts'
import { Topics } from './topics.ts'
import { CallerTransactions } from './caller-transactions.ts'
import { ClaimWrites } from './claim-writes.ts'
import { ClaimedRows } from './claimed-rows.ts'
import { Writes } from './writes.ts'

export interface PostgresSettings {
  readonly callTimeoutMs: number
  /**
   * Writes send a NOTIFY for tasks that ring within this many milliseconds. 0 if no process listens: then no NOTIFY is
   * sent.
   */
  readonly notifyWithinMs: number
  /** The position of this database in a ledger over several databases: '1 of 1', '2 of 4'. */
  readonly shard: string
  /** The smallest number of tasks that are kept as one batch when they end. Tests set it to 1. */
  readonly batchMin?: number
  /** Returns whether all nodes on the board read batches, if the board is in another database of the ledger. */
  readonly readsBatches?: () => Promise<boolean>
}

export interface PostgresSurroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

const VERSION_MIN = 130_000
/**
 * The maximum time for a migration, including the wait for a migration by another process. A migration of large tables
 * may be slow.
 */
const MIGRATION_MS = 60_000
const ID_LENGTH = 12

/** Connects, checks the server, migrates the tables, and builds the ledger. */
export async function openPostgres(
  options: CheckedOptions,
  settings: PostgresSettings,
  { clock, random, logger }: PostgresSurroundings,
): Promise<PostgresLedger> {
  const { where, schema, isLocal, isEncrypted } = options
  const { callTimeoutMs, shard, batchMin = BATCH_MIN } = settings
  const { pool, handlersPool, types, isOurs, cancels } = await poolOf(options, callTimeoutMs, clock)
  // The event is ignored: if an idle connection breaks, the pool opens another one.
  const onError = () => {}
  // An error may arrive in the same chunk of data as the end of the handshake. Then pg emits the error before any other
  // code can add a listener. So the listener is added on connect.
  const onConnect = (client: PoolClient) => client.on('error', onError)
  const pools = [...new Set([pool, handlersPool])]
  for (const one of pools) one.on('error', onError).on('connect', onConnect)
  const database = new Database(pool, types, clock, settings, { schema, where }, cancels)
  const release = async () => {
    for (const one of pools)
      if (isOurs) await one.end().catch(() => {})
      else one.off('error', onError).off('connect', onConnect)
  }
  try {
    const wanted = { id: newId(random), partitions: options.partitions, shard }
    const { facts, session } = await prepared(database, wanted, clock, where)
    if (facts.shard !== shard) throw otherShard(where, facts.shard, shard)
    if (facts.partitions !== options.partitions && options.partitions > 1)
      logger.warn(
        { partitions: facts.partitions },
        `the tables of ${where} were created with ${facts.partitions} partitions, which cannot be changed`,
      )
    if (!isLocal && !isEncrypted)
      logger.warn(
        { ledger: where },
        'the connection to PostgreSQL is not encrypted; add ?sslmode=verify-full',
      )
    const topics = new Topics(database, clock)
    const readsBatches = settings.readsBatches ?? (() => ledger.board.readsBatches())
    const history = new History(clock, topics, batchMin, readsBatches)
    const rows = new ClaimedRows()
    const writes = new Writes(session, history, rows)
    const claims = new ClaimWrites(session, rows)
    const batcher = new Batcher(clock, callTimeoutMs)
    const listener = new Listener(pool, schema, clock, random, logger, callTimeoutMs)
    const transactions = new CallerTransactions(database, writes, facts.id, (name) => topics.placed(name))
    // In a caller's pool, handlers use half of the connections. The rest is for statements that must not wait for
    // handlers.
    const connections = isOurs ? options.connections : Math.max(1, (pool.options.max ?? 10) >> 1)
    const handlers = new HandlerTransactions(
      handlersPool,
      { connections, callTimeoutMs },
      database,
      writes,
      clock,
      (name) => topics.made(name),
    )
    const ledger: PostgresLedger = new PostgresLedger({
      id: facts.id,
      database,
      writes,
      claims,
      batcher,
      transactions,
      handlers,
      listener,
      topics,
      clock,
      close: async () => {
        // Wait for the batched calls. Their deadlines limit the wait. Other calls may still run: the end of our own pool
        // waits for them.
        await batcher.drained()
        await listener.close()
        await release()
      },
    })
    // Read PostgreSQL's clock now, because `clockMs` estimates the time from the last reading.
    await ledger.nowMs()
    await history.ask()
    return ledger
  } catch (error) {
    await release()
    throw error
  }
}

async function poolOf(
  { url, pool, connections }: CheckedOptions,
  callTimeoutMs: number,
  clock: Clock,
): Promise<{
  pool: Pool
  handlersPool: Pool
  types: TypeParsers
  isOurs: boolean
  cancels: CancelRequests
}> {
  const driver = await loadDriver()
  const { types } = driver
  const cancels = new CancelRequests(driver.Connection, clock)
  if (pool !== null) return { pool: pool as Pool, handlersPool: pool as Pool, types, isOurs: false, cancels }
  // Creating a pool opens no connection. The pool connects when it is first used.
  const made = (name: string) =>
    new driver.Pool({
      connectionString: url as string,
      max: connections,
      connectionTimeoutMillis: callTimeoutMs,
      application_name: name,
    })
  return { pool: made('tocsin'), handlersPool: made('tocsin handlers'), types, isOurs: true, cancels }
}

/** Imports the driver only when a PostgreSQL ledger is opened, so that other programs do not need the package pg. */
async function loadDriver(): Promise<{
  Pool: typeof Pool
  types: typeof Types
  Connection: typeof Connection
}> {
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
  const [[version, isStandby] = []] = await database.query(UPKEEP.server.text, [], call)
  if ((version as number) < VERSION_MIN)
    throw new TocsinError(
      'ledger-refused',
      `${where} is PostgreSQL ${Math.floor((version as number) / 10_000)}; Tocsin needs 13 or later`,
    )
  if (isStandby === true)
    throw new TocsinError('ledger-refused', `${where} is a standby, which is read-only; name the primary`)
  const migrating = { doing: 'migrate', deadlineMs: clock.monotonicNow() + MIGRATION_MS, isRepeatable: true }
  const { facts, areStepsMade } = await database.session(
    (client) => migrated(client, database.schema, wanted, where),
    migrating,
  )
  if (areStepsMade) database.useSteps()
  const [row] = await database.query(UPKEEP.newSession.text, [], {
    ...call,
    deadlineMs: database.deadlineMs(),
  })
  return { facts, session: row?.[0] as number }
}

async function migrated(
  client: PoolClient,
  schema: Schema,
  wanted: LedgerFacts,
  where: string,
): Promise<{ facts: LedgerFacts; areStepsMade: boolean }> {
  // The isolation level is set, because the default may be stricter. After the wait for the advisory lock, this
  // transaction must see what another process has created meanwhile.
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED')
  try {
    const connection = {
      query: (text: string, values?: unknown[]) => client.query(schema.sql(text), values),
    }
    await refuseEarlierTasks(client, schema, where)
    const facts = await migrate(connection, schema, wanted, where)
    const areStepsMade = await makeSteps(connection)
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
