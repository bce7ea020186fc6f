const WINDOW_MS = 20
const WINDOW_TASKS = 16
const WEIGHT_OF_NEWEST = 0.3

/** A virtual clock stands still while tasks end. No consumer finishes more than a task per microsecond. */
const PER_MS_MAX = 1_000

/**
 * Measures how many tasks per millisecond a consumer can finish, as a moving average over short windows. Only the time
 * in which the consumer has work counts. So the rate is known a few milliseconds after a burst begins, while the consumer
 * still waits for its first claims most of the time.
 *
 *      begin          add  add       end        begin     add       end
 *        ├──────work─────────────────┤   idle     ├───work────────────┤
 *        └── a window ends after WINDOW_MS of work, or when the work ends and it has WINDOW_TASKS tasks
 */
export class RateMeter {
  #perMs = 0
  #count = 0
  /** The time with work in this window, without the work that has not ended. */
  #workedMs = 0
  /** When the work began, or the window, if that was later; null if there is no work. */
  #sinceMs: number | null = null

  /** The consumer has work again. */
  begin(nowMs: number): void {
    this.#sinceMs = nowMs
  }

  /** The consumer has no work any more. */
  end(nowMs: number): void {
    this.#stop(nowMs)
    // Tasks of one claim may all end at the same time. So a window with few of them ends only together with the work.
    if (this.#count >= WINDOW_TASKS) this.#measure()
  }

  /** The consumer has finished tasks. */
  add(count: number, nowMs: number): void {
    this.#count += count
    if (this.#sinceMs === null || this.#workedMs + nowMs - this.#sinceMs < WINDOW_MS) return
    this.#stop(nowMs)
    this.#sinceMs = nowMs
    this.#measure()
  }

  get perMs(): number {
    return this.#perMs
  }

  #stop(nowMs: number): void {
    if (this.#sinceMs !== null) this.#workedMs += nowMs - this.#sinceMs
    this.#sinceMs = null
  }

  #measure(): void {
    const newest = Math.min(PER_MS_MAX, this.#count / this.#workedMs)
    this.#perMs = this.#perMs === 0 ? newest : this.#perMs + WEIGHT_OF_NEWEST * (newest - this.#perMs)
    this.#count = 0
    this.#workedMs = 0
  }
}
