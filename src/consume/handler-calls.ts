import type { Clock } from '../clock.ts'
import { Heap } from '../lib/heap.ts'
import type { Logger } from '../telemetry/logger.ts'
import { Alarm } from '../lib/alarm.ts'
import { Call } from './handler-call.ts'
import type { HeldTask } from './held.ts'
import type { Capacity } from './capacity.ts'

/** The handlers that run right now, and until when each may. */
export class Calls {
  readonly #clock: Clock
  readonly #capacity: Capacity
  readonly #logger: Logger
  readonly #timeoutMs: () => number
  readonly #onTimeout: (tasks: readonly HeldTask[], timeoutMs: number) => void
  readonly #running = new Heap<Call>()
  readonly #alarm: Alarm

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

  open(tasks: readonly HeldTask[], places: number): Call {
    const call = new Call(tasks, places, this.#timeoutMs(), this.#logger)
    this.#capacity.occupy(places)
    this.#running.push(call, this.#clock.monotonicNow() + call.timeoutMs)
    this.#alarm.noLaterThan(this.#running.headScore())
    return call
  }

  /** The handler answered. False: nobody waits for it any more, its tasks were dealt with meanwhile. */
  end(call: Call): boolean {
    if (call.isAbandoned) return false
    this.#close(call)
    return true
  }

  /** Takes every running call out of our hands; the answers will not be listened to. */
  abandonAll(): Call[] {
    const calls = [...this.#running.entries()].map(([call]) => call)
    for (const call of calls) this.#abandon(call)
    this.#alarm.off()
    return calls
  }

  #expire(): void {
    const nowMs = this.#clock.monotonicNow()
    while (this.#running.headScore() <= nowMs) {
      const call = this.#running.head() as Call
      this.#abandon(call)
      call.abort('timeout')
      this.#onTimeout(call.tasks, call.timeoutMs)
    }
    this.#alarm.noLaterThan(this.#running.headScore())
  }

  #abandon(call: Call): void {
    call.abandon()
    this.#close(call)
  }

  #close(call: Call): void {
    this.#running.remove(call)
    this.#capacity.vacate(call.places)
    // A guard or a schema has no place of its own, and is not what the rate of work is measured by.
    if (call.places > 0) this.#capacity.finished(call.tasks.length)
  }
}
