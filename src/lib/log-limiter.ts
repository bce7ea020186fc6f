import type { Clock } from '../clock.ts'

/** At most one line per this long: a service that is away must not fill the disk. */
const QUIET_MS = 1_000

/** Says when it is time to speak again, and how much was left unsaid since. */
export class LogLimiter {
  readonly #clock: Clock
  #nextMs = Number.NEGATIVE_INFINITY
  #unsaid = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many were not told since the last one that was; null: this one is not told either. */
  tell(): number | null {
    const nowMs = this.#clock.monotonicNow()
    if (nowMs < this.#nextMs) {
      this.#unsaid++
      return null
    }
    const unsaid = this.#unsaid
    this.#nextMs = nowMs + QUIET_MS
    this.#unsaid = 0
    return unsaid
  }
}
