import { drizzle as overPg, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { drizzle as overPostgresJs, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { pgTable, text } from 'drizzle-orm/pg-core'
import type { MySql2Database } from 'drizzle-orm/mysql2'
import postgresJs from 'postgres'
import { describe } from 'vitest'
import { pooled } from '../real-servers/postgres-server.ts'
import { fromDrizzle } from 'tocsin/drizzle'
import { type Orm, ormContract } from './contract.ts'

const purchase = pgTable('purchase', { id: text().primaryKey(), state: text().notNull() })

type Database = NodePgDatabase | PostgresJsDatabase
type Transaction = Parameters<Parameters<Database['transaction']>[0]>[0]

function orm(db: Database, close: () => Promise<void>): Orm<Transaction> {
  const transaction: Orm<Transaction>['transaction'] = (work) => db.transaction(work)
  return {
    transaction,
    nested: (outer, work) => outer.transaction(work),
    purchase: (tx, id) => tx.insert(purchase).values({ id, state: 'unpaid' }),
    from: fromDrizzle,
    refused: { db },
    close,
  }
}

describe('over pg', () =>
  ormContract(async (url) => {
    const pool = pooled(url)
    return orm(overPg({ client: pool }), () => pool.end())
  }))

describe('over postgres.js', () =>
  ormContract(async (url) => {
    const client = postgresJs(url, { onnotice: () => {} })
    return orm(overPostgresJs({ client }), () => client.end())
  }))

/** Never run: what the compiler says to it. */
export function typed(db: NodePgDatabase, other: PostgresJsDatabase, mysql: MySql2Database) {
  // @ts-expect-error: the db is no transaction
  fromDrizzle(db)
  // @ts-expect-error: nor with another driver
  fromDrizzle(other)
  // @ts-expect-error: what is missing
  fromDrizzle(undefined)
  return [
    db.transaction(async (tx) => fromDrizzle(tx)),
    other.transaction(async (tx) => tx.transaction(async (inner) => fromDrizzle(inner))),
    // @ts-expect-error: a transaction, but not PostgreSQL's
    mysql.transaction(async (tx) => fromDrizzle(tx)),
  ]
}
