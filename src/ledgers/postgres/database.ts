import type { Pool, PoolClient } from 'pg'
import { type Clock, withDeadline } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { RecordClock } from '../../lib/record-clock.ts'
import { isLockTimeout, isRetryable, toTocsinError } from './driver-errors.ts'
import { asStep } from './prepared-steps.ts'
import type { StatementRunner } from './statement-runner.ts'

/** A statement that was rolled back by a deadlock or a serialization failure is sent at most this many times. */
const TRIES = 3

/**
 * How long a batch waits for row locks of other transactions. Then it is split, so that only the tasks that are locked
 * wait for longer.
 */
const BATCH_LOCK_TIMEOUT_MS = 100

/** Part of a call's time that is kept for the answer to come back: the lock timeout ends this long before the deadline. */
const ANSWER_MS = 50

/** Type OID of bigint. */
const INT8 = 20

export interface StatementCall {
  /** For messages: 'schedule', 'claim', … */
  readonly doing: string
  /** On the monotonic clock. */
  readonly deadlineMs: number
  /** A second time changes nothing. */
  readonly isRepeatable: boolean
  /** Waits for row locks until the deadline, instead of for BATCH_LOCK_TIMEOUT_MS. */
  readonly isPatient?: boolean
}

/** How values are parsed. */
export interface TypeParsers {
  getTypeParser(oid: number, format?: 'text' | 'binary'): (text: string) => unknown
}

/**
 * A pool of connections on which every call has a deadline. When a deadline passes, the connection is destroyed: a late
 * answer on it must not be taken for the answer to the next statement.
 */
export class Database {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  readonly #notifyWithinMs: number
  readonly types: TypeParsers
  /** For messages: host, port and database. */
  readonly where: string
  readonly recordClock: RecordClock
  #hasSteps = false

  constructor(
    pool: Pool,
    types: TypeParsers,
    clock: Clock,
    { callTimeoutMs, notifyWithinMs }: { readonly callTimeoutMs: number; readonly notifyWithinMs: number },
    where: string,
  ) {
    this.#notifyWithinMs = notifyWithinMs
    this.#pool = pool
    this.#clock = clock
    this.#callTimeoutMs = callTimeoutMs
    this.types = {
      // Every bigint of the ledger is an instant or a counter, and fits a number.
      getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)),
    }
    this.where = where
    this.recordClock = new RecordClock(clock)
  }

  /** Deadline of a call that starts now. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }

  /** Runs the statements of one call. */
  runner(call: StatementCall): StatementRunner {
    const leftMs = call.deadlineMs - this.#clock.monotonicNow() - ANSWER_MS
    const lockTimeoutMs = call.isPatient === true ? leftMs : Math.min(leftMs, BATCH_LOCK_TIMEOUT_MS)
    return {
      // At least 1: for PostgreSQL, 0 means no limit.
      lockTimeoutMs: Math.max(1, Math.floor(lockTimeoutMs)),
      transactionId: null,
      notifyWithinMs: this.#notifyWithinMs,
      query: (text, values) => this.query(text, values, call),
    }
  }

  /** From now on, calls the functions of prepared-steps.ts: they exist in the database. */
  useSteps(): void {
    this.#hasSteps = true
  }

  /** Returns the text to send for a statement: a call of its function, if there is one. */
  textFor(text: string): string {
    return this.#hasSteps ? asStep(text) : text
  }

  /** Runs one repeatable statement, with the whole call timeout. */
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
        if (!isRetryable(error) || tries === TRIES) throw this.#errorOf(error, call, true)
      }
    }
  }

  /** Runs several statements on one connection, which always goes back to the pool. */
  async session<T>(work: (client: PoolClient) => Promise<T>, call: StatementCall): Promise<T> {
    try {
      return await this.#within(call, work)
    } catch (error) {
      throw this.#errorOf(error, call, true)
    }
  }

  async #within<T>(call: StatementCall, work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#connect(call)
    let isReusable = false
    // A connection that breaks between two statements emits an event, which would end the process if it had no listener.
    const onError = () => {}
    client.on('error', onError)
    try {
      const leftMs = Math.max(0, call.deadlineMs - this.#clock.monotonicNow())
      const late = () => new Error('no answer in time')
      const result = await withDeadline(this.#clock, leftMs, work(client), late)
      isReusable = true
      return result
    } catch (error) {
      // An error of the statement itself leaves the connection usable.
      isReusable = isStatementError(error)
      throw isReusable ? error : this.#errorOf(error, call, true)
    } finally {
      client.off('error', onError)
      client.release(isReusable ? undefined : true)
      if (!isReusable) destroy(client)
    }
  }

  async #connect(call: StatementCall): Promise<PoolClient> {
    const leftMs = call.deadlineMs - this.#clock.monotonicNow()
    if (leftMs <= 0) throw this.#errorOf(new Error('the deadline has passed'), call, false)
    let isTooLate = false
    const connecting = this.#pool.connect()
    // A connection that comes after the deadline goes back to the pool.
    connecting.then((client) => isTooLate && client.release()).catch(() => {})
    try {
      return await withDeadline(this.#clock, leftMs, connecting, () => new Error('no connection in time'))
    } catch (error) {
      isTooLate = true
      throw this.#errorOf(error, call, false)
    }
  }

  #errorOf(error: unknown, { doing, isRepeatable }: StatementCall, isSent: boolean): unknown {
    // The caller checks for these itself.
    if (!TocsinError.is(error) && isSent && (isRetryable(error) || isLockTimeout(error))) return error
    return toTocsinError(error, this.where, doing, isRepeatable, isSent)
  }
}

function isStatementError(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown }
  return typeof code === 'string' && severity === 'ERROR'
}

/** Closes the socket at once. An orderly end would wait for an answer, for ever if the server is silent. */
function destroy(client: PoolClient): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy?: () => void } } }
  connection?.stream?.destroy?.()
}
