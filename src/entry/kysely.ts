/** `tocsin/kysely`: `{ tx: fromKysely(trx) }` writes in a transaction of Kysely. */
import type { CompiledQuery } from 'kysely'
import { overTx, txOf } from './orm-transaction.ts'
import type { Tx } from '../values/tx.ts'

/** The `trx` of `db.transaction().execute(async (trx) => …)`, or the result of `db.startTransaction().execute()`. */
export interface KyselyTransaction {
  readonly isTransaction: true
  withoutPlugins(): { executeQuery(query: never): Promise<{ readonly rows: unknown[] }> }
}

export function fromKysely(trx: KyselyTransaction): Tx {
  return txOf(trx, {
    isTransaction: (trx as Partial<KyselyTransaction> | null)?.isTransaction === true,
    wanted: 'fromKysely takes the trx that db.transaction().execute() hands to its callback, not the db',
    async query(text, values) {
      const statement: CompiledQuery = {
        sql: text,
        parameters: values,
        query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
        queryId: { queryId: 'tocsin' },
      }
      // Run without plugins, because plugins may rename columns or parse JSON text.
      return (await trx.withoutPlugins().executeQuery(statement as never)).rows
    },
    unwrapped: (error) =>
      /^Transaction is already (committed|rolled back)/.test((error as Error).message) ? overTx() : error,
  })
}
