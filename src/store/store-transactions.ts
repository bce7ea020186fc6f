import { TocsinError } from '../errors.ts'
import type { Ledger, LedgerSettled, TransactHandler } from '../ledger.ts'
import type { StoreTransaction, Transact } from '../store.ts'
import type { CellAddress, Place, Settlement } from '../timetable.ts'
import type { TransactionWatch } from './transaction-watch.ts'
import type { HeldClaims } from './held-claims.ts'

export interface StoreTransactionsParts {
  readonly ledger: Ledger
  readonly held: HeldClaims
  readonly transactionWatch: TransactionWatch
  /** Called after the commit, once per cell, with the settlements and the ledger's answers. */
  readonly onSettled: (
    at: CellAddress,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ) => Promise<void>
}

/** Writes tasks in callers' transactions. Runs handlers whose writes and outcomes commit in one transaction. */
export class StoreTransactions {
  readonly #parts: StoreTransactionsParts
  /**
   * For each handler's transaction, a check that is called before the handler writes tasks. The check rejects if the
   * handler writes to its own task but no longer holds it.
   */
  readonly #beforeWrite = new WeakMap<object, (topic: string, places: readonly Place[]) => Promise<void>>()

  constructor(parts: StoreTransactionsParts) {
    this.#parts = parts
  }

  /**
   * Returns the function that runs a handler in a transaction. Throws 'ledger-required' if the ledger cannot keep a
   * transaction open while a handler runs.
   */
  forHandlers(): Transact {
    const { ledger } = this.#parts
    const transact = ledger.transact?.bind(ledger)
    if (transact === undefined)
      throw new TocsinError(
        'ledger-required',
        'transaction: true needs its ledger in one PostgreSQL database: a handler cannot be awaited inside a transaction of SQLite, or of several databases. Make the handler idempotent instead: task.id is the same at every attempt',
      )
    return (topic, held, work, signal) => this.#transact(transact, topic, held, work, signal)
  }

  within(tx: unknown): StoreTransaction {
    const transaction = this.#parts.ledger.within(tx)
    // Registers the written places with `transactionWatch`, unless `ended` is null: then the ledger reports committed
    // writes itself (commit feed). A synchronous ledger has already written when `one` is called.
    const one = <T>(topic: string, places: readonly Place[], answers: Promise<T>): Promise<T> => {
      if (transaction.ended !== null)
        this.#parts.transactionWatch.follow(tx as object, transaction.ended, topic, places)
      return answers
    }
    const many = <T>(topic: string, swept: Promise<{ places: Place[]; answers: T }>): Promise<T> =>
      swept.then(({ places, answers }) => one(topic, places, Promise.resolve(answers)))
    const check = this.#beforeWrite.get(tx as object)
    /** Writes after the check. Without a check, writes synchronously, as the caller of a synchronous ledger expects. */
    const checked = <T>(topic: string, places: readonly Place[], write: () => Promise<T>): Promise<T> =>
      check === undefined
        ? one(topic, places, write())
        : check(topic, places).then(() => one(topic, places, write()))
    return {
      isSynchronous: transaction.isSynchronous,
      schedule: (topic, entries, mergeMs) =>
        checked(topic, entries, () => transaction.schedule(topic, entries, mergeMs)),
      cancel: (topic, places) => checked(topic, places, () => transaction.cancel(topic, places)),
      reschedule: (topic, places, when, mergeMs) =>
        checked(topic, places, () => transaction.reschedule(topic, places, when, mergeMs)),
      cancelBy: (topic, cells, what) => many(topic, transaction.cancelBy(topic, cells, what)),
      rescheduleBy: (topic, cells, what, when, mergeMs) =>
        many(topic, transaction.rescheduleBy(topic, cells, what, when, mergeMs)),
    }
  }

  /**
   * Runs a handler in a transaction, and updates the table after the commit. If the process dies in between, the keys
   * ring once more, and the ledger decides again. Returns whether the transaction committed.
   */
  async #transact(
    transact: TransactHandler,
    ...[topic, held, work, signal]: Parameters<Transact>
  ): Promise<boolean> {
    const afterCommit: (() => Promise<void>)[] = []
    const unlock = () => {
      for (const { key, cell, stamp } of held) this.#parts.held.ownLock({ topic, cell }, stamp, key, false)
    }
    const isCommitted = await transact(async ({ tx, settle, hold }) => {
      /** The keys of the handler's own tasks that it writes to by key in this transaction. */
      const own = new Set<string>()
      this.#beforeWrite.set(tx, async (of, places) => {
        const keys = new Set(of === topic ? places.map(({ key }) => key) : [])
        const mine = held.filter(({ key }) => keys.has(key) && !own.has(key))
        if (mine.length === 0) return
        // The lease was lost, and another consumer may have handled the task. So this handler must not continue.
        if (!(await hold(topic, mine)))
          throw new TocsinError(
            'lease-lost',
            'this handler no longer holds the task: its lease ended, and another consumer may have claimed it',
          )
        for (const { key, cell, stamp } of mine) {
          own.add(key)
          this.#parts.held.ownLock({ topic, cell }, stamp, key, true)
        }
      })
      return work(tx, async (settlements) => {
        const answers = await settle(topic, settlements)
        for (const cell of new Set(settlements.map((one) => one.cell))) {
          const isHere = (_: unknown, i: number) => settlements[i]?.cell === cell
          const [some, theirs] = [settlements.filter(isHere), answers.filter(isHere)]
          afterCommit.push(() => this.#parts.onSettled({ topic, cell }, some, theirs))
        }
        // A handler may schedule or cancel its own task. Then the ledger answers 'stale', which is not an error here.
        return answers.map(({ answer }, i) => (own.has(settlements[i]?.key ?? '') ? 'settled' : answer))
      })
    }, signal).finally(unlock)
    if (isCommitted) await Promise.all(afterCommit.map((run) => run()))
    return isCommitted
  }
}
