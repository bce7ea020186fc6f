/** `tocsin/sqlite`: for a ledger in a file of your own. */
import { pathOf, SqliteConfig, type SqliteOptions } from '../ledgers/sqlite/options.ts'

export type { SqliteDatabase, SqliteOptions } from '../ledgers/sqlite/options.ts'
export type { SqliteConfig }

/** Give it to `Tocsin.open({ ledger: sqlite({ database }) })`: then `{ tx: database }` joins your transactions. */
export function sqlite(options: SqliteOptions): SqliteConfig {
  // Here, where the mistake is, and again when it is opened: the database may be closed by then.
  pathOf(options)
  return new SqliteConfig(options)
}
