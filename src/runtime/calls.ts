import type { Clock } from '../clock.ts'
import { Heap } from '../heap.ts'
import type { Logger } from '../logger.ts'
import type { Task } from '../task.ts'
import { Alarm } from './alarm.ts'
import { Call } from './call.ts'
import type { HeldTask } from './held.ts'
import type { Performer } from './performer.ts'
import type { Room } from './room.ts'
import type { Verdict } from './verdict.ts'

/** A task that passed the last look, with what its handler gets. */
export interface Admitted<Out> {
  readonly held: HeldTask
  readonly task: Task<Out>
}

/** The handlers that run right now, and until when each may. */
export class Calls<Out> {
  readonly #clock: Clock
  readonly #room: Room
  readonly #logger: Logger
  readonly #timeoutMs: () => number
  readonly #onTimeout: (call: Call, timeoutMs: number) => void
  readonly #running = new Heap<Call>()
  readonly #alarm: Alarm

  constructor(
    clock: Clock,
    room: Room,
    logger: Logger,
    timeoutMs: () => number,
    onTimeout: (call: Call, timeoutMs: number) => void,
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

  /** Null: nobody waited for the answer; the call's tasks were dealt with meanwhile. */
  async invoke(
    performer: Performer<Out>,
    admitted: readonly Admitted<Out>[],
    places: number,
  ): Promise<readonly Verdict[] | null> {
    const call = new Call(
      admitted.map(({ held }) => held),
      places,
      this.#logger,
    )
    this.#room.occupy(places)
    this.#running.push(call, this.#clock.monotonicNow() + this.#timeoutMs())
    this.#alarm.noLaterThan(this.#running.headScore())
    const verdicts = await performer(
      admitted.map(({ task }) => task),
      call.context,
    )
    if (call.abandoned) return null
    this.#end(call)
    return verdicts
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
      this.#onTimeout(call, this.#timeoutMs())
    }
    this.#alarm.noLaterThan(this.#running.headScore())
  }

  #abandon(call: Call): void {
    call.abandoned = true
    this.#end(call)
  }

  #end(call: Call): void {
    this.#running.remove(call)
    this.#room.vacate(call.places)
    this.#room.finished(call.tasks.length)
  }
}
