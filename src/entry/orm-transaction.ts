/** What the doors for ORMs share: a `Tx` that says its statements in a transaction of theirs. */
import type { TocsinError } from '../errors.ts'
import { badTx, type Tx } from '../values/tx.ts'

export interface Orm {
  /** Whether it is a transaction, and not the database that makes them. */
  readonly isTransaction: boolean
  /** What to give instead, if it is none. */
  readonly wanted: string
  /** One statement, with `$1` and so on for its values. Answers its rows. */
  say(text: string, values: readonly unknown[]): Promise<unknown[]>
  /** PostgreSQL's own error in what the ORM throws, or `overTx()`. */
  unwrapped(error: unknown): unknown
}

/** By identity: what is known of a transaction is remembered by its `Tx`. */
const made = new WeakMap<object, Tx>()

export function txOf(handle: object, orm: Orm): Tx {
  if (!orm.isTransaction) throw badTx(orm.wanted)
  const before = made.get(handle)
  if (before !== undefined) return before
  const tx: Tx = {
    async query(text, values) {
      try {
        return { rows: await orm.say(text, values) }
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

/** As PostgreSQL said it, for those who add the whole statement to the message, or hide the code. */
export function postgresError(message: string, code: unknown, cause: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code })
}

/** pg answers an object with rows, postgres.js the rows. */
export function rowsIn(answer: unknown): unknown[] {
  return Array.isArray(answer) ? answer : (answer as { rows: unknown[] }).rows
}

/** What stands in quotes is left alone. */
const QUOTED_OR_PLACEHOLDER = /'[^']*'|"[^"]*"|\$(\d+)/g

/** A statement cut at its placeholders, and the value that goes into each cut. */
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
