import { BATCH_BYTES_MAX } from '../lib/batch-max.ts'
import { byteSizeOf } from '../lib/byte-size.ts'
import type { Pulled } from './pulled-tasks.ts'

/** The size of payloads at which an answer is full. */
const ANSWER_BYTES_MAX = 4 * BATCH_BYTES_MAX

/** A client's call for up to `limit` tasks. It waits until tasks are due. */
export class PendingPull {
  readonly leaseMs: number
  readonly #limit: number
  readonly #answer: (tasks: Pulled[]) => void
  readonly #tasks: Pulled[] = []
  /** The size of the payloads of these tasks. */
  #bytes = 0
  /** The maximum number of tasks that claims under way may return. */
  #reserved = 0
  #claims = 0
  #isExpired = false
  #isClosed = false

  constructor(limit: number, leaseMs: number, answer: (tasks: Pulled[]) => void) {
    this.#limit = limit
    this.leaseMs = leaseMs
    this.#answer = answer
  }

  /** The number of tasks that may still be claimed for this pull. */
  get capacity(): number {
    if (this.#isClosed || this.#bytes >= ANSWER_BYTES_MAX) return 0
    return this.#limit - this.#tasks.length - this.#reserved
  }

  /** Returns the limit divided by the number of concurrent claims, but at least `least`. */
  share(claims: number, least: number): number {
    return Math.max(least, Math.ceil(this.#limit / claims))
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** True if the pull is open, has no task, and no claim for it is under way. Only such a pull can take a suspect. */
  get isEmpty(): boolean {
    return !this.#isClosed && this.#tasks.length === 0 && this.#claims === 0
  }

  /** True if the pull can be answered: it has tasks or its wait expired, and no claim for it is under way. */
  get isComplete(): boolean {
    return this.#claims === 0 && (this.#tasks.length > 0 || this.#isExpired)
  }

  /** Ends the wait. From now on the pull waits only for claims that are already under way. */
  expire(): void {
    this.#isExpired = true
  }

  /** Reserves `count` tasks for a claim that is sent now. */
  reserve(count: number): void {
    this.#reserved += count
    this.#claims++
  }

  /** Ends a reservation, and adds the tasks that the claim returned. */
  release(count: number, tasks: readonly Pulled[]): void {
    this.#reserved -= count
    this.#claims--
    for (const task of tasks) {
      this.#tasks.push(task)
      this.#bytes += byteSizeOf(task.entry.body)
    }
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#answer(this.#tasks)
  }
}
