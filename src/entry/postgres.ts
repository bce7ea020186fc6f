/** `tocsin/postgres`: a ledger in PostgreSQL, with options that a URL cannot express. */
import { checkPostgresOptions, PostgresConfig, type PostgresOptions } from '../ledgers/postgres/options.ts'

export type { PostgresOptions, PostgresPool } from '../ledgers/postgres/options.ts'
export type { PostgresConfig }

/** Returns a ledger for `Tocsin.open({ ledger: postgres({ pool }) })`. Tocsin does not end your pool. */
export function postgres(options: PostgresOptions): PostgresConfig {
  checkPostgresOptions(options)
  return new PostgresConfig(options)
}
