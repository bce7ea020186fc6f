/** `tocsin/sqlite`: a ledger in a SQLite file, or in a better-sqlite3 database that your program has opened. */
import { pathOf, SqliteConfig, type SqliteOptions } from '../ledgers/sqlite/options.ts'

export type { SqliteDatabase, SqliteOptions } from '../ledgers/sqlite/options.ts'
export type { SqliteConfig }

/** Returns a ledger for `Tocsin.open({ ledger: sqlite({ database }) })`. Use `{ tx: database }` in a transaction. */
export function sqlite(options: SqliteOptions): SqliteConfig {
  // Check now, so that the stack trace shows the wrong call. `open` checks again: the database may be closed by then.
  pathOf(options)
  return new SqliteConfig(options)
}
