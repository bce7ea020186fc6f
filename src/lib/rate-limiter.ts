/**
 * Holds a topic to its rate: in every span of `perMs`, however it is laid, at most `limit` tasks. What was granted
 * comes back exactly one span later. Tasks wait in the timetable, where they cost nothing, not here.
 */
export interface Rate {
  readonly limit: number
  readonly perMs: number
}

export class RateLimiter {
  /** Grants of the last span, oldest first. */
  #grants: { atMs: number; count: number }[] = []
  #granted = 0

  /** How many of `wanted` may go now. */
  take(wanted: number, rate: Rate | null, nowMs: number): number {
    if (rate === null) return wanted
    this.#forgetBefore(nowMs - rate.perMs)
    const count = Math.max(0, Math.min(wanted, rate.limit - this.#granted))
    if (count === 0) return 0
    this.#granted += count
    // In steps of a thousandth of the span, rounded later: at most a thousand records, and never too much too soon.
    const stepMs = rate.perMs / 1_000
    const atMs = Math.ceil(nowMs / stepMs) * stepMs
    const last = this.#grants.at(-1)
    if (last?.atMs === atMs) last.count += count
    else this.#grants.push({ atMs, count })
    return count
  }

  /** Some of what was granted lately was not needed after all. */
  giveBack(unused: number): void {
    let left = Math.min(unused, this.#granted)
    this.#granted -= left
    for (let last = this.#grants.at(-1); left > 0 && last !== undefined; last = this.#grants.at(-1)) {
      const taken = Math.min(left, last.count)
      last.count -= taken
      left -= taken
      if (last.count === 0) this.#grants.pop()
    }
  }

  /** Monotonic moment at which the next one may go; 0 when there is no waiting. */
  nextMs(rate: Rate | null, nowMs: number): number {
    if (rate === null) return 0
    this.#forgetBefore(nowMs - rate.perMs)
    const oldest = this.#grants[0]
    return this.#granted < rate.limit || oldest === undefined ? 0 : oldest.atMs + rate.perMs
  }

  /** A grant made exactly one span ago counts no more. */
  #forgetBefore(ms: number): void {
    const kept = this.#grants.findIndex(({ atMs }) => atMs > ms)
    const gone = this.#grants.splice(0, kept === -1 ? this.#grants.length : kept)
    for (const { count } of gone) this.#granted -= count
  }
}
