/**
 * Holds a topic to its rate: a bucket that fills by `limit` per `perMs` and never holds more than one span's worth.
 * Tasks wait in the timetable, where they cost nothing, not here.
 */
export class Governor {
  #tokens = 0
  #filledMs = Number.NEGATIVE_INFINITY
  #rate: { readonly limit: number; readonly perMs: number } | null = null

  /** How many of `wanted` may go now. */
  take(wanted: number, rate: { limit: number; perMs: number } | null, nowMs: number): number {
    this.#fill(rate, nowMs)
    if (rate === null) return wanted
    const granted = Math.min(wanted, Math.floor(this.#tokens))
    this.#tokens -= granted
    return granted
  }

  giveBack(unused: number): void {
    this.#tokens += unused
  }

  /** Monotonic moment at which the next one may go; 0 when there is no waiting. */
  nextMs(nowMs: number): number {
    if (this.#rate === null || this.#tokens >= 1) return 0
    return nowMs + ((1 - this.#tokens) * this.#rate.perMs) / this.#rate.limit
  }

  #fill(rate: { limit: number; perMs: number } | null, nowMs: number): void {
    const changed = rate?.limit !== this.#rate?.limit || rate?.perMs !== this.#rate?.perMs
    this.#rate = rate
    if (rate === null) return
    // A new rate starts with an empty span behind it and a full one ahead, as if nothing had been sent lately.
    const earned = changed ? rate.limit : ((nowMs - this.#filledMs) * rate.limit) / rate.perMs
    this.#tokens = Math.min(rate.limit, (changed ? 0 : this.#tokens) + earned)
    this.#filledMs = nowMs
  }
}
