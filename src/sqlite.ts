/** `tocsin/sqlite`: for a ledger in a file of your own. */
import { SqliteConfig, type SqliteOptions } from './ledgers/sqlite/options.ts'

export type { SqliteDatabase, SqliteOptions } from './ledgers/sqlite/options.ts'
export type { SqliteConfig }

/** Give it to `Tocsin.open({ ledger: sqlite({ database }) })`: then `{ tx: database }` joins your transactions. */
export function sqlite(options: SqliteOptions): SqliteConfig {
  return new SqliteConfig(options)
}
