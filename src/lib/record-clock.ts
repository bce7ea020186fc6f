import type { Clock } from '../clock.ts'

/**
 * Elapsed time is multiplied by this factor, because our clock may run faster than the server's clock: NTP may slew
 * each of the two clocks by half a millisecond per second.
 */
const SLOWEST = 1 - 1e-3

/**
 * Estimates the time of a server: the time in the server's last answer, plus the time since that answer by our
 * monotonic clock. The wall clock of this machine is not used. `now` is behind the server's clock by the latency of the
 * answer, and never ahead. So a decision by `now` may be late, but never early.
 */
export class RecordClock {
  readonly #clock: Clock
  #heardMs = 0
  #atMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  heard(recordMs: number): void {
    this.#heardMs = recordMs
    this.#atMs = this.#clock.monotonicNow()
  }

  /** Returns the time since the last answer. */
  ageMs(): number {
    return this.#clock.monotonicNow() - this.#atMs
  }

  /** Returns the best estimate. It may be ahead of the server: use it for records and display, not for decisions. */
  about(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.ageMs()))
  }

  now(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.ageMs() * SLOWEST))
  }

  /** Returns the server's time at a deadline of our monotonic clock. Like `now`, it may be early, and is never late. */
  at(deadlineMs: number): number {
    return this.now() + Math.floor(deadlineMs - this.#clock.monotonicNow())
  }
}
