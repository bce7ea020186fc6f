import { realpathSync } from 'node:fs'
import type { Database } from 'better-sqlite3'
import { type Clock, sleep } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { LedgerTransaction } from '../../ledger.ts'
import type { Place, Selection } from '../../timetable.ts'
import type { Moment } from './moment.ts'
import { Readings } from './readings.ts'
import { Transitions } from './transitions.ts'
import { translated } from './trouble.ts'

/** SQLite tells nobody that a transaction is over: it is asked, soon at first. */
const ASK_MS_MIN = 1
const ASK_MS_MAX = 50

interface Hands {
  readonly transitions: Transitions
  readonly readings: Readings
}

/**
 * Writes in the caller's transaction, on the caller's connection. Each takes effect before its call returns, so that
 * it works inside `database.transaction(() => …)`, which waits for nothing.
 */
export class Transactions {
  readonly #path: string
  readonly #session: number
  readonly #clock: Clock
  readonly #where: string
  /** Per connection of a caller. */
  readonly #hands = new WeakMap<Database, Hands>()

  constructor(path: string, session: number, clock: Clock, where: string) {
    this.#path = path
    this.#session = session
    this.#clock = clock
    this.#where = where
  }

  within(tx: unknown): LedgerTransaction {
    const database = this.#check(tx)
    const { transitions, readings } = this.#of(database)
    const write = <T>(work: (moment: Moment) => T): Promise<T> => {
      try {
        const answer = work({ nowMs: this.#clock.now(), steadyMs: this.#clock.monotonicNow() })
        transitions.writeBooks()
        return Promise.resolve(answer)
      } catch (error) {
        transitions.undone()
        return Promise.reject(translated(error, this.#where) as Error)
      }
    }
    return {
      schedule: (topic, entries, quantumMs) =>
        write((moment) => transitions.schedule(topic, entries, quantumMs, moment)),
      cancel: (topic, places) => write((moment) => transitions.cancel(topic, places, moment)),
      reschedule: (topic, places, when, quantumMs) =>
        write((moment) => transitions.reschedule(topic, places, when, quantumMs, moment)),
      cancelBy: (topic, cells, what) =>
        write((moment) => {
          const places = found(readings, topic, cells, what)
          return { places, answers: transitions.cancel(topic, places, moment) }
        }),
      rescheduleBy: (topic, cells, what, when, quantumMs) =>
        write((moment) => {
          const places = found(readings, topic, cells, what)
          return { places, answers: transitions.reschedule(topic, places, when, quantumMs, moment) }
        }),
      ended: () => this.#ended(database),
    }
  }

  async *#ended(database: Database): AsyncGenerator<void> {
    await this.#clock.turn()
    for (let waitMs = ASK_MS_MIN; database.open && database.inTransaction;) {
      await sleep(this.#clock, waitMs)
      waitMs = Math.min(waitMs * 2, ASK_MS_MAX)
      // It may be the next transaction already that we see: what is committed is looked at each time.
      yield
    }
    yield
  }

  #of(database: Database): Hands {
    let hands = this.#hands.get(database)
    if (hands === undefined) {
      const transitions = new Transitions(database, this.#session)
      hands = { transitions, readings: new Readings(database, this.#session) }
      this.#hands.set(database, hands)
    }
    // What it remembers may come from a transaction that was undone since.
    hands.transitions.undone()
    return hands
  }

  #check(tx: unknown): Database {
    const database = tx as Partial<Database> | null
    if (typeof database?.prepare !== 'function' || typeof database.name !== 'string')
      throw badTx("expected a better-sqlite3 database that shares the ledger's file")
    if (database.open !== true) throw badTx('this database is closed')
    if (database.inTransaction !== true)
      throw badTx('no transaction is open on it; call it inside database.transaction(() => …)')
    if (database.memory === true || realpathSync(database.name) !== this.#path)
      throw badTx(`this database is another file than the ledger's; open it with sqlite({ database })`)
    return database as Database
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

function badTx(message: string): TocsinError {
  return new TocsinError('bad-tx', `tx: ${message}`, { field: 'tx' })
}
