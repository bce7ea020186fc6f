import type { Clock } from '../clock.ts'

/**
 * One timer for many deadlines. The alarm calls `ring` no later than the earliest deadline. Single deadlines cannot be
 * removed, so `ring` may be called early: then the caller checks what is due and sets the next deadline. Thousands of
 * deadlines per second cost a comparison each instead of a timer each.
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

  /** Sets a deadline, as a time of the monotonic clock. Infinity sets no deadline. */
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
