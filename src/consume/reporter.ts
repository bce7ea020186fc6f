import type { Clock } from '../clock.ts'
import { LogLimiter } from '../lib/log-limiter.ts'
import type { DeadCause } from '../task.ts'
import type { Announcer } from '../telemetry/events.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Meter, SafetyNet } from '../telemetry/meter.ts'
import type { SettleOutcome } from '../timetable.ts'
import type { Settings } from '../values/config.ts'

export interface ReporterParts {
  readonly topic: string
  readonly clock: Clock
  readonly logger: Logger
  readonly announcer: Announcer
  readonly meter: Meter
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
}

/** The fields of a task that events and log lines contain. */
export interface ReportedTask {
  readonly key: string
  readonly id: string
  /** The number of failed attempts before the current one. */
  readonly failures: number
}

const POISON = 'its lease ran out three times in a row, the last time running alone'

/**
 * Reports what happens to the tasks of one topic as metrics, events and log lines. Consumers and HTTP pulls use this
 * class, so that their reports are the same.
 */
export class Reporter {
  readonly #parts: ReporterParts
  /**
   * Two log limiters, so that many failed attempts do not suppress log lines about failed store calls, or the reverse.
   */
  readonly #attemptLog: LogLimiter
  readonly #callLog: LogLimiter

  constructor(parts: ReporterParts) {
    this.#parts = parts
    this.#attemptLog = new LogLimiter(parts.clock)
    this.#callLog = new LogLimiter(parts.clock)
  }

  /** Counts a task that is handed to an HTTP client, or has passed the checks before its guard and handler. */
  fired(latenessMs: number): void {
    this.#parts.meter.fired(this.#parts.topic, Math.max(0, latenessMs))
  }

  /** Emits 'late' if `latenessMs`, the time since the task rang, is more than the topic's objective allows. */
  checkLateness({ key, id }: ReportedTask, latenessMs: number): void {
    const { announcer, settings, topic } = this.#parts
    const { objectiveP99Ms: objectiveMs } = settings()
    if (objectiveMs === null || latenessMs <= objectiveMs) return
    announcer.emit('late', { topic, key, id, latenessMs, objectiveMs })
  }

  /** Counts a recorded outcome. */
  settled(outcome: SettleOutcome): void {
    this.#parts.meter.settled(this.#parts.topic, outcome.kind)
  }

  /** Counts tasks that a safety net found. */
  caught(net: SafetyNet, count: number): void {
    if (count > 0) this.#parts.meter.caught(this.#parts.topic, net, count)
  }

  /** Emits 'dead' or 'retry' for a recorded outcome. Other outcomes have no event. */
  announce({ key, id, failures }: ReportedTask, outcome: SettleOutcome): void {
    if (outcome.kind === 'dead') this.#announceDeath(key, id, outcome.cause, outcome.error)
    if (outcome.kind !== 'retry') return
    const { announcer, topic } = this.#parts
    const { error, delayMs } = outcome
    announcer.emit('retry', { topic, key, id, attempt: failures + 1, error, retryInMs: delayMs })
  }

  /** Emits 'dead' for tasks that a claim found to be poison. A claim returns only the keys of these tasks. */
  poisoned(keys: readonly string[]): void {
    for (const key of keys) this.#announceDeath(key, null, 'poison', POISON)
  }

  /** Logs a failed attempt, with the stack of its error. */
  attemptFailed(
    { key, failures }: ReportedTask,
    { error, stack }: { readonly error: string; readonly stack?: string | undefined },
  ): void {
    const { topic, logger } = this.#parts
    this.#attemptLog.log((alsoFailed) => {
      const fields = { topic, key, attempt: failures + 1, error, stack, alsoFailed }
      logger.warn(fields, 'an attempt failed; the task will be tried again or is dead')
    })
  }

  /** Logs a failed call to the store and emits 'error'. `doing` names the call. */
  callFailed(doing: string, error: unknown): void {
    const { announcer, logger, topic } = this.#parts
    this.#callLog.log((alsoFailed) =>
      logger.error(
        { topic, doing, error, alsoFailed },
        'a call to the timetable failed; it will be tried again',
      ),
    )
    announcer.emit('error', { topic, doing, error })
  }

  #announceDeath(key: string, id: string | null, cause: DeadCause, error: string): void {
    const { announcer, topic, logger } = this.#parts
    logger.warn({ topic, key, cause, error }, 'a task is dead')
    announcer.emit('dead', { topic, key, id, cause, error })
  }
}
