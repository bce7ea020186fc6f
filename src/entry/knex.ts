/** `tocsin/knex`: `{ tx: fromKnex(trx) }` writes in a transaction of Knex. */
import { cutAtPlaceholders, overTx, postgresError, rowsIn, txOf } from './orm-transaction.ts'
import type { Tx } from '../values/tx.ts'

/** The `trx` of `knex.transaction(async (trx) => …)`, or the result of `await knex.transaction()`. */
export interface KnexTransaction {
  readonly isTransaction?: boolean
  isCompleted(): boolean
  raw(statement: string, values: never): PromiseLike<unknown>
}

export function fromKnex(trx: KnexTransaction): Tx {
  return txOf(trx, {
    isTransaction: (trx as Partial<KnexTransaction> | null)?.isTransaction === true,
    wanted: 'fromKnex takes the trx that knex.transaction() hands to its callback, not knex',
    async query(text, values) {
      const { pieces, between } = cutAtPlaceholders(text, values)
      const statement = pieces.map((piece) => piece.replaceAll('?', '\\?')).join('?')
      return rowsIn(await trx.raw(statement, between as never))
    },
    // Remove the whole statement with all values, which Knex puts before PostgreSQL's message.
    unwrapped(error) {
      if (trx.isCompleted()) return overTx()
      const { message, code } = error as Error & { code?: unknown }
      const at = message.lastIndexOf(' - ')
      return at < 0 ? error : postgresError(message.slice(at + ' - '.length), code, error)
    },
  })
}
