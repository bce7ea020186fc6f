import type { Clock } from '../clock.ts'
import { Alarm } from '../lib/alarm.ts'
import { Heap } from '../lib/heap.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Capacity } from './capacity.ts'
import { HandlerCall } from './handler-call.ts'
import type { HeldTask } from './held.ts'

/** The calls of handlers, guards and async schemas that run now, and their timeouts. */
export class HandlerCalls {
  readonly #clock: Clock
  readonly #capacity: Capacity
  readonly #logger: Logger
  readonly #timeoutMs: () => number
  readonly #onTimeout: (tasks: readonly HeldTask[], timeoutMs: number) => void
  readonly #running = new Heap<HandlerCall>()
  readonly #alarm: Alarm
  /** The number of tasks whose handlers answered before their timeout. */
  finishedCount = 0

  constructor(
    clock: Clock,
    capacity: Capacity,
    logger: Logger,
    timeoutMs: () => number,
    onTimeout: (tasks: readonly HeldTask[], timeoutMs: number) => void,
  ) {
    this.#clock = clock
    this.#capacity = capacity
    this.#logger = logger
    this.#timeoutMs = timeoutMs
    this.#onTimeout = onTimeout
    this.#alarm = new Alarm(clock, () => this.#expire())
  }

  get count(): number {
    return this.#running.size
  }

  /**
   * Opens a call and starts its timeout. For the call of a guard or a schema, `permits` is 0, because the worker itself
   * takes the permits of these tasks.
   */
  open(tasks: readonly HeldTask[], permits: number): HandlerCall {
    const call = new HandlerCall(tasks, permits, this.#timeoutMs(), this.#logger)
    this.#capacity.acquire(permits)
    this.#running.push(call, this.#clock.monotonicNow() + call.timeoutMs)
    this.#alarm.noLaterThan(this.#running.headScore())
    return call
  }

  /**
   * Ends a call whose handler answered, and returns true. Returns false if the call was abandoned before, after a
   * timeout or a stop: then its tasks already have their outcomes.
   */
  end(call: HandlerCall): boolean {
    if (call.isAbandoned) return false
    this.#close(call)
    if (call.permits > 0) this.finishedCount += call.tasks.length
    return true
  }

  /** Abandons every running call and returns these calls. Answers of their handlers are ignored. */
  abandonAll(): HandlerCall[] {
    const calls = [...this.#running.entries()].map(([call]) => call)
    for (const call of calls) this.#abandon(call)
    this.#alarm.off()
    return calls
  }

  #expire(): void {
    const nowMs = this.#clock.monotonicNow()
    while (this.#running.headScore() <= nowMs) {
      const call = this.#running.head() as HandlerCall
      this.#abandon(call)
      call.abort('timeout')
      this.#onTimeout(call.tasks, call.timeoutMs)
    }
    this.#alarm.noLaterThan(this.#running.headScore())
  }

  #abandon(call: HandlerCall): void {
    call.abandon()
    this.#close(call)
  }

  #close(call: HandlerCall): void {
    this.#running.remove(call)
    // Count finished tasks: their rate determines the prefetch. Calls of guards and schemas take no permits and do not
    // count.
    if (call.permits > 0) this.#capacity.finished(call.tasks.length)
    this.#capacity.release(call.permits)
  }
}
