import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import { Periodic } from '../lib/periodic.ts'

const STEP_MS = 60_000
/** How long dead tasks are kept. */
const DEAD_MS = 30 * 24 * 3_600_000
/** The maximum number of dead tasks per topic. */
const DEAD_MAX = 1_000_000

/**
 * Keeps the ledger small. Every minute, it deletes ended tasks whose retention time is over, and dead tasks that are
 * too old or too many. It deletes in small batches, and lets the event loop turn after each batch.
 */
export class Janitor {
  readonly #ledger: Ledger
  readonly #clock: Clock
  readonly #retentionMs: (topic: string) => number
  readonly #onDeadDropped: (topic: string, count: number) => void
  readonly #periodic: Periodic

  constructor(
    ledger: Ledger,
    clock: Clock,
    retentionMs: (topic: string) => number,
    onDeadDropped: (topic: string, count: number) => void,
    onError: (error: unknown) => void,
  ) {
    this.#ledger = ledger
    this.#clock = clock
    this.#retentionMs = retentionMs
    this.#onDeadDropped = onDeadDropped
    this.#periodic = new Periodic(clock, STEP_MS, () => this.step(), onError)
  }

  start(): void {
    this.#periodic.start('later')
  }

  stop(): Promise<void> {
    return this.#periodic.stop()
  }

  /** Cleans up all topics once. Returns the number of deleted tasks. */
  async step(): Promise<number> {
    let forgotten = 0
    for (const topic of await this.#ledger.topics()) forgotten += await this.#tidy(topic)
    return forgotten
  }

  async #tidy(topic: string): Promise<number> {
    let forgotten = 0
    let dropped = 0
    for (;;) {
      const nowMs = await this.#ledger.nowMs()
      const { ended, dead } = await this.#ledger.forget(topic, {
        endedBeforeMs: nowMs - this.#retentionMs(topic),
        deadBeforeMs: nowMs - DEAD_MS,
        deadMax: DEAD_MAX,
        limit: BATCH_MAX,
      })
      forgotten += ended + dead
      dropped += dead
      if (ended + dead < BATCH_MAX || this.#periodic.isStopped) break
      await this.#clock.turn()
    }
    if (dropped > 0) this.#onDeadDropped(topic, dropped)
    return forgotten
  }
}
