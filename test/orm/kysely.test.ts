import {
  CamelCasePlugin,
  type ControlledTransaction,
  Kysely,
  ParseJSONResultsPlugin,
  PostgresDialect,
  sql,
  type Transaction,
} from 'kysely'
import { describe } from 'vitest'
import { pooled } from '../real-servers/postgres-server.ts'
import { fromKysely } from 'tocsin/kysely'
import { type Orm, ormContract } from './contract.ts'

interface Tables {
  purchase: { id: string; state: string }
}

/** With plugins that rename columns and read JSON: what they make of answers is not for us. */
const opened = (url: string) =>
  new Kysely<Tables>({
    dialect: new PostgresDialect({ pool: pooled(url) }),
    plugins: [new CamelCasePlugin(), new ParseJSONResultsPlugin()],
  })

describe('transaction()', () =>
  ormContract<Transaction<Tables>>(async (url) => {
    const db = opened(url)
    return {
      transaction: (work) => db.transaction().execute(work),
      async nested(trx, work) {
        await sql`SAVEPOINT inside`.execute(trx)
        try {
          return await work(trx)
        } catch (error) {
          await sql`ROLLBACK TO SAVEPOINT inside`.execute(trx)
          throw error
        }
      },
      ...rest(db),
    }
  }))

describe('startTransaction()', () =>
  ormContract<ControlledTransaction<Tables, string[]>>(async (url) => {
    const db = opened(url)
    return {
      async transaction(work) {
        const trx = await db.startTransaction().execute()
        try {
          const answer = await work(trx)
          await trx.commit().execute()
          return answer
        } catch (error) {
          await trx.rollback().execute()
          throw error
        }
      },
      async nested(trx, work) {
        const inside = await trx.savepoint('inside').execute()
        try {
          const answer = await work(inside)
          await sql`RELEASE SAVEPOINT inside`.execute(inside)
          return answer
        } catch (error) {
          await sql`ROLLBACK TO SAVEPOINT inside`.execute(inside)
          throw error
        }
      },
      ...rest(db),
    }
  }))

function rest(db: Kysely<Tables>): Omit<Orm<Transaction<Tables>>, 'transaction' | 'nested'> {
  return {
    purchase: (trx, id) => trx.insertInto('purchase').values({ id, state: 'unpaid' }).execute(),
    from: fromKysely,
    refused: { db },
    close: () => db.destroy(),
  }
}

/** Never run: what the compiler says to it. */
export function typed(
  db: Kysely<Tables>,
  trx: Transaction<Tables>,
  controlled: ControlledTransaction<Tables>,
) {
  // @ts-expect-error: the db is no transaction
  fromKysely(db)
  // @ts-expect-error: what is missing
  fromKysely(undefined)
  return [
    fromKysely(trx),
    fromKysely(controlled),
    // @ts-expect-error: a connection of one's own is none either
    db.connection().execute(async (connection) => fromKysely(connection)),
  ]
}
