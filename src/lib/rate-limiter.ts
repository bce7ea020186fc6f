export interface Rate {
  readonly limit: number
  readonly perMs: number
}

/**
 * A sliding-window rate limiter: at most `limit` grants in any span of `perMs`. A grant expires one span after it was
 * made. The limiter has no queue: a caller that gets no grant tries again at the time that `nextMs` returns.
 */
export class RateLimiter {
  /** The grants of the last span, oldest first. */
  #grants: { atMs: number; count: number }[] = []
  #granted = 0

  /** Makes up to `wanted` grants, and returns how many it made. If `rate` is null, there is no limit. */
  take(wanted: number, rate: Rate | null, nowMs: number): number {
    if (rate === null) return wanted
    this.#forgetBefore(nowMs - rate.perMs)
    const count = Math.max(0, Math.min(wanted, rate.limit - this.#granted))
    if (count === 0) return 0
    this.#granted += count
    // Round the time up to a multiple of a thousandth of the span, so that there are at most about a thousand records.
    // Rounding up keeps a grant longer, so no span has more grants than the limit.
    const stepMs = rate.perMs / 1_000
    const atMs = Math.ceil(nowMs / stepMs) * stepMs
    const last = this.#grants.at(-1)
    if (last?.atMs === atMs) last.count += count
    else this.#grants.push({ atMs, count })
    return count
  }

  /** Takes back grants that were not used, the newest grants first. */
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

  /** Returns the monotonic time at which the next grant is possible; 0 if a grant is possible now. */
  nextMs(rate: Rate | null, nowMs: number): number {
    if (rate === null) return 0
    this.#forgetBefore(nowMs - rate.perMs)
    const oldest = this.#grants[0]
    return this.#granted < rate.limit || oldest === undefined ? 0 : oldest.atMs + rate.perMs
  }

  /** Removes the expired grants: those made at `ms` or earlier. */
  #forgetBefore(ms: number): void {
    const kept = this.#grants.findIndex(({ atMs }) => atMs > ms)
    const gone = this.#grants.splice(0, kept === -1 ? this.#grants.length : kept)
    for (const { count } of gone) this.#granted -= count
  }
}
