import type { Clock } from '../clock.ts'

/**
 * One timer for many deadlines. It rings no later than the earliest of them. Deadlines are not removed, so it may ring
 * early: the owner then checks what is due and sets the next deadline. A deadline that is set and met thousands of times
 * a second costs a comparison, not a timer.
 */
export class Alarm {
  readonly #clock: Clock
  readonly #ring: () => void
  #atMs = Number.POSITIVE_INFINITY
  #cancel: (() => void) | null = null

  constructor(clock: Clock, ring: () => void) {
    this.#clock = clock
    this.#ring = ring
  }

  /** Sets a deadline by the monotonic clock; Infinity sets none. */
  noLaterThan(atMs: number): void {
    if (atMs >= this.#atMs) return
    this.off()
    this.#atMs = atMs
    this.#cancel = this.#clock.after(Math.max(0, atMs - this.#clock.monotonicNow()), () => {
      this.#atMs = Number.POSITIVE_INFINITY
      this.#cancel = null
      this.#ring()
    })
  }

  off(): void {
    this.#cancel?.()
    this.#cancel = null
    this.#atMs = Number.POSITIVE_INFINITY
  }
}
