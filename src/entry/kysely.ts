/** `tocsin/kysely`: `{ tx: fromKysely(trx) }` writes in a transaction of Kysely's. */
import type { CompiledQuery } from 'kysely'
import { overTx, txOf } from './orm-transaction.ts'
import type { Tx } from '../values/tx.ts'

/** What `db.transaction().execute(async (trx) => …)` gives, and `db.startTransaction().execute()`. */
export interface KyselyTransaction {
  readonly isTransaction: true
  withoutPlugins(): { executeQuery(query: never): Promise<{ readonly rows: unknown[] }> }
}

export function fromKysely(trx: KyselyTransaction): Tx {
  return txOf(trx, {
    isTransaction: (trx as Partial<KyselyTransaction> | null)?.isTransaction === true,
    wanted: 'fromKysely takes the trx that db.transaction().execute() hands to its callback, not the db',
    async say(text, values) {
      const statement: CompiledQuery = {
        sql: text,
        parameters: values,
        query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
        queryId: { queryId: 'tocsin' },
      }
      // Plugins may rename columns, or read what looks like JSON.
      return (await trx.withoutPlugins().executeQuery(statement as never)).rows
    },
    unwrapped: (error) =>
      /^Transaction is already (committed|rolled back)/.test((error as Error).message) ? overTx() : error,
  })
}
