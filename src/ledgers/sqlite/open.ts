import { existsSync, lstatSync, mkdirSync, readlinkSync, realpathSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type { Database as Connection } from 'better-sqlite3'
import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { LedgerSettings } from '../../ledger.ts'
import { type Logger, silentLogger } from '../../telemetry/logger.ts'
import { Committer } from './committer.ts'
import { connect } from './connect.ts'
import { lockFile } from './file-lock.ts'
import { SqliteLedger } from './ledger.ts'
import { migrate } from './migrations.ts'
import { AdaptiveWriter } from './adaptive-writer.ts'
import type { SqliteDatabase } from './options.ts'
import { Readings } from './readings.ts'
import { ThreadedWriter } from './threaded-writer.ts'
import { CallerTransactions } from './caller-transactions.ts'
import { Transitions } from './transitions.ts'
import { isBusy, toTocsinError } from './driver-errors.ts'

export interface SqliteSettings {
  readonly path: string
  readonly callTimeoutMs: number
  /** The user's own connection to the file, if the user has passed one. */
  readonly database?: SqliteDatabase | undefined
  /** If a commit takes longer than this on average, writing moves to a worker thread. */
  readonly slowCommitMs?: number
}

const SLOW_COMMIT_MS = 10
const READER_CACHE_KIB = 8_192

/** A file with at most this many pages gets a full integrity check when it is opened. A larger file is not checked. */
const CHECKED_PAGES_MAX = 8_192

export function openSqlite(
  { path: given, callTimeoutMs, slowCommitMs = SLOW_COMMIT_MS, database: users }: SqliteSettings,
  clock: Clock,
  logger: Logger = silentLogger,
): SqliteLedger {
  const where = `the ledger ${given}`
  const path = truePathOf(resolve(given), where)
  const isNew = !existsSync(path)
  const lock = locked(path, where)
  let database: Connection | undefined
  try {
    database = connect(path)
    const session = beginSession(database, where, isNew)
    const connection = database
    const transitions = new Transitions(connection, session)
    const topics = new Map<string, () => LedgerSettings>()
    const transactions = new CallerTransactions(connection, path, session, topics, clock, where)
    if (users !== undefined) transactions.checkCopy(users)
    const committer = new Committer(connection, transitions, clock, callTimeoutMs, where)
    const startThread = async () => {
      const thread = await ThreadedWriter.start({ path, session, callTimeoutMs, where }, clock)
      // From now on, this connection only reads, so a small cache is enough. The worker thread has its own cache.
      connection.pragma(`cache_size = -${READER_CACHE_KIB}`)
      connection.pragma('shrink_memory')
      return thread
    }
    const writer = new AdaptiveWriter(committer, startThread, slowCommitMs, logger)
    return new SqliteLedger({
      clock,
      readings: new Readings(connection, session),
      writer,
      session,
      transactions,
      topics,
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
    throw isBusy(error) ? busy(where) : toTocsinError(error, where)
  }
}

/** Returns the path without symbolic links. A file then has only one lock, whatever path it is opened by. */
function truePathOf(path: string, where: string): string {
  return opening(where, () => {
    makeFolder(dirname(path))
    // A link is resolved here, because realpathSync fails if the target of the link does not exist yet.
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
    const target = isLink ? resolve(dirname(path), readlinkSync(path)) : path
    return existsSync(target) ? realpathSync(target) : join(realpathSync(dirname(target)), basename(target))
  })
}

/**
 * Creates the folder and its parents one by one. `mkdirSync` with the option `recursive` hangs where folders cannot be
 * created, for example below /proc.
 */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path)
  } catch (error) {
    // If the folder exists now, another process has created it meanwhile.
    if (!existsSync(path)) throw error
  }
}

function locked(path: string, where: string): { release(): void } {
  return opening(where, () => lockFile(path))
}

function opening<T>(where: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    const known = toTocsinError(error, where)
    if (TocsinError.is(known) && known.code !== 'ledger-unavailable') throw known
    throw new TocsinError(
      'ledger-unavailable',
      `${where} cannot be opened: ${describeError(error)}. Its folder must exist or be creatable, and be writable`,
      {},
      error,
    )
  }
}

/** Checks and migrates the file, and begins a session. The new session makes all claims of earlier sessions invalid. */
export function beginSession(database: Connection, where: string, isNew: boolean): number {
  if (!isNew && (database.pragma('page_count', { simple: true }) as number) <= CHECKED_PAGES_MAX) {
    const found = database.pragma('integrity_check(1)', { simple: true })
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
    `${where} cannot be opened: another connection is writing to it. End its transaction and try again`,
  )
}
