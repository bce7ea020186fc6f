import type { Pool, PoolClient } from 'pg'
import { type Clock, withDeadline } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { RecordClock } from '../../lib/record-clock.ts'
import { asStep } from './prepared-steps.ts'
import { isLocked, isUndone, translated } from './driver-errors.ts'
import type { Speaker } from './writes.ts'

/** A statement that was undone because two waited for each other is tried again so often. */
const TRIES = 3

/** Batches wait for other people's locks for so long; then they are taken apart, and who is not concerned goes on. */
const BATCH_PATIENCE_MS = 100

/** Of a single call's time, what is left for the answer to come back. */
const ANSWER_MS = 50

const INT8 = 20

export interface StatementCall {
  /** For messages: 'schedule', 'claim', … */
  readonly doing: string
  /** Monotonic: after this nobody waits for it any more. */
  readonly deadlineMs: number
  /** A second time does nothing new. */
  readonly isRepeatable: boolean
  /** Waits for other people's locks as long as there is time; otherwise only for a moment. */
  readonly isPatient?: boolean
}

/** How values are read: 64-bit numbers of ours are instants and counters, and fit. */
export interface TypeParsers {
  getTypeParser(oid: number, format?: 'text' | 'binary'): (text: string) => unknown
}

/**
 * A pool of connections, every call with a deadline. When one passes, its connection is thrown away: what comes on it
 * later must not be taken for the answer to something else.
 */
export class Database {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  readonly #tellWithinMs: number
  readonly types: TypeParsers
  readonly where: string
  /** How a statement is said. */
  said: (text: string) => string = (text) => text
  readonly recordClock: RecordClock

  constructor(
    pool: Pool,
    types: TypeParsers,
    clock: Clock,
    { callTimeoutMs, tellWithinMs }: { readonly callTimeoutMs: number; readonly tellWithinMs: number },
    where: string,
  ) {
    this.#tellWithinMs = tellWithinMs
    this.#pool = pool
    this.#clock = clock
    this.#callTimeoutMs = callTimeoutMs
    this.types = {
      getTypeParser: (oid, format) => (oid === INT8 ? Number : types.getTypeParser(oid, format)),
    }
    this.where = where
    this.recordClock = new RecordClock(clock)
  }

  /** For a call that is made now. */
  deadlineMs(): number {
    return this.#clock.monotonicNow() + this.#callTimeoutMs
  }

  /** Statements of one call. */
  speaker(call: StatementCall): Speaker {
    const leftMs = call.deadlineMs - this.#clock.monotonicNow() - ANSWER_MS
    const patienceMs = call.isPatient === true ? leftMs : Math.min(leftMs, BATCH_PATIENCE_MS)
    return {
      terms: `${Math.max(1, Math.floor(patienceMs))}ms`,
      tellWithinMs: this.#tellWithinMs,
      query: (text, values) => this.query(text, values, call),
    }
  }

  /** From now on: they are in the database. */
  useSteps(): void {
    this.said = asStep
  }

  /** One statement that may be repeated, with all the time that a call has. */
  ask(doing: string, text: string, values: readonly unknown[] = []): Promise<unknown[][]> {
    return this.query(text, values, { doing, deadlineMs: this.deadlineMs(), isRepeatable: true })
  }

  async query(text: string, values: readonly unknown[], call: StatementCall): Promise<unknown[][]> {
    const statement = {
      text: this.said(text),
      values: [...values],
      rowMode: 'array' as const,
      types: this.types as never,
    }
    for (let tries = 1; ; tries++) {
      try {
        return await this.#within(call, async (client) => (await client.query(statement)).rows as unknown[][])
      } catch (error) {
        if (!isUndone(error) || tries === TRIES) throw this.#told(error, call, true)
      }
    }
  }

  /** Several statements on one connection, which is given back whatever happens. */
  async session<T>(work: (client: PoolClient) => Promise<T>, call: StatementCall): Promise<T> {
    try {
      return await this.#within(call, work)
    } catch (error) {
      throw this.#told(error, call, true)
    }
  }

  async #within<T>(call: StatementCall, work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#client(call)
    let isOver = false
    // A connection that breaks while nobody waits for an answer tells it by an event.
    const onError = () => {}
    client.on('error', onError)
    try {
      const leftMs = Math.max(0, call.deadlineMs - this.#clock.monotonicNow())
      const late = () => new Error('no answer in time')
      const result = await withDeadline(this.#clock, leftMs, work(client), late)
      isOver = true
      return result
    } catch (error) {
      // A statement's own error leaves the connection as good as before.
      isOver = isStatementError(error)
      throw isOver ? error : this.#told(error, call, true)
    } finally {
      client.off('error', onError)
      client.release(isOver ? undefined : true)
      if (!isOver) destroy(client)
    }
  }

  async #client(call: StatementCall): Promise<PoolClient> {
    const leftMs = call.deadlineMs - this.#clock.monotonicNow()
    if (leftMs <= 0) throw this.#told(new Error('its time was up'), call, false)
    let isTooLate = false
    const connecting = this.#pool.connect()
    // What comes when nobody waits any more goes back.
    connecting.then((client) => isTooLate && client.release()).catch(() => {})
    try {
      return await withDeadline(this.#clock, leftMs, connecting, () => new Error('no connection in time'))
    } catch (error) {
      isTooLate = true
      throw this.#told(error, call, false)
    }
  }

  #told(error: unknown, { doing, isRepeatable }: StatementCall, isSent: boolean): unknown {
    // Those that the caller looks at as they are.
    if (!TocsinError.is(error) && isSent && (isUndone(error) || isLocked(error))) return error
    return translated(error, this.where, doing, isRepeatable, isSent)
  }
}

function isStatementError(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: unknown; severity?: unknown }
  return typeof code === 'string' && severity === 'ERROR'
}

/** Its other end may be silent: whoever only says goodbye would wait for an answer for ever. */
function destroy(client: PoolClient): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy?: () => void } } }
  connection?.stream?.destroy?.()
}
