import type { Clock } from '../clock.ts'
import { Heap } from '../heap.ts'
import type { Logger } from '../logger.ts'
import { Alarm } from './alarm.ts'
import { Call } from './call.ts'
import type { HeldTask } from './held.ts'
import type { Room } from './room.ts'

/** The handlers that run right now, and until when each may. */
export class Calls {
  readonly #clock: Clock
  readonly #room: Room
  readonly #logger: Logger
  readonly #timeoutMs: () => number
  readonly #onTimeout: (tasks: readonly HeldTask[], timeoutMs: number) => void
  readonly #running = new Heap<Call>()
  readonly #alarm: Alarm

  constructor(
    clock: Clock,
    room: Room,
    logger: Logger,
    timeoutMs: () => number,
    onTimeout: (tasks: readonly HeldTask[], timeoutMs: number) => void,
  ) {
    this.#clock = clock
    this.#room = room
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
    this.#room.occupy(places)
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
    this.#room.vacate(call.places)
    // A guard or a schema has no place of its own, and is not what the rate of work is measured by.
    if (call.places > 0) this.#room.finished(call.tasks.length)
  }
}
