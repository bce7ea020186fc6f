import type { Clock } from '../../clock.ts'
import type { Topics } from './topics.ts'

/** How often a process asks whether processes of an earlier version are still alive. */
const ASK_MS = 5_000

/**
 * Decides how ended tasks are kept: not at all, as a row each, or as batches.
 *
 * A process of an earlier version reads no batches: it would not find tasks that ended, and its audit would miss them. It
 * cannot open the ledger any more, but it may be open since before the migration, during a rolling restart. So no process
 * writes batches until all nodes on the board read them. A process that was taken for dead, and comes back, only reads too
 * little: it loses no task.
 */
export class History {
  readonly #clock: Clock
  readonly #topics: Topics
  readonly #batchMin: number
  readonly #askBoard: () => Promise<boolean>
  #areBatchesRead = false
  #askedMs = Number.NEGATIVE_INFINITY

  /** `askBoard` returns whether all nodes on the board read batches. The board may be in another database. */
  constructor(clock: Clock, topics: Topics, batchMin: number, askBoard: () => Promise<boolean>) {
    this.#clock = clock
    this.#askBoard = askBoard
    this.#topics = topics
    this.#batchMin = batchMin
  }

  keepsEnded(topic: string): boolean {
    return this.#topics.keepsEnded(topic)
  }

  /** Returns the smallest number of tasks that are kept as a batch, or null if there may be no batches yet. */
  batchMin(): number | null {
    if (this.#areBatchesRead) return this.#batchMin
    if (this.#clock.monotonicNow() - this.#askedMs >= ASK_MS) void this.ask().catch(() => {})
    return null
  }

  /** Finds out whether all live processes read batches. */
  async ask(): Promise<void> {
    this.#askedMs = this.#clock.monotonicNow()
    if (await this.#askBoard()) this.#areBatchesRead = true
  }
}
