import { existsSync, mkdirSync, realpathSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Database as Connection } from 'better-sqlite3'
import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import { type Logger, silentLogger } from '../../logger.ts'
import { Committer } from './committer.ts'
import { connect } from './connect.ts'
import { lockFile } from './file-lock.ts'
import { SqliteLedger } from './ledger.ts'
import { migrate } from './migrations.ts'
import { MovingWriter } from './moving-writer.ts'
import { Readings } from './readings.ts'
import { ThreadedWriter } from './threaded-writer.ts'
import { Transactions } from './transactions.ts'
import { Transitions } from './transitions.ts'
import { isBusy, translated } from './trouble.ts'

export interface SqliteSettings {
  readonly path: string
  readonly callTimeoutMs: number
  /** Commits that take longer than this, on average, are waited for in a thread of their own. */
  readonly slowCommitMs?: number
}

const SLOW_COMMIT_MS = 10

/** A file up to this size is looked through from end to end when it is opened. */
const CHECKED_PAGES_MAX = 16_384

export function openSqlite(
  { path: given, callTimeoutMs, slowCommitMs = SLOW_COMMIT_MS }: SqliteSettings,
  clock: Clock,
  logger: Logger = silentLogger,
): SqliteLedger {
  const path = resolve(given)
  const where = `the ledger ${given}`
  const isNew = !existsSync(path)
  const lock = locked(path, where)
  let database: Connection | undefined
  try {
    database = connect(path)
    const session = prepared(database, where, isNew)
    const truePath = realpathSync(path)
    const connection = database
    const transitions = new Transitions(connection, session)
    const committer = new Committer(connection, transitions, clock, callTimeoutMs, where)
    const startThread = () => ThreadedWriter.start({ path: truePath, session, callTimeoutMs, where }, clock)
    const writer = new MovingWriter(committer, startThread, slowCommitMs, logger)
    return new SqliteLedger({
      clock,
      readings: new Readings(connection, session),
      writer,
      transactions: new Transactions(truePath, session, clock, where),
      where,
      close: async () => {
        await writer.close()
        connection.close()
        lock.release()
      },
    })
  } catch (error) {
    database?.close()
    lock.release()
    throw isBusy(error) ? busy(where) : translated(error, where)
  }
}

function locked(path: string, where: string): { release(): void } {
  try {
    mkdirSync(dirname(path), { recursive: true })
    return lockFile(path)
  } catch (error) {
    if (TocsinError.is(error)) throw error
    throw new TocsinError(
      'ledger-unavailable',
      `${where} cannot be opened: ${describeError(error)}. Its folder must exist or be creatable, and be writable`,
      {},
      error,
    )
  }
}

/** The tables are there and up to date, and claims of whoever had the file before are nobody's. */
function prepared(database: Connection, where: string, isNew: boolean): number {
  if (!isNew && (database.pragma('page_count', { simple: true }) as number) <= CHECKED_PAGES_MAX) {
    const found = database.pragma('quick_check(1)', { simple: true })
    if (found !== 'ok')
      throw new TocsinError(
        'ledger-damaged',
        `${where} is damaged (${String(found)}). Restore it from a copy, or recover it with: sqlite3 <file> .recover`,
      )
  }
  migrate(database, where)
  database.exec('UPDATE tocsin_topic SET claimed = 0 WHERE claimed <> 0')
  return database
    .prepare(
      `INSERT INTO tocsin_meta (name, value) VALUES ('session', 1)
       ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value`,
    )
    .pluck()
    .get() as number
}

function busy(where: string): TocsinError {
  return new TocsinError(
    'ledger-unavailable',
    `${where} cannot be opened: somebody else is writing to it. End their transaction and try again`,
  )
}
