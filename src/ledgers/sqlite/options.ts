/** Options of a SQLite ledger. */
import { describeValue } from '../../errors.ts'
import { badOption, checkOptions } from '../../values/options.ts'

/**
 * The part of a better-sqlite3 database that the options require. It is declared here, so that a program compiles with
 * Tocsin without the types of better-sqlite3.
 */
export interface SqliteDatabase {
  readonly name: string
  readonly memory: boolean
  readonly readonly: boolean
  readonly open: boolean
  readonly inTransaction: boolean
}

export type SqliteOptions =
  | {
      /** The path of the file. The file is created if it does not exist. */
      readonly path: string
      readonly database?: undefined
    }
  | {
      /** Your own better-sqlite3 database. Tocsin keeps its tables in the same file. It never closes your database. */
      readonly database: SqliteDatabase
      readonly path?: undefined
    }

/** The result of `sqlite(options)`. Pass it to `Tocsin.open` as the ledger. */
export class SqliteConfig {
  readonly kind = 'sqlite'
  readonly options: SqliteOptions

  constructor(options: SqliteOptions) {
    this.options = options
  }
}

/** Checks the options. Returns the path of the file. */
export function pathOf(options: SqliteOptions): string {
  checkOptions(options, ['path', 'database'], 'sqlite')
  const { path, database } = options
  if ((path === undefined) === (database === undefined))
    throw badOption('sqlite', "give one of 'path' and 'database'")
  if (database === undefined) {
    if (
      typeof path === 'string' &&
      path !== '' &&
      !/(^|\/):memory:$/.test(path) &&
      !/^(file:|\/\/)/i.test(path)
    )
      return path
    throw badOption(
      'path',
      `expected the path of a file, like 'sqlite:./data/timers.db' or 'sqlite:/data/timers.db', got ${describeValue(path)}`,
    )
  }
  if (typeof database?.name !== 'string' || typeof database.inTransaction !== 'boolean')
    throw badOption('database', `expected a better-sqlite3 database, got ${describeValue(database)}`)
  if (database.memory) throw badOption('database', 'it is in memory; a ledger needs a file')
  if (database.readonly) throw badOption('database', 'it is read-only; a ledger is written to')
  return database.name
}
