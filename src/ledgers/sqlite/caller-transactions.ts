import { realpathSync } from 'node:fs'
import type { Database } from 'better-sqlite3'
import { type Clock, sleep } from '../../clock.ts'
import { badTx } from '../../values/tx.ts'
import type { LedgerTransaction } from '../../ledger.ts'
import type { Place, Selection } from '../../timetable.ts'
import type { StepTime } from './step-time.ts'
import { Readings } from './readings.ts'
import { Transitions } from './transitions.ts'
import type { SqliteDatabase } from './options.ts'
import { isBusy, toTocsinError } from './driver-errors.ts'

/** SQLite does not report the end of a transaction, so it is polled, at a growing interval. */
const ASK_MS_MIN = 1
const ASK_MS_MAX = 50

interface Hands {
  readonly transitions: Transitions
  readonly readings: Readings
  /** Its copy of SQLite is ours. */
  isTried: boolean
}

/**
 * Writes in the caller's transaction, on the caller's connection. Each takes effect before its call returns, so that
 * it works inside `database.transaction(() => …)`, which waits for nothing.
 */
export class CallerTransactions {
  readonly #own: Database
  readonly #path: string
  readonly #session: number
  readonly #clock: Clock
  readonly #where: string
  /** Per connection of a caller. */
  readonly #hands = new WeakMap<Database, Hands>()

  constructor(own: Database, path: string, session: number, clock: Clock, where: string) {
    this.#own = own
    this.#path = path
    this.#session = session
    this.#clock = clock
    this.#where = where
  }

  within(tx: unknown): LedgerTransaction {
    const database = this.#check(tx)
    const hands = this.#of(database)
    const { transitions, readings } = hands
    // Thrown, not rejected: inside database.transaction(…) nothing is awaited, and what throws undoes it.
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
      cancel: (topic, places) => write((time) => transitions.cancel(topic, places, time)),
      reschedule: (topic, places, when, mergeMs) =>
        write((time) => transitions.reschedule(topic, places, when, mergeMs, time)),
      cancelBy: (topic, cells, what) =>
        write((time) => {
          const places = found(readings, topic, cells, what)
          return { places, answers: transitions.cancel(topic, places, time) }
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
    // What it remembers may come from a transaction that was undone since.
    hands.transitions.undone()
    return hands
  }

  /**
   * Two copies of SQLite in one process do not see each other's locks, and overwrite each other's commits in silence. So
   * it is tried out: while the other connection may write, ours must not.
   */
  checkCopy(given: SqliteDatabase): void {
    const theirs = given as Database
    // They are in the middle of something: the first use of it as `tx` tries it out.
    if (theirs.inTransaction) return
    theirs.exec('BEGIN IMMEDIATE')
    try {
      this.#checkExcluded()
    } finally {
      theirs.exec('ROLLBACK')
    }
  }

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

/** Null: there is no such file any more. */
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
