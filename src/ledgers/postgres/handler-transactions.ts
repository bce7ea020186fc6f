import type { Pool, PoolClient } from 'pg'
import { type Clock, withDeadline } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { HandlerTransaction } from '../../ledger.ts'
import type { Database } from './database.ts'
import { isStatementRejected, isTransactionAborted, isTransient, toTocsinError } from './driver-errors.ts'
import { OpenHandlerTransaction } from './handler-transaction.ts'
import type { TopicName, Writes } from './writes.ts'

/**
 * The transactions in which handlers write, and in which the outcomes of their tasks are recorded. These transactions
 * use separate connections, because a handler may run for long, and claims and lease extensions must not wait for it.
 */
export class HandlerTransactions {
  readonly #pool: Pool
  readonly #database: Database
  readonly #writes: Writes
  readonly #clock: Clock
  readonly #topic: (name: string) => Promise<TopicName>
  readonly #callTimeoutMs: number
  #freeConnections: number
  readonly #waiting: (() => void)[] = []

  constructor(
    pool: Pool,
    { connections, callTimeoutMs }: { readonly connections: number; readonly callTimeoutMs: number },
    database: Database,
    writes: Writes,
    clock: Clock,
    topic: (name: string) => Promise<TopicName>,
  ) {
    this.#pool = pool
    this.#freeConnections = connections
    this.#callTimeoutMs = callTimeoutMs
    this.#database = database
    this.#writes = writes
    this.#clock = clock
    this.#topic = topic
  }

  /**
   * Runs `work` in a transaction. Commits if `work` returns true, and rolls back otherwise. Returns whether the
   * transaction committed. If `signal` aborts while the call waits for a connection, returns false without calling
   * `work`.
   */
  async run(
    work: (transaction: HandlerTransaction) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (!(await this.#acquireTurn(signal))) return false
    try {
      const transaction = new OpenHandlerTransaction(await this.#connect(), {
        types: this.#database.types,
        textFor: (text) => this.#database.textFor(text),
        writes: this.#writes,
        topic: this.#topic,
        inTime: (answer) => this.#inTime(answer, true),
      })
      return await transaction.run(work)
    } finally {
      this.#releaseTurn()
    }
  }

  /**
   * Waits for a free connection. Returns false if the signal aborts first. The pool's own queue is not used, because
   * its timeout is the ledger's call timeout, and a handler may wait longer, until the timeout of its topic.
   */
  async #acquireTurn(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#freeConnections > 0) {
      this.#freeConnections--
      return true
    }
    return new Promise((resolve) => {
      const start = () => {
        signal.removeEventListener('abort', leave)
        resolve(true)
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(start), 1)
        resolve(false)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(start)
    })
  }

  #releaseTurn(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#freeConnections++
    else next()
  }

  async #connect(): Promise<PoolClient> {
    const connecting = this.#pool.connect()
    try {
      return await this.#inTime(connecting, false)
    } catch (error) {
      // If the pool provides the connection only after the timeout, the connection is released at once.
      connecting.then((client) => client.release()).catch(() => {})
      throw error
    }
  }

  /** Waits for the answer until a deadline, and translates errors. `isSent` is false while connecting. */
  async #inTime<T>(answer: Promise<T>, isSent: boolean): Promise<T> {
    try {
      const late = () => new Error('no answer in time')
      return await withDeadline(this.#clock, this.#callTimeoutMs, answer, late)
    } catch (error) {
      if (isStatementRejected(error) && !isTransactionAborted(error) && !isTransient(error))
        throw new TocsinError(
          'ledger-refused',
          `the handler's transaction could not be committed and was rolled back: ${describeError(error)}`,
          {},
          error,
        )
      // isRepeatable is true: a retry is a new attempt of the task, in a new transaction.
      throw toTocsinError(error, this.#database.where, "a handler's transaction", true, isSent)
    }
  }
}
