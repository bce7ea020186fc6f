import type { LedgerTransaction } from '../../ledger.ts'
import { badTx } from '../../values/tx.ts'
import { type CallerClient, CallerTransaction, type Query } from './caller-transaction.ts'
import type { Database } from './database.ts'
import { TRANSACTIONS } from './statements/transactions.ts'
import type { TopicName, Writes } from './writes.ts'

/** Checks the client that a caller passed as `{ tx }`, and writes in the transaction that is open on that client. */
export class CallerTransactions {
  readonly #database: Database
  readonly #writes: Writes
  readonly #ledgerId: string
  readonly #topic: (name: string) => Promise<TopicName>
  /**
   * The id of the ledger in each client's database, or null if the database has no ledger. It is read once per client,
   * because a connection never changes its database.
   */
  readonly #ledgerIds = new WeakMap<object, Promise<string | null>>()

  constructor(
    database: Database,
    writes: Writes,
    ledgerId: string,
    topic: (name: string) => Promise<TopicName>,
  ) {
    this.#database = database
    this.#writes = writes
    this.#ledgerId = ledgerId
    this.#topic = topic
  }

  within(tx: unknown): LedgerTransaction {
    return new CallerTransaction(checkClient(tx), {
      database: this.#database,
      writes: this.#writes,
      topic: this.#topic,
      checkLedger: (client, query) => this.#checkLedger(client, query),
    })
  }

  async #checkLedger(client: CallerClient, query: Query): Promise<void> {
    const lookup = this.#ledgerIds.get(client) ?? ledgerIdOf(query)
    this.#ledgerIds.set(client, lookup)
    const ledgerId = await lookup.catch((error: unknown) => {
      this.#ledgerIds.delete(client)
      throw error
    })
    if (ledgerId !== this.#ledgerId)
      throw badTx(`this client's database is another one than the ledger's (${this.#database.where})`)
  }
}

/**
 * Reads the id of the ledger. First checks that the table exists: a statement on a missing table would abort the
 * caller's transaction.
 */
async function ledgerIdOf(query: Query): Promise<string | null> {
  const [found] = await query(TRANSACTIONS.hasLedger.text, [])
  if (found?.[0] !== true) return null
  const [row] = await query(TRANSACTIONS.ledgerId.text, [])
  return (row?.[0] as string | undefined) ?? null
}

function checkClient(tx: unknown): CallerClient {
  const client = tx as Partial<CallerClient & { totalCount: unknown }> | null
  if (typeof client?.query !== 'function')
    throw badTx(
      "expected a client of the package pg; an ORM's transaction goes through fromDrizzle, fromKysely, fromKnex or fromPrisma",
    )
  if (client.totalCount !== undefined)
    throw badTx('a pool is not a transaction: take a client with pool.connect(), and BEGIN on it')
  return client as CallerClient
}
