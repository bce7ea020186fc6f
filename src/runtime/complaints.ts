import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { ClaimedTask } from '../timetable.ts'

/** At most one line per this long: a service that is away must not fill the disk. */
const QUIET_MS = 1_000

/** Says aloud that attempts fail, the first one at once and with its stack, and how many more there were. */
export class Complaints {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #topic: string
  #nextMs = Number.NEGATIVE_INFINITY
  #unsaid = 0

  constructor(clock: Clock, logger: Logger, topic: string) {
    this.#clock = clock
    this.#logger = logger
    this.#topic = topic
  }

  hear(
    { key, failures }: ClaimedTask,
    { error, stack }: { readonly error: string; readonly stack?: string | undefined },
  ): void {
    const nowMs = this.#clock.monotonicNow()
    if (nowMs < this.#nextMs) {
      this.#unsaid++
      return
    }
    const fields = { topic: this.#topic, key, attempt: failures + 1, error, stack, alsoFailed: this.#unsaid }
    this.#logger.warn(fields, 'an attempt failed; the task will be tried again or is dead')
    this.#nextMs = nowMs + QUIET_MS
    this.#unsaid = 0
  }
}
