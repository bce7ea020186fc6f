import type { Clock } from '../clock.ts'

/** Minimum time between two log lines, so that the errors of an unavailable service do not fill the disk. */
const INTERVAL_MS = 1_000

/** Writes at most one log line per second, and counts the lines that it suppresses in between. */
export class LogLimiter {
  readonly #clock: Clock
  #nextMs = Number.NEGATIVE_INFINITY
  #suppressed = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls `write` with the number of lines suppressed since the last line, or suppresses this line too. */
  log(write: (suppressed: number) => void): void {
    const nowMs = this.#clock.monotonicNow()
    if (nowMs < this.#nextMs) {
      this.#suppressed++
      return
    }
    const suppressed = this.#suppressed
    this.#nextMs = nowMs + INTERVAL_MS
    this.#suppressed = 0
    write(suppressed)
  }
}
