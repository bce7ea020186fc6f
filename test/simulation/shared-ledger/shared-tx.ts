import { badTx, type Tx } from '../../../src/values/tx.ts'
import type { Engine } from './engine.ts'
import type { Transaction } from './transaction.ts'

/** A transaction as a caller has it: what `{ tx }` takes. In place of SQL it has nothing but the ledger. */
export class SharedTx implements Tx {
  readonly #transaction: Transaction

  constructor(transaction: Transaction) {
    this.#transaction = transaction
  }

  /** Refuses what is none of this ledger's. */
  static transactionOf(tx: unknown, engine: Engine): Transaction {
    if (typeof tx !== 'object' || tx === null || !(#transaction in tx))
      throw badTx('expected a transaction of a shared ledger')
    if (tx.#transaction.engine !== engine) throw badTx("its database is another one than the ledger's")
    return tx.#transaction
  }

  get isOpen(): boolean {
    return this.#transaction.isOpen
  }

  /** All at once. Throws when something in it failed before: then it is rolled back. */
  commit(): void {
    this.#transaction.commit()
  }

  rollback(): void {
    this.#transaction.rollback()
  }

  query(): Promise<never> {
    return Promise.reject(badTx('the shared ledger of the simulation knows no SQL'))
  }
}

/** The same for a handler: which end it takes is not the handler's to say. */
export class HandlerSharedTx extends SharedTx {
  override commit(): void {
    throw badTx('COMMIT is not for the handler to say: its transaction commits when it returns')
  }

  override rollback(): void {
    throw badTx('ROLLBACK is not for the handler to say: its transaction is undone when it throws')
  }
}
