import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Frontier, HintTable } from '../hint-table.ts'
import type { Filler } from './loader.ts'
import { Periodic } from '../lib/periodic.ts'

/** A task that is overdue by more than this and is not in the table has been lost on its way there. */
const GRACE_MS = 2_000
const STEP_MS = 1_000
/** The most pages per step. The next step, a second later, continues. */
const PAGES_MAX = 100

/**
 * The safety net: puts overdue tasks of the ledger that neither wait in the table nor are claimed into the table again.
 * Finds none in a healthy run.
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
    // Tasks that the loader is about to load are not lost. If it fails, every overdue task is checked.
    const isLoaded = await this.#loader.catchUp().then(
      () => true,
      () => false,
    )
    const nowMs = this.#ledger.clockMs()
    // Usually no task is overdue: then the call to a table on a server is saved.
    const { hints } = await this.#ledger.load(this.#topic, null, nowMs - GRACE_MS, 1)
    if (hints.length === 0) return
    const { headMs } = await this.#table.extent(this.#topic)
    // A backlog that waits in the table is not lost: only tasks that ring before its head can be.
    const cutMs = Math.min(nowMs, headMs ?? nowMs) - GRACE_MS
    let rescued = 0
    let after: Frontier | null = null
    for (let page = 0; page < PAGES_MAX; page++) {
      const loaded = await this.#ledger.load(this.#topic, after, cutMs, BATCH_MAX)
      // The hint of a claimed task rings when its lease ends.
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
