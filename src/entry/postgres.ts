/** `tocsin/postgres`: for a ledger in a PostgreSQL that you know more about than a URL can say. */
import { checkPostgresOptions, PostgresConfig, type PostgresOptions } from '../ledgers/postgres/options.ts'

export type { PostgresOptions, PostgresPool } from '../ledgers/postgres/options.ts'
export type { PostgresConfig }

/** Give it to `Tocsin.open({ ledger: postgres({ pool }) })`. Tocsin never ends your pool. */
export function postgres(options: PostgresOptions): PostgresConfig {
  checkPostgresOptions(options)
  return new PostgresConfig(options)
}
