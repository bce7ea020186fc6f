import type { Clock } from '../../clock.ts'

/**
 * What Redis's clock says, as far as we have heard: its last answer, and the time since by our monotonic clock. It
 * lags by the way an answer takes, never leads; this machine's wall clock has no say. It decides nothing: due times
 * are decided by the scripts. It only says when a task was made, and how far away a ring is.
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

  now(): number {
    return this.#heardMs + Math.max(0, Math.floor(this.#clock.monotonicNow() - this.#atMs))
  }
}
