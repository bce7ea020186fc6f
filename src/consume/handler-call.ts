import { TocsinError } from '../errors.ts'
import type { HeapMember } from '../lib/heap.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { HandlerTx, Tx } from '../values/tx.ts'
import type { HeldTask } from './held.ts'

export type AbortCode = 'timeout' | 'closed' | 'cancelled' | 'lease-lost'

const ABORT_MESSAGES: Record<AbortCode, string> = {
  timeout: 'the handler ran longer than the topic allows; the attempt counts as a failure',
  closed: 'the consumer was stopped; the task will be delivered to another consumer',
  cancelled: 'the task was cancelled; no attempt follows this one',
  'lease-lost': "the lease is lost; this handler's outcome will not be recorded",
}

export interface Context {
  /**
   * Aborts if the handler timed out, if the consumer was stopped, or if every task of the call was cancelled, was
   * replaced or lost its lease. `signal.reason.code` tells which; a replaced task counts as 'lease-lost'.
   */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** Set if the consumer has `transaction: true`. Writes through `tx` commit together with the outcome. */
  readonly tx?: Tx
}

/** The context of a handler with `transaction: true`. */
export interface TransactionContext extends Context {
  readonly tx: HandlerTx
}

/** One call of a handler or a guard, with its tasks, its timeout and its abort signal. */
export class HandlerCall implements HeapMember {
  readonly key: string
  readonly tasks: readonly HeldTask[]
  /** How many of the consumer's permits the call takes. A permit is the right to one concurrent handler call. */
  readonly permits: number
  readonly timeoutMs: number
  readonly context: Context
  position = -1
  #isAbandoned = false
  #onAbandon: (() => void) | null = null
  #controller: AbortController | null = null
  #abortedAs: AbortCode | null = null

  constructor(tasks: readonly HeldTask[], permits: number, timeoutMs: number, logger: Logger) {
    this.key = tasks[0]?.entry.key ?? ''
    this.tasks = tasks
    this.permits = permits
    this.timeoutMs = timeoutMs
    this.context = new LazyContext(this, logger)
    for (const task of tasks) task.call = this
  }

  /**
   * The abort signal of the call. It is created on first use: most handlers never read it, and an AbortController costs
   * more than a short handler.
   */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#abortedAs !== null) this.#controller.abort(reason(this.#abortedAs))
    }
    return this.#controller.signal
  }

  /** Returns the context for a handler that runs inside `tx`. */
  within(tx: Tx): Context {
    return new LazyContext(this, this.context.logger, tx)
  }

  /** True once the consumer no longer waits for the handler. The permits of the call are then free again. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  abandon(): void {
    this.#isAbandoned = true
    this.#onAbandon?.()
  }

  /**
   * Resolves like `answer`, or with null once the call is abandoned, so that a hanging handler does not block the
   * consumer.
   */
  orAbandoned<T>(answer: Promise<T>): Promise<T | null> {
    if (this.#isAbandoned) return Promise.resolve(null)
    const abandoned = new Promise<null>((resolve) => {
      this.#onAbandon = () => resolve(null)
    })
    return Promise.race([answer, abandoned])
  }

  abort(code: AbortCode): void {
    if (this.#abortedAs !== null) return
    this.#abortedAs = code
    this.#controller?.abort(reason(code))
  }

  /**
   * Marks one task of the call as cancelled, replaced or lost. Aborts the signal when all tasks of the call are marked
   * or have their outcome.
   */
  fence(task: HeldTask, code: AbortCode): void {
    task.isFenced = true
    if (this.tasks.every((other) => other.isFenced || other.isEnded)) this.abort(code)
  }
}

class LazyContext implements Context {
  readonly #call: HandlerCall
  readonly logger: Logger
  declare readonly tx?: Tx

  constructor(call: HandlerCall, logger: Logger, tx?: Tx) {
    this.#call = call
    this.logger = logger
    if (tx !== undefined) this.tx = tx
  }

  get signal(): AbortSignal {
    return this.#call.signal
  }
}

function reason(code: AbortCode): TocsinError {
  return new TocsinError(code, ABORT_MESSAGES[code])
}
