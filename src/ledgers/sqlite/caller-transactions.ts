import { realpathSync } from 'node:fs'
import type { Database } from 'better-sqlite3'
import { type Clock, sleep } from '../../clock.ts'
import { badTx } from '../../values/tx.ts'
import type { LedgerTransaction, LedgerSettings } from '../../ledger.ts'
import type { Place, Selection } from '../../timetable.ts'
import type { StepTime } from './step-time.ts'
import { Readings } from './readings.ts'
import { Transitions } from './transitions.ts'
import type { SqliteDatabase } from './options.ts'
import { isBusy, toTocsinError } from './driver-errors.ts'

/**
 * Interval at which the ledger polls for the end of a caller's transaction, because SQLite does not report the end. The
 * interval doubles from the minimum to the maximum.
 */
const ASK_MS_MIN = 1
const ASK_MS_MAX = 50

interface Hands {
  readonly transitions: Transitions
  readonly readings: Readings
  /** True once a check has shown that the connection uses the same copy of SQLite as the ledger. */
  isTried: boolean
}

/**
 * Writes in the caller's transaction, on the caller's connection. Each write is carried out before its call returns. So
 * a write works inside `database.transaction(() => …)`, whose function cannot await anything.
 */
export class CallerTransactions {
  readonly #own: Database
  readonly #path: string
  readonly #session: number
  readonly #clock: Clock
  readonly #where: string
  readonly #topics: ReadonlyMap<string, () => LedgerSettings>
  /** The transitions and readings for each connection of a caller. */
  readonly #hands = new WeakMap<Database, Hands>()

  constructor(
    own: Database,
    path: string,
    session: number,
    topics: ReadonlyMap<string, () => LedgerSettings>,
    clock: Clock,
    where: string,
  ) {
    this.#own = own
    this.#path = path
    this.#session = session
    this.#topics = topics
    this.#clock = clock
    this.#where = where
  }

  within(tx: unknown): LedgerTransaction {
    const database = this.#check(tx)
    const hands = this.#of(database)
    const { transitions, readings } = hands
    // Errors are thrown, not returned as rejections. Inside database.transaction(…), where nothing is awaited, only a
    // thrown error rolls back the transaction.
    const write = <T>(work: (time: StepTime) => T): Promise<T> => {
      database.exec('SAVEPOINT tocsin')
      try {
        const answer = work({ nowMs: this.#clock.now(), steadyMs: this.#clock.monotonicNow() })
        transitions.writeBooks()
        if (!hands.isTried) this.#checkExcluded()
        hands.isTried = true
        database.exec('RELEASE tocsin')
        return Promise.resolve(answer)
      } catch (error) {
        transitions.undone()
        if (database.inTransaction) database.exec('ROLLBACK TO tocsin; RELEASE tocsin')
        throw toTocsinError(error, this.#where)
      }
    }
    return {
      schedule: (topic, entries, mergeMs) =>
        write((time) => transitions.schedule(topic, entries, mergeMs, time)),
      cancel: (topic, places) =>
        write((time) => transitions.cancel(topic, places, this.#keepsEnded(topic), time)),
      reschedule: (topic, places, when, mergeMs) =>
        write((time) => transitions.reschedule(topic, places, when, mergeMs, time)),
      cancelBy: (topic, cells, what) =>
        write((time) => {
          const places = found(readings, topic, cells, what)
          return { places, answers: transitions.cancel(topic, places, this.#keepsEnded(topic), time) }
        }),
      rescheduleBy: (topic, cells, what, when, mergeMs) =>
        write((time) => {
          const places = found(readings, topic, cells, what)
          return { places, answers: transitions.reschedule(topic, places, when, mergeMs, time) }
        }),
      ended: (isPointless) => this.#ended(database, isPointless),
      isSynchronous: true,
    }
  }

  #keepsEnded(topic: string): boolean {
    return this.#topics.get(topic)?.().keepsEnded ?? true
  }

  async #ended(database: Database, isPointless: () => boolean): Promise<void> {
    await this.#clock.turn()
    for (let waitMs = ASK_MS_MIN; database.open && database.inTransaction && !isPointless();) {
      await sleep(this.#clock, waitMs)
      waitMs = Math.min(waitMs * 2, ASK_MS_MAX)
    }
  }

  #of(database: Database): Hands {
    let hands = this.#hands.get(database)
    if (hands === undefined) {
      const transitions = new Transitions(database, this.#session)
      hands = { transitions, readings: new Readings(database, this.#session), isTried: false }
      this.#hands.set(database, hands)
    }
    // Clears the cached values, because they may come from a transaction that was rolled back meanwhile.
    hands.transitions.undone()
    return hands
  }

  /**
   * Throws if the connection uses another copy of SQLite than the ledger. Two copies in one process do not see each
   * other's locks, and silently overwrite each other's commits. The check begins a write transaction on the given
   * connection, and then tries to begin one on the ledger's connection. If the second attempt succeeds, the copies
   * differ.
   */
  checkCopy(given: SqliteDatabase): void {
    const theirs = given as Database
    // If a transaction is already open, the check is made later: at the first write with this connection as `tx`.
    if (theirs.inTransaction) return
    theirs.exec('BEGIN IMMEDIATE')
    try {
      this.#checkExcluded()
    } finally {
      theirs.exec('ROLLBACK')
    }
  }

  /** Throws if the ledger's connection can begin a write transaction while the caller's connection has one open. */
  #checkExcluded(): void {
    try {
      this.#own.exec('BEGIN IMMEDIATE')
    } catch (error) {
      if (isBusy(error)) return
      throw toTocsinError(error, this.#where)
    }
    this.#own.exec('ROLLBACK')
    throw badTx(
      "this database comes from another copy of better-sqlite3 than Tocsin's, and two copies in one process overwrite each other's data. Have one: npm dedupe, or npm ls better-sqlite3 to see who brings the second",
    )
  }

  #check(tx: unknown): Database {
    const database = tx as Partial<Database> | null
    if (typeof database?.prepare !== 'function' || typeof database.name !== 'string')
      throw badTx("expected a better-sqlite3 database that shares the ledger's file")
    if (database.open !== true) throw badTx('this database is closed')
    if (database.inTransaction !== true)
      throw badTx('no transaction is open on it; call it inside database.transaction(…)')
    if (database.memory === true || truePath(database.name) !== this.#path)
      throw badTx(`this database is another file than the ledger's; open it with sqlite({ database })`)
    return database as Database
  }
}

/** Returns the path without symbolic links, or null if the file does not exist. */
function truePath(path: string): string | null {
  try {
    return realpathSync(path)
  } catch {
    return null
  }
}

function found(readings: Readings, topic: string, cells: readonly number[], what: Selection): Place[] {
  const places: Place[] = []
  for (const cell of cells)
    for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
      const page = readings.find({ topic, cell }, 'live', what, cursor)
      for (const key of page.keys) places.push({ key, cell })
      cursor = page.cursor
    }
  return places
}
