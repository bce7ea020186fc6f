import type { Clock } from '../clock.ts'

/** Our clock may run faster than the server's: NTP may slew each of them by half a millisecond per second. */
const SLOWEST = 1 - 1e-3

/**
 * An estimate of a server's clock: the time in its last answer, plus the time since then by our monotonic clock. The wall
 * clock of this machine is not used. The estimate lags by the latency of the answer and never leads, so that nothing decided
 * by it is early by the server's clock. Where the server can decide by its own clock, it does.
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

  /** Time since the last answer. */
  ageMs(): number {
    return this.#clock.monotonicNow() - this.#atMs
  }

  /** The best estimate, which may lead: for records and display only, not for decisions. */
  about(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.ageMs()))
  }

  now(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.ageMs() * SLOWEST))
  }
}
