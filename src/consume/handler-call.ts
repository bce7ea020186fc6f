import { TocsinError } from '../errors.ts'
import type { HeapMember } from '../lib/heap.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { HandlerTx, Tx } from '../values/tx.ts'
import type { HeldTask } from './held.ts'

export type AbortCode = 'timeout' | 'closed' | 'cancelled' | 'lease-lost'

const ABORT_MESSAGES: Record<AbortCode, string> = {
  timeout: 'the handler ran longer than the topic allows; the attempt counts as a failure',
  closed: 'the consumer was stopped; the task will be given to somebody else',
  cancelled: 'the task was cancelled; no attempt follows this one',
  'lease-lost': 'the claim is not ours any more; what this handler answers will not count',
}

export interface Context {
  /** Aborts when the answer no longer counts; `signal.reason.code` says why. */
  readonly signal: AbortSignal
  readonly logger: Logger
  /** With a ledger and `transaction: true`: what is written through it commits together with the outcome. */
  readonly tx?: Tx
}

/** The context of a handler with `transaction: true`. */
export interface TransactionContext extends Context {
  readonly tx: HandlerTx
}

/** One call of a handler (or a guard): its tasks, its deadline, its signal. */
export class Call implements HeapMember {
  readonly key: string
  readonly tasks: readonly HeldTask[]
  /** How much of the consumer's concurrency it takes. */
  readonly places: number
  readonly timeoutMs: number
  readonly context: Context
  position = -1
  #abandoned = false
  #onAbandon: (() => void) | null = null
  #controller: AbortController | null = null
  #abortedAs: AbortCode | null = null

  constructor(tasks: readonly HeldTask[], places: number, timeoutMs: number, logger: Logger) {
    this.key = tasks[0]?.entry.key ?? ''
    this.tasks = tasks
    this.places = places
    this.timeoutMs = timeoutMs
    this.context = new LazyContext(this, logger)
    for (const task of tasks) task.call = this
  }

  /** Made when somebody asks for it: most handlers do not, and an AbortController costs more than a short handler. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#abortedAs !== null) this.#controller.abort(reason(this.#abortedAs))
    }
    return this.#controller.signal
  }

  /** The same for a handler whose writes and outcomes are one transaction. */
  within(tx: Tx): Context {
    return new LazyContext(this, this.context.logger, tx)
  }

  /** Nobody waits for its answer any more; its place is free. */
  get isAbandoned(): boolean {
    return this.#abandoned
  }

  abandon(): void {
    this.#abandoned = true
    this.#onAbandon?.()
  }

  /** What `answer` brings, or null once the call is abandoned: a handler that hangs must not hang us. */
  orAbandoned<T>(answer: Promise<T>): Promise<T | null> {
    if (this.#abandoned) return Promise.resolve(null)
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

  /** One task of the call is not ours any more. The others still are: only the last one takes the signal along. */
  fence(task: HeldTask, code: AbortCode): void {
    task.fenced = true
    if (this.tasks.every((other) => other.fenced || other.ended)) this.abort(code)
  }
}

class LazyContext implements Context {
  readonly #call: Call
  readonly logger: Logger
  declare readonly tx?: Tx

  constructor(call: Call, logger: Logger, tx?: Tx) {
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
