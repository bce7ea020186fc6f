import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Frontier, HintTable } from '../hint-table.ts'
import type { Filler } from './loader.ts'
import { Periodic } from '../lib/periodic.ts'

/** A task that is later than this, and that the timetable does not have, has been lost on the way. */
const GRACE_MS = 2_000
const STEP_MS = 1_000
/** One step looks at no more than this many pages: what is left is seen a second later. */
const PAGES_MAX = 100

/**
 * The safety net: what is overdue in the ledger, and neither waits in the timetable nor is claimed, is put there again.
 * In a healthy run it finds nothing.
 */
export class Sweeper {
  readonly #topic: string
  readonly #ledger: Ledger
  readonly #table: HintTable
  readonly #clock: Clock
  readonly #loader: Filler
  readonly #onRescue: (count: number) => void
  readonly #periodic: Periodic

  constructor(
    topic: string,
    ledger: Ledger,
    table: HintTable,
    clock: Clock,
    loader: Filler,
    onRescue: (count: number) => void,
    onError: (error: unknown) => void,
  ) {
    this.#topic = topic
    this.#ledger = ledger
    this.#table = table
    this.#clock = clock
    this.#loader = loader
    this.#onRescue = onRescue
    this.#periodic = new Periodic(clock, STEP_MS, () => this.step(), onError)
  }

  start(): void {
    this.#periodic.start('later')
  }

  stop(): Promise<void> {
    return this.#periodic.stop()
  }

  async step(): Promise<void> {
    // What the loader is about to bring is not lost. If it fails, nothing is sure, and everything is looked at.
    const isLoaded = await this.#loader.catchUp().then(
      () => true,
      () => false,
    )
    const nowMs = this.#ledger.clockMs()
    // Mostly nothing is overdue: then a timetable on a server need not be asked.
    const { hints } = await this.#ledger.load(this.#topic, null, nowMs - GRACE_MS, 1)
    if (hints.length === 0) return
    const { headMs } = await this.#table.extent(this.#topic)
    // A backlog that waits in the timetable is no accident: only what should have rung before its head is.
    const cutMs = Math.min(nowMs, headMs ?? nowMs) - GRACE_MS
    let rescued = 0
    let after: Frontier | null = null
    for (let page = 0; page < PAGES_MAX; page++) {
      const loaded = await this.#ledger.load(this.#topic, after, cutMs, BATCH_MAX)
      // Claimed ones ring when their lease is over, and not before.
      const overdue = loaded.hints.filter(
        (hint) => hint.ringMs <= nowMs && (!isLoaded || this.#loader.includes(hint)),
      )
      rescued += await this.#table.put(this.#topic, overdue, 'lower')
      after = loaded.frontier
      if (after === null) break
      await this.#clock.turn()
    }
    if (rescued > 0) this.#onRescue(rescued)
  }
}
