import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { ClaimedTask } from '../timetable.ts'
import { Sparing } from './sparing.ts'

/** Says aloud that attempts fail, the first one at once and with its stack, and how many more there were. */
export class Complaints {
  readonly #sparing: Sparing
  readonly #logger: Logger
  readonly #topic: string

  constructor(clock: Clock, logger: Logger, topic: string) {
    this.#sparing = new Sparing(clock)
    this.#logger = logger
    this.#topic = topic
  }

  hear(
    { key, failures }: ClaimedTask,
    { error, stack }: { readonly error: string; readonly stack?: string | undefined },
  ): void {
    const alsoFailed = this.#sparing.tell()
    if (alsoFailed === null) return
    const fields = { topic: this.#topic, key, attempt: failures + 1, error, stack, alsoFailed }
    this.#logger.warn(fields, 'an attempt failed; the task will be tried again or is dead')
  }
}
