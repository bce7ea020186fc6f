/** Code that the ORM adapters share: creates a `Tx` that runs its statements in a transaction of the ORM. */
import type { TocsinError } from '../errors.ts'
import { badTx, type Tx } from '../values/tx.ts'

export interface Orm {
  /** False if the caller passed the ORM's database object instead of a transaction. */
  readonly isTransaction: boolean
  /** The error message if `isTransaction` is false. It says what to pass instead. */
  readonly wanted: string
  /** Runs one statement with the placeholders `$1`, `$2`, … and returns its rows. */
  query(text: string, values: readonly unknown[]): Promise<unknown[]>
  /**
   * Returns PostgreSQL's own error for an error of the ORM. Returns `overTx()` if the transaction has ended. Returns
   * `error` itself, or undefined, if it contains no error of PostgreSQL.
   */
  unwrapped(error: unknown): unknown
}

/** Keeps one `Tx` per transaction, because the ledger keeps state per `Tx`. */
const made = new WeakMap<object, Tx>()

export function txOf(handle: object, orm: Orm): Tx {
  if (!orm.isTransaction) throw badTx(orm.wanted)
  const before = made.get(handle)
  if (before !== undefined) return before
  const tx: Tx = {
    async query(text, values) {
      try {
        return { rows: await orm.query(text, values) }
      } catch (error) {
        throw orm.unwrapped(error) ?? error
      }
    },
  }
  made.set(handle, tx)
  return tx
}

export function overTx(): TocsinError {
  return badTx('the transaction is over; write while it is open')
}

/** Creates an error with PostgreSQL's own message and code. Some ORMs add the whole statement or hide the code. */
export function postgresError(message: string, code: unknown, cause: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code })
}

/** Returns the rows of a driver's answer: pg returns an object with `rows`, postgres.js returns the rows themselves. */
export function rowsIn(answer: unknown): unknown[] {
  return Array.isArray(answer) ? answer : (answer as { rows: unknown[] }).rows
}

/** Also matches quoted text, so that a `$1` inside quotes does not count as a placeholder. */
const QUOTED_OR_PLACEHOLDER = /'[^']*'|"[^"]*"|\$(\d+)/g

/** Splits a statement at its placeholders, and returns the value of each placeholder. */
export function cutAtPlaceholders(
  text: string,
  values: readonly unknown[],
): { readonly pieces: string[]; readonly between: unknown[] } {
  const pieces: string[] = []
  const between: unknown[] = []
  let from = 0
  for (const { 0: found, 1: number, index } of text.matchAll(QUOTED_OR_PLACEHOLDER)) {
    if (number === undefined) continue
    pieces.push(text.slice(from, index))
    between.push(values[Number(number) - 1])
    from = index + found.length
  }
  pieces.push(text.slice(from))
  return { pieces, between }
}
