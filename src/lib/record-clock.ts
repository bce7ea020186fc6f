import type { Clock } from '../clock.ts'

/** Our clock may run faster than the server's: each may be slewed by as much as half a millisecond in a second. */
const SLOWEST = 1 - 1e-3

/**
 * What a server's clock says, as far as we have heard: its last answer, and the time since by our monotonic clock. It
 * lags by the way an answer takes, never leads; this machine's wall clock has no say. So what goes by it is never early
 * by the server's clock. Where a server can decide by its own clock, it does.
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

  /** How long ago it was heard. */
  ageMs(): number {
    return this.#clock.monotonicNow() - this.#atMs
  }

  /** The nearest guess: to be written down and shown, not to be gone by. */
  about(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.ageMs()))
  }

  now(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.ageMs() * SLOWEST))
  }
}
