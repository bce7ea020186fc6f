export interface Rate {
  readonly limit: number
  readonly perMs: number
}

/**
 * A sliding-window rate limiter: at most `limit` starts in any span of `perMs`. A start stops counting one span after it
 * was made. A start can be reserved: a reserved start counts until it is made or released, however long that takes, so
 * the span begins at the start itself and not at its reservation. The limiter has no queue: a caller that gets nothing
 * tries again at the time that `nextMs` returns.
 */
export class RateLimiter {
  /** The starts of the last span, oldest first. */
  readonly #starts: { readonly atMs: number; count: number }[] = []
  #started = 0
  #reserved = 0

  /** The number of starts that are reserved and not made. */
  get reserved(): number {
    return this.#reserved
  }

  /** Makes up to `wanted` starts at once, and returns how many it made. If `rate` is null, there is no limit. */
  take(wanted: number, rate: Rate | null, nowMs: number): number {
    if (rate === null) return wanted
    const count = this.#allowed(wanted, rate, nowMs)
    this.#record(count, rate, nowMs)
    return count
  }

  /** Reserves up to `wanted` starts, and returns how many it reserved. */
  reserve(wanted: number, rate: Rate, nowMs: number): number {
    const count = this.#allowed(wanted, rate, nowMs)
    this.#reserved += count
    return count
  }

  /** Ends reservations whose starts are not made. */
  release(count: number): void {
    this.#reserved -= count
  }

  /**
   * Ends one reservation and makes its start. Returns false, and makes no start, if the rate was lowered after the
   * reservation and allows no start now.
   */
  start(rate: Rate | null, nowMs: number): boolean {
    this.#reserved--
    if (rate === null) return true
    this.#forgetBefore(nowMs - rate.perMs)
    if (this.#started >= rate.limit) return false
    this.#record(1, rate, nowMs)
    return true
  }

  /**
   * Moves the newest `count` starts to `nowMs`. Called right after they were made: the process may have been suspended
   * between the call of `start` and the start itself.
   */
  postpone(count: number, rate: Rate, nowMs: number): void {
    let left = count
    for (let last = this.#starts.at(-1); last !== undefined && left > 0; last = this.#starts.at(-1)) {
      const moved = Math.min(left, last.count)
      left -= moved
      last.count -= moved
      if (last.count === 0) this.#starts.pop()
    }
    this.#started -= count - left
    this.#record(count - left, rate, nowMs)
  }

  /**
   * Returns the monotonic time at which the next start is possible; 0 if it is possible now. If reserved starts use up
   * the limit, this is the earliest time at which one of them stops counting, unless it is released before.
   */
  nextMs(rate: Rate | null, nowMs: number): number {
    if (rate === null) return 0
    this.#forgetBefore(nowMs - rate.perMs)
    if (this.#started + this.#reserved < rate.limit) return 0
    return (this.#starts[0]?.atMs ?? nowMs) + rate.perMs
  }

  #allowed(wanted: number, { limit, perMs }: Rate, nowMs: number): number {
    this.#forgetBefore(nowMs - perMs)
    return Math.max(0, Math.min(wanted, limit - this.#started - this.#reserved))
  }

  #record(count: number, { perMs }: Rate, nowMs: number): void {
    if (count === 0) return
    this.#started += count
    // Round the time up to a multiple of a thousandth of the span, so that there are at most about a thousand records.
    // Rounding up keeps a start longer, so no span has more starts than the limit.
    const stepMs = perMs / 1_000
    const atMs = Math.ceil(nowMs / stepMs) * stepMs
    const last = this.#starts.at(-1)
    if (last?.atMs === atMs) last.count += count
    else this.#starts.push({ atMs, count })
  }

  /** Forgets the starts that were made at `ms` or earlier. */
  #forgetBefore(ms: number): void {
    for (let first = this.#starts[0]; first !== undefined && first.atMs <= ms; first = this.#starts[0]) {
      this.#started -= first.count
      this.#starts.shift()
    }
  }
}
