import type { PoolClient } from 'pg'
import { describeError, TocsinError } from '../../errors.ts'
import type { HandlerTransaction, LedgerSettled } from '../../ledger.ts'
import { badTx, type Tx } from '../../values/tx.ts'
import { numberArray, placeArrays } from './arrays.ts'
import type { TypeParsers } from './database.ts'
import { isTransactionAborted } from './driver-errors.ts'
import type { StatementRunner } from './statement-runner.ts'
import { TRANSACTIONS } from './statements/transactions.ts'
import type { TopicName, Writes } from './writes.ts'

/**
 * How long settling waits for a row lock. After this time, the transaction is rolled back, and the task is retried
 * later.
 */
const LOCK_TIMEOUT_MS = 1_000

/**
 * Matches statements that end a transaction or begin another transaction. Does not match ROLLBACK TO, because a handler
 * may use savepoints.
 */
const TRANSACTION_CONTROL =
  /^(?:\s|;|--[^\n]*(?:\n|$)|\/\*[^]*?\*\/)*(begin|start\s+transaction|commit|end|abort|rollback(?!\s+(work\s+|transaction\s+)?to\b)|prepare\s+transaction)\b/i

export interface OpenHandlerTransactionParts {
  readonly types: TypeParsers
  readonly textFor: (text: string) => string
  readonly writes: Writes
  readonly topic: (name: string) => Promise<TopicName>
  /** Waits for the answer of a statement until a deadline, and translates errors. */
  readonly inTime: <T>(answer: Promise<T>) => Promise<T>
}

interface Answer {
  readonly rows: unknown[][]
  readonly command: string
}

/**
 * One transaction of a handler, from BEGIN to COMMIT or ROLLBACK. At the end, its connection is released to the pool.
 */
export class OpenHandlerTransaction implements HandlerTransaction {
  readonly tx: Tx
  readonly #client: PoolClient
  readonly #parts: OpenHandlerTransactionParts
  #isOpen = true
  /**
   * True once the server has carried out COMMIT or ROLLBACK. Otherwise a statement may still be running, so the pool
   * must discard the connection.
   */
  #isReusable = false
  /**
   * The first error of a statement of the handler. After such an error, PostgreSQL rolls the transaction back at
   * COMMIT, even if the handler caught the error, unless the handler rolled back to a savepoint.
   */
  #firstError: unknown
  /** The transaction id that PostgreSQL assigned after BEGIN. */
  #id: unknown

  constructor(client: PoolClient, parts: OpenHandlerTransactionParts) {
    this.#client = client
    this.#parts = parts
    this.tx = this.#guardedClient()
  }

  async run(work: (transaction: HandlerTransaction) => Promise<boolean>): Promise<boolean> {
    const client = this.#client
    // A connection that breaks between two statements emits an 'error' event. Without a listener, the event would end
    // the process.
    const onError = () => {}
    client.on('error', onError)
    try {
      await this.#query('BEGIN')
      this.#id = await this.#currentId()
      return await this.#end(await work(this))
    } catch (error) {
      if (this.#isOpen) await this.#rollback()
      throw isTransactionAborted(TocsinError.is(error) ? error.cause : error)
        ? transactionAborted(this.#firstError ?? error)
        : error
    } finally {
      client.off('error', onError)
      client.release(this.#isReusable ? undefined : true)
    }
  }

  readonly settle: HandlerTransaction['settle'] = async (topicName, settlements) => {
    const { writes, textFor } = this.#parts
    const topic = await this.#parts.topic(topicName)
    // The id has changed if the handler sent a COMMIT after another statement, in one text such as 'UPDATE …; COMMIT'.
    // TRANSACTION_CONTROL does not match such a text. The commit cannot be undone. The task is retried.
    if ((await this.#currentId()) !== this.#id)
      throw badTx(
        'the handler ended its transaction itself: what it wrote before that is committed, and the next attempt writes it again. Leave COMMIT and ROLLBACK to Tocsin',
      )
    const runner: StatementRunner = {
      query: async (text, values) => (await this.#query(textFor(text), values)).rows,
      lockTimeoutMs: LOCK_TIMEOUT_MS,
      transactionId: null,
      notAfterMs: null,
      notifyWithinMs: 0,
    }
    const answers = await writes.settle(runner, topic, settlements)
    return answers.map((answer): LedgerSettled => answer ?? { answer: 'stale', hint: null })
  }

  readonly hold: HandlerTransaction['hold'] = async (topicName, held) => {
    const { id } = await this.#parts.topic(topicName)
    const stamps = numberArray(held.map(({ stamp }) => stamp))
    const values = [id, ...placeArrays(held), stamps, this.#parts.writes.session]
    const { rows } = await this.#query(this.#parts.textFor(TRANSACTIONS.hold.text), values)
    return rows.length === held.length
  }

  /** Commits the transaction if `isWanted` is true, and rolls it back otherwise. Returns true if it committed. */
  async #end(isWanted: boolean): Promise<boolean> {
    this.#isOpen = false
    const { command } = await this.#query(isWanted ? 'COMMIT' : 'ROLLBACK')
    this.#isReusable = true
    // PostgreSQL answers the COMMIT of an aborted transaction with ROLLBACK.
    if (isWanted && command !== 'COMMIT') throw transactionAborted(this.#firstError)
    return isWanted
  }

  async #rollback(): Promise<void> {
    this.#isOpen = false
    this.#isReusable = await this.#query('ROLLBACK').then(
      () => true,
      () => false,
    )
  }

  async #currentId(): Promise<unknown> {
    return (await this.#query(TRANSACTIONS.currentId.text)).rows[0]?.[0]
  }

  #query(text: string, values: readonly unknown[] = []): Promise<Answer> {
    const { types, inTime } = this.#parts
    const statement = { text, values: [...values], rowMode: 'array' as const, types: types as never }
    return inTime(this.#client.query(statement)) as Promise<Answer>
  }

  /**
   * Returns the client for the handler. Its `query` rejects statements that would end the transaction. Its `release`
   * and `end` do nothing, so that the handler cannot end the connection.
   */
  #guardedClient(): Tx {
    const query = (...args: unknown[]) => this.#handlerQuery(args)
    return new Proxy(this.#client, {
      get(target, name) {
        if (name === 'query') return query
        if (name === 'release' || name === 'end') return () => {}
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    }) as unknown as Tx
  }

  /**
   * The `query` of the guarded client. It accepts all forms of arguments that pg accepts: text or object, promise or
   * callback.
   */
  #handlerQuery(args: readonly unknown[]): Promise<unknown> {
    const [first] = args
    const text = typeof first === 'object' ? (first as { text?: unknown } | null)?.text : first
    const refusal = this.#refusalOf(text)
    const callback = args.at(-1)
    if (refusal !== null) {
      if (typeof callback !== 'function') return Promise.reject(refusal)
      callback(refusal)
      return Promise.resolve()
    }
    const answer: unknown = (this.#client.query as (...any: unknown[]) => unknown).apply(this.#client, [
      ...args,
    ])
    if (answer instanceof Promise)
      answer.catch((error: unknown) => {
        this.#firstError ??= error
      })
    return answer as Promise<unknown>
  }

  #refusalOf(text: unknown): TocsinError | null {
    if (!this.#isOpen) return badTx('the transaction of this handler is over; await what it writes')
    if (typeof text === 'string' && TRANSACTION_CONTROL.test(text))
      return badTx(
        'a handler must not send BEGIN, COMMIT or ROLLBACK: its transaction commits when the handler returns, and is rolled back when it throws. Savepoints are allowed',
      )
    return null
  }
}

function transactionAborted(cause: unknown): TocsinError {
  return new TocsinError(
    'ledger-refused',
    `a statement of the handler failed (${describeError(cause)}); the handler caught the error, but PostgreSQL has rolled back the whole transaction. Set a savepoint before a statement that may fail`,
    {},
    cause,
  )
}
