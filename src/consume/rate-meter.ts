const WINDOW_MS = 20
const WEIGHT_OF_NEWEST = 0.3

/** Measures how many tasks per millisecond a consumer finishes, as a moving average over short windows. */
export class RateMeter {
  #perMs = 0
  #count = 0
  #sinceMs: number

  constructor(nowMs: number) {
    this.#sinceMs = nowMs
  }

  add(count: number, nowMs: number): void {
    this.#count += count
    const elapsedMs = nowMs - this.#sinceMs
    if (elapsedMs < WINDOW_MS) return
    const newest = this.#count / elapsedMs
    this.#perMs = this.#perMs === 0 ? newest : this.#perMs + WEIGHT_OF_NEWEST * (newest - this.#perMs)
    this.#count = 0
    this.#sinceMs = nowMs
  }

  get perMs(): number {
    return this.#perMs
  }
}
