import type { Clock } from '../clock.ts'
import type { Rate, RateLimiter } from '../lib/rate-limiter.ts'

/** A claimed task. `hasStart` is true while a start of the topic's rate is reserved for it. */
export interface RatedTask {
  hasStart: boolean
}

/** How many tasks a claim may take, and how many starts are reserved for them: none if the topic has no rate. */
export interface ReservedStarts {
  readonly limit: number
  readonly starts: number
}

/**
 * Holds a process to its part of a topic's rate. The rate limits the starts of handlers and the tasks handed out to
 * pulls, not the claims: between a claim and its start may lie a slow reply, a queue, a guard or a wait for a
 * connection. A start is reserved before the claim, so that a claimed task never waits for the rate. The reservation
 * ends with the start, or when the task gets an outcome without one.
 *
 *   reserve ──▶ claim ──▶ assign to the claimed tasks ──▶ start ──▶ handler called ──▶ started
 *                  └── release what was not used             └── or drop: no start
 */
export class StartRate {
  readonly #clock: Clock
  readonly #limiter: RateLimiter
  /** Returns this process's part of the topic's rate; null if the topic has no rate limit. */
  readonly #rate: () => Rate | null

  constructor(clock: Clock, limiter: RateLimiter, rate: () => Rate | null) {
    this.#clock = clock
    this.#limiter = limiter
    this.#rate = rate
  }

  get isLimited(): boolean {
    return this.#rate() !== null
  }

  /** Reserves the starts of a claim of up to `wanted` tasks. `limit` is 0 if the rate allows none now. */
  reserve(wanted: number): ReservedStarts {
    const rate = this.#rate()
    if (rate === null) return { limit: wanted, starts: 0 }
    const starts = this.#limiter.reserve(wanted, rate, this.#clock.monotonicNow())
    return { limit: starts, starts }
  }

  release(starts: number): void {
    this.#limiter.release(starts)
  }

  /**
   * Assigns reserved starts to the tasks of a claim. A repeated claim may return more tasks than were reserved for it
   * this time. The other tasks start only if the rate allows it when they start.
   */
  assign(tasks: readonly RatedTask[], starts: number): void {
    if (starts > 0) for (const task of tasks.slice(0, starts)) task.hasStart = true
  }

  /**
   * Called right before a task starts. Returns false if the task must not start now: the rate was lowered after the
   * claim, or no start was reserved for the task.
   */
  start(task: RatedTask): boolean {
    const rate = this.#rate()
    if (!task.hasStart) return rate === null || this.#limiter.take(1, rate, this.#clock.monotonicNow()) === 1
    task.hasStart = false
    return this.#limiter.start(rate, this.#clock.monotonicNow())
  }

  /**
   * Called right after `count` tasks were started. A start counts from this time on: the process may have been suspended
   * after the call of `start`.
   */
  started(count: number): void {
    const rate = this.#rate()
    if (rate !== null) this.#limiter.postpone(count, rate, this.#clock.monotonicNow())
  }

  /** Releases the start of a task that ends without being started. Does nothing if the task was started. */
  drop(task: RatedTask): void {
    if (!task.hasStart) return
    task.hasStart = false
    this.#limiter.release(1)
  }

  /**
   * Returns false if `reserve` cannot succeed before `atMs` unless a start is made or released. Tasks that wait for others
   * to be claimed use this: they hold starts themselves.
   */
  mayReserveBy(atMs: number): boolean {
    const rate = this.#rate()
    return rate === null || (this.#limiter.reserved < rate.limit && this.nextMs() <= atMs)
  }

  /** Returns the monotonic time at which `reserve` may succeed; a time in the past if it may succeed now. */
  nextMs(): number {
    return this.#limiter.nextMs(this.#rate(), this.#clock.monotonicNow())
  }
}
