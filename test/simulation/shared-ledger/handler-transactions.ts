import { TocsinError } from '../../../src/errors.ts'
import type { HandlerTransaction, LedgerSettled } from '../../../src/ledger.ts'
import { answered } from './answered.ts'
import { hold } from './claims.ts'
import type { Engine } from './engine.ts'
import { locked } from './locks.ts'
import { settleOne, STALE } from './settling.ts'
import { HandlerSharedTx } from './shared-tx.ts'
import type { Statement } from './statement.ts'
import { Transaction } from './transaction.ts'

/** Transactions of one session in which handlers write, and in which their outcomes are recorded. */
export class HandlerTransactions {
  readonly #engine: Engine
  readonly #session: number
  readonly #open = new Set<Transaction>()

  constructor(engine: Engine, session: number) {
    this.#engine = engine
    this.#session = session
  }

  /** Commits when `work` answers true; otherwise nothing was done. */
  async run(
    work: (transaction: HandlerTransaction) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (signal.aborted) return false
    const transaction = new Transaction(this.#engine)
    this.#open.add(transaction)
    try {
      const isWanted = await work(this.#handed(transaction))
      checkConnected(transaction)
      if (isWanted && transaction.isSpoiled) throw spoiled()
      if (isWanted) transaction.commit()
      return isWanted
    } finally {
      if (transaction.isOpen) transaction.rollback()
      this.#open.delete(transaction)
    }
  }

  /** The connections are gone: the server undoes what was open on them. */
  abandon(): void {
    for (const transaction of this.#open) if (transaction.isOpen) transaction.rollback()
  }

  #handed(transaction: Transaction): HandlerTransaction {
    const say = <T>(topic: string, doing: string, work: (statement: Statement) => T): Promise<T> =>
      answered(() => {
        checkConnected(transaction)
        if (transaction.isSpoiled) throw spoiled()
        return transaction.write(topic, this.#session, doing, work)
      })
    return {
      tx: new HandlerSharedTx(transaction),
      settle: (topic, settlements) =>
        say(topic, 'settle', (statement) =>
          settlements.map((settlement): LedgerSettled => {
            const { kind } = settlement.outcome
            const answer = settleOne(statement, settlement)
            // As PostgreSQL's: these two are waited for, the others passed over.
            if (answer === null && (kind === 'done' || kind === 'obsolete')) throw locked('settle')
            return answer ?? STALE
          }),
        ),
      hold: (topic, held) => say(topic, 'hold', (statement) => hold(statement, held)),
    }
  }
}

/** Only the server ends a handler's transaction before its time. */
function checkConnected(transaction: Transaction): void {
  if (!transaction.isOpen)
    throw new TocsinError(
      'ledger-unavailable',
      "a handler's transaction: its connection is gone; nothing was written",
    )
}

function spoiled(): TocsinError {
  return new TocsinError(
    'ledger-refused',
    'a statement of the handler failed, and though the error was caught, all of its transaction is undone',
  )
}
