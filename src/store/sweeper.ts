import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Frontier, HintTable } from '../hint-table.ts'
import type { Filler } from './loader.ts'
import { Periodic } from '../lib/periodic.ts'

/** If a task is overdue by more than this time and has no hint in the table, its hint was lost. */
const GRACE_MS = 2_000
const STEP_MS = 1_000
/** The maximum number of pages per step. The next step, one second later, starts again with the most overdue tasks. */
const PAGES_MAX = 100

/**
 * The safety net for lost hints. Finds overdue tasks of the ledger that are not claimed and have no hint in the table,
 * and puts their hints into the table. In a healthy run, the sweeper finds no lost hint.
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
    // First let the loader load the hints that are due, so that they do not count as lost. If this succeeds, check only
    // hints that the loader should have loaded. If it fails, check all overdue hints.
    const isLoaded = await this.#loader.catchUp().then(
      () => true,
      () => false,
    )
    const nowMs = this.#ledger.clockMs()
    // Usually no task is overdue. Then skip the call to the table, which may be on a server.
    const { hints } = await this.#ledger.load(this.#topic, null, nowMs - GRACE_MS, 1)
    if (hints.length === 0) return
    const { headMs } = await this.#table.extent(this.#topic)
    // If the table has a backlog, check only tasks that ring before the first hint of the backlog. The hints of later
    // tasks are probably in the backlog. They are checked when the backlog has shrunk.
    const cutMs = Math.min(nowMs, headMs ?? nowMs) - GRACE_MS
    let rescued = 0
    let after: Frontier | null = null
    for (let page = 0; page < PAGES_MAX; page++) {
      const loaded = await this.#ledger.load(this.#topic, after, cutMs, BATCH_MAX)
      // The hint of a claimed task rings at the end of its lease. Skip it if the lease has not ended.
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
