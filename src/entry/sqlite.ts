/** `tocsin/sqlite`: a ledger in a SQLite database of your own. */
import { pathOf, SqliteConfig, type SqliteOptions } from '../ledgers/sqlite/options.ts'

export type { SqliteDatabase, SqliteOptions } from '../ledgers/sqlite/options.ts'
export type { SqliteConfig }

/** For `Tocsin.open({ ledger: sqlite({ database }) })`: then `{ tx: database }` writes in your transactions. */
export function sqlite(options: SqliteOptions): SqliteConfig {
  // Throws here, where the mistake is. `open` checks again: the database may be closed by then.
  pathOf(options)
  return new SqliteConfig(options)
}
