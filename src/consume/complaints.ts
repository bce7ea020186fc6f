import type { Clock } from '../clock.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { ClaimedTask } from '../timetable.ts'
import { LogLimiter } from '../lib/log-limiter.ts'

/** Says aloud that attempts fail, the first one at once and with its stack, and how many more there were. */
export class Complaints {
  readonly #logLimiter: LogLimiter
  readonly #logger: Logger
  readonly #topic: string

  constructor(clock: Clock, logger: Logger, topic: string) {
    this.#logLimiter = new LogLimiter(clock)
    this.#logger = logger
    this.#topic = topic
  }

  hear(
    { key, failures }: ClaimedTask,
    { error, stack }: { readonly error: string; readonly stack?: string | undefined },
  ): void {
    const alsoFailed = this.#logLimiter.tell()
    if (alsoFailed === null) return
    const fields = { topic: this.#topic, key, attempt: failures + 1, error, stack, alsoFailed }
    this.#logger.warn(fields, 'an attempt failed; the task will be tried again or is dead')
  }
}
