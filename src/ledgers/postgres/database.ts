import type { Pool, PoolClient } from 'pg'
import { type Clock, sleepUntil, withDeadline } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { RecordClock } from '../../lib/record-clock.ts'
import type { CancelRequests } from './cancel-request.ts'
import {
  hasServerEnded,
  isLockTimeout,
  isRetryable,
  isTooLarge,
  toTocsinError,
  tooLateAt,
} from './driver-errors.ts'
import { asStep } from './prepared-steps.ts'
import type { Schema } from './schema.ts'
import type { StatementRunner } from './statement-runner.ts'

/** The maximum number of attempts for a statement that a deadlock or a serialization failure rolls back. */
const TRIES = 3

/**
 * How long a batch waits for row locks of other transactions. After this time the batch is split, so that only the
 * locked tasks wait for longer.
 */
const BATCH_LOCK_TIMEOUT_MS = 100

/** The lock timeout ends this long before the deadline of the call, so that the answer can still arrive in time. */
const ANSWER_MS = 50

/** The type OID of bigint. */
const INT8 = 20

export interface StatementCall {
  /** The name of the call in error messages: 'schedule', 'claim', … */
  readonly doing: string
  /** The deadline, as a time of the monotonic clock. */
  readonly deadlineMs: number
  /** True if the statement may be sent again after a lost answer, because the second run changes nothing. */
  readonly isRepeatable: boolean
  /**
   * True for the writes of users: the statement takes effect before the deadline, or never. If its answer is lost, the
   * caller gets the error at the deadline, and may then write the same key again.
   */
  readonly isExpiring?: boolean
  /** True if the statement waits for row locks until the deadline, instead of for BATCH_LOCK_TIMEOUT_MS. */
  readonly isPatient?: boolean
}

/** The parsers of the driver for the values of each PostgreSQL type. */
export interface TypeParsers {
  getTypeParser(oid: number, format?: 'text' | 'binary'): (text: string) => unknown
}

/**
 * A pool of connections on which every call has a deadline. When the deadline of a call passes, its connection is
 * destroyed. Otherwise a late answer could be taken for the answer to the next statement on that connection.
 */
export class Database {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  readonly #notifyWithinMs: number
  readonly #cancels: CancelRequests
  readonly types: TypeParsers
  readonly schema: Schema
  /** Host, port, database and schema, for error messages. */
  readonly where: string
  readonly recordClock: RecordClock
  #hasSteps = false

  constructor(
    pool: Pool,
    types: TypeParsers,
    clock: Clock,
    { callTimeoutMs, notifyWithinMs }: { readonly callTimeoutMs: number; readonly notifyWithinMs: number },
    { schema, where }: { readonly schema: Schema; readonly where: string },
    cancels: CancelRequests,
  ) {
    this.#cancels = cancels
    this.#notifyWithinMs = notifyWithinMs
    this.#pool = pool
    this.#clock = clock
    this.#callTimeoutMs = callTimeoutMs
    this.types = {
      // A bigint is parsed as a number. Every bigint of the ledger is an instant or a counter, and is small enough for
      // a number.
      getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)),
    }
    this.schema = schema
    this.where = where
    this.recordClock = new RecordClock(clock)
  }

  /** Returns the deadline of a call that starts now. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }

  /** Returns a runner for the statements of one call. */
  runner(call: StatementCall): StatementRunner {
    const leftMs = call.deadlineMs - this.#clock.monotonicNow() - ANSWER_MS
    const lockTimeoutMs = call.isPatient === true ? leftMs : Math.min(leftMs, BATCH_LOCK_TIMEOUT_MS)
    return {
      // At least 1, because PostgreSQL takes a lock_timeout of 0 as no limit.
      lockTimeoutMs: Math.max(1, Math.floor(lockTimeoutMs)),
      transactionId: null,
      notAfterMs: call.isExpiring === true ? this.recordClock.at(call.deadlineMs) : null,
      notifyWithinMs: this.#notifyWithinMs,
      query: (text, values) => this.query(text, values, call),
    }
  }

  /**
   * From now on, sends calls of the functions that prepared-steps.ts has stored in the database, instead of the
   * statements in these functions. Must be called only if the functions exist.
   */
  useSteps(): void {
    this.#hasSteps = true
  }

  /**
   * Returns the text to send for a statement, for the ledger's schema. If prepared-steps.ts has stored the statement as
   * a function in the database, and `useSteps` was called, the text is a call of that function. Otherwise it is the
   * statement itself.
   */
  textFor(text: string): string {
    return this.schema.sql(this.#hasSteps ? asStep(text) : text)
  }

  /** Runs one repeatable statement as a call of its own, with the full call timeout. */
  ask(doing: string, text: string, values: readonly unknown[] = []): Promise<unknown[][]> {
    return this.query(text, values, { doing, deadlineMs: this.deadlineMs(), isRepeatable: true })
  }

  async query(text: string, values: readonly unknown[], call: StatementCall): Promise<unknown[][]> {
    const statement = {
      text: this.textFor(text),
      values: [...values],
      rowMode: 'array' as const,
      types: this.types as never,
    }
    for (let tries = 1; ; tries++) {
      try {
        return await this.#within(call, async (client) => (await client.query(statement)).rows as unknown[][])
      } catch (error) {
        const atMs = tooLateAt(error)
        if (atMs !== null) this.recordClock.heard(atMs)
        if (!isRetryable(error) || tries === TRIES) throw this.#errorOf(error, call, true)
      }
    }
  }

  /**
   * Runs several statements on one connection. Then releases the connection, or destroys a connection that is no longer
   * usable.
   */
  async session<T>(work: (client: PoolClient) => Promise<T>, call: StatementCall): Promise<T> {
    try {
      return await this.#within(call, work)
    } catch (error) {
      throw this.#errorOf(error, call, true)
    }
  }

  async #within<T>(call: StatementCall, work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#connect(call)
    // A connection that breaks between two statements emits an 'error' event. Without a listener, the event would end
    // the process.
    const onError = () => {}
    client.on('error', onError)
    const takeBack = () => {
      client.off('error', onError)
      client.release()
    }
    try {
      const leftMs = Math.max(0, call.deadlineMs - this.#clock.monotonicNow())
      const late = () => new Error('no answer in time')
      const result = await withDeadline(this.#clock, leftMs, work(client), late)
      takeBack()
      return result
    } catch (error) {
      if (isStatementError(error)) {
        // The connection is still usable.
        takeBack()
        throw error
      }
      void this.#giveUp(client)
      // Without an answer, the server may still run the statement. Once the server has ended the connection, it cannot.
      if (call.isExpiring === true && !hasServerEnded(error)) await sleepUntil(this.#clock, call.deadlineMs)
      throw this.#errorOf(error, call, true)
    }
  }

  /** Asks the server to cancel the statement that runs on the connection, and destroys the connection. */
  async #giveUp(client: PoolClient): Promise<void> {
    // The connection stays until the server has the request: behind PgBouncer, the request finds the statement by it.
    await this.#cancels.send(client)
    client.release(true)
    destroy(client)
  }

  async #connect(call: StatementCall): Promise<PoolClient> {
    const leftMs = call.deadlineMs - this.#clock.monotonicNow()
    if (leftMs <= 0) throw this.#errorOf(new Error('the deadline has passed'), call, false)
    let isTooLate = false
    const connecting = this.#pool.connect()
    // If the pool provides the connection only after the deadline, the connection is released at once.
    connecting.then((client) => isTooLate && client.release()).catch(() => {})
    try {
      return await withDeadline(this.#clock, leftMs, connecting, () => new Error('no connection in time'))
    } catch (error) {
      isTooLate = true
      throw this.#errorOf(error, call, false)
    }
  }

  #errorOf(error: unknown, { doing, isRepeatable }: StatementCall, isSent: boolean): unknown {
    // Deadlocks, serialization failures, lock timeouts, claims that are too large and writes that came too late are
    // returned unchanged, so that the callers of this class can recognize them.
    if (
      !TocsinError.is(error) &&
      isSent &&
      (isRetryable(error) || isLockTimeout(error) || isTooLarge(error) || tooLateAt(error) !== null)
    )
      return error
    return toTocsinError(error, this.where, doing, isRepeatable, isSent)
  }
}

function isStatementError(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown }
  return typeof code === 'string' && severity === 'ERROR'
}

/** Closes the socket at once. A regular end of the connection would wait for the server, possibly for ever. */
function destroy(client: PoolClient): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy?: () => void } } }
  connection?.stream?.destroy?.()
}
