import knexOf, { type Knex } from 'knex'
import { describe } from 'vitest'
import { fromKnex } from 'tocsin/knex'
import { type Orm, ormContract } from './contract.ts'

function orm(url: string, config: Knex.Config = {}): Orm<Knex.Transaction> {
  const knex = knexOf({ client: 'pg', connection: url, ...config })
  return {
    transaction: (work) => knex.transaction(work),
    nested: (trx, work) => trx.transaction(work),
    purchase: (trx, id) => trx('purchase').insert({ id, state: 'unpaid' }),
    from: fromKnex,
    refused: { knex },
    close: () => knex.destroy(),
  }
}

ormContract(async (url) => orm(url))

describe('with answers that are changed on the way', () =>
  ormContract(async (url) => orm(url, { postProcessResponse: shouting })))

/** As mappers between snake_case and camelCase do it. */
function shouting(answer: unknown): unknown {
  const { rows } = answer as { rows?: object[] }
  const loud = (row: object) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name.toUpperCase(), value]))
  return rows === undefined ? answer : { ...(answer as object), rows: rows.map(loud) }
}

/** Never run: what the compiler says to it. */
export function typed(knex: Knex, trx: Knex.Transaction) {
  // @ts-expect-error: knex is no transaction
  fromKnex(knex)
  // @ts-expect-error: what is missing
  fromKnex(undefined)
  return [fromKnex(trx), knex.transaction(async (inner) => fromKnex(inner))]
}
