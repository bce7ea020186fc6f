/** `tocsin/drizzle`: `{ tx: fromDrizzle(tx) }` writes in a transaction of Drizzle. */
import { sql } from 'drizzle-orm'
import { cutAtPlaceholders, rowsIn, txOf } from './orm-transaction.ts'
import type { Tx } from '../values/tx.ts'

/** The `tx` of `db.transaction(async (tx) => …)`, of any Drizzle version and with any PostgreSQL driver. */
export interface DrizzleTransaction {
  execute(query: never): PromiseLike<unknown>
  rollback(): never
  setTransaction(config: never): PromiseLike<unknown>
}

export function fromDrizzle(tx: DrizzleTransaction): Tx {
  const { execute, rollback, setTransaction } = (tx ?? {}) as Partial<DrizzleTransaction>
  return txOf(tx, {
    isTransaction: [execute, rollback, setTransaction].every((method) => typeof method === 'function'),
    wanted: 'fromDrizzle takes the tx that db.transaction() hands to its callback, on PostgreSQL, not the db',
    async query(text, values) {
      const { pieces, between } = cutAtPlaceholders(text, values)
      const statement = sql(Object.assign(pieces, { raw: pieces }), ...between)
      return rowsIn(await tx.execute(statement as never))
    },
    // Use the cause: the message of Drizzle's own error contains the whole statement with all values.
    unwrapped: (error) => (error as Error).cause,
  })
}
