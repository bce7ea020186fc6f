import { CELLS } from '../values/cell.ts'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Ledger, Loaded } from '../ledger.ts'
import { compareFrontiers } from '../values/list-position.ts'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import { Periodic } from '../lib/periodic.ts'

/** Hints per page. */
const PAGE = 1_000
/** Larger pages for a shared table: a page is split into up to 64 calls to the server, one per cell. */
const SHARED_PAGE = 8_000
/** How often the loader checks whether the window has moved. */
const STEP_MS = 1_000

/**
 * A writer puts hints into a shared table if they ring within the window plus this: another process may be reading up to
 * the end of its window, and not see a write that commits meanwhile. Longer than any write takes.
 */
const OVERLAP_MS = 30_000

const NOWHERE: Frontier = { ringMs: Number.NEGATIVE_INFINITY, cell: 0, key: '' }

/** Keeps a hint table filled from its ledger. */
export interface Filler {
  start(): void
  stop(): Promise<void>
  /** Returns true if the hint rings soon enough to be in the table. */
  includes(hint: Hint): boolean
  /** Every task that rings before this is in the table. */
  readonly loadedUntilMs: number
  /** Continues at once if it had stopped because the table was full. */
  nudge(): void
  /** Loads what is due to be loaded by now. */
  catchUp(): Promise<void>
}

/**
 * Loads the tasks that ring within the next `residentMs` into the table: later tasks stay in the ledger and cost no
 * memory. Every task up to the frontier is in the table. A write before the frontier is put into the table directly, a
 * write after it is loaded in time.
 *
 * Processes that share a table share the frontier, which is stored in the table. When the table's epoch changes, hints
 * may be lost, and everything is loaded again from the beginning.
 */
export class Loader implements Filler {
  readonly #topic: string
  readonly #ledger: Ledger
  readonly #table: HintTable
  readonly #clock: Clock
  readonly #residentMs: () => number
  readonly #onError: (error: unknown) => void
  readonly #periodic: Periodic
  #epoch: string | null = null
  #frontier = NOWHERE
  /** True if hints before the shared frontier may be missing: everything is loaded from the beginning. */
  #isDoubtful = false
  /**
   * A write during a load may fall before the position that the load has reached, so every write up to this time is put
   * directly. Before the first load that is every write.
   */
  #readingUntilMs = Number.POSITIVE_INFINITY
  #stepping: Promise<void> | null = null
  #isFull = false

  constructor(
    topic: string,
    ledger: Ledger,
    table: HintTable,
    clock: Clock,
    residentMs: () => number,
    onError: (error: unknown) => void,
  ) {
    this.#topic = topic
    this.#ledger = ledger
    this.#table = table
    this.#clock = clock
    this.#residentMs = residentMs
    this.#onError = onError
    this.#periodic = new Periodic(clock, STEP_MS, () => this.catchUp(), onError)
  }

  start(): void {
    this.#periodic.start('now')
  }

  stop(): Promise<void> {
    return this.#periodic.stop()
  }

  includes(hint: Hint): boolean {
    if (this.#table.isShared) return isNear(hint, this.#ledger.clockMs(), this.#residentMs())
    return hint.ringMs <= this.#readingUntilMs || compareFrontiers(hint, this.#frontier) <= 0
  }

  get loadedUntilMs(): number {
    return this.#frontier.ringMs
  }

  nudge(): void {
    if (this.#isFull && this.#stepping === null) this.#alone(() => this.#step()).catch(this.#onError)
  }

  /** Loads everything again: hints that were put into the table may be lost. */
  async reconcile(): Promise<void> {
    // A load that is under way began before the loss.
    await this.#stepping?.catch(() => {})
    this.#doubt()
    await this.catchUp()
    if (this.#isDoubtful && !this.#isFull)
      throw new TocsinError(
        'timetable-unavailable',
        'the timetable lost its hints again while it was being filled',
      )
  }

  /** Loads more if the window has moved by a quarter, or the clock has stepped, or the table may have lost hints. */
  catchUp(): Promise<void> {
    return this.#alone(async () => {
      await this.#lookAtTable()
      const leftMs = this.#frontier.ringMs - this.#ledger.clockMs()
      if (leftMs < this.#residentMs() * 0.75) await this.#step()
    })
  }

  /** Runs one load at a time: a call during a load waits for that load. */
  #alone(work: () => Promise<void>): Promise<void> {
    this.#stepping ??= work().finally(() => {
      this.#stepping = null
      this.#readingUntilMs = Number.NEGATIVE_INFINITY
    })
    return this.#stepping
  }

  #doubt(): void {
    this.#isDoubtful = true
    this.#frontier = NOWHERE
  }

  async #lookAtTable(): Promise<void> {
    const { epoch, frontier } = await this.#table.filling(this.#topic)
    // Even if other processes have loaded since: a write of this process may have been lost with the old epoch.
    if (this.#epoch !== null && epoch !== this.#epoch) this.#doubt()
    this.#epoch = epoch
    if (this.#isDoubtful || frontier === null) return
    if (compareFrontiers(frontier, this.#frontier) > 0) this.#frontier = frontier
  }

  /** Loads up to the end of the window, or until the table is full. */
  async #step(): Promise<void> {
    const table = this.#table
    const untilMs = this.#ledger.clockMs() + this.#residentMs()
    // Set before the first read: no write can fall between the read and the frontier from now on.
    this.#readingUntilMs = untilMs
    const read = (after: Frontier) => {
      const page = this.#ledger.load(this.#topic, after, untilMs, table.isShared ? SHARED_PAGE : PAGE)
      page.catch(() => {})
      return page
    }
    let reading: Promise<Loaded> | null = null
    for (;;) {
      this.#isFull = Number.isFinite(table.residentMax) && (await this.#count()) >= table.residentMax
      if (this.#isFull || this.#periodic.isStopped) return
      const { hints, frontier }: Loaded = await (reading ?? read(this.#frontier))
      // The next page is read while this one is put; not where the table has a limit, which is checked after each page.
      reading = frontier !== null && table.isShared ? read(frontier) : null
      await table.put(this.#topic, hints, 'lower')
      this.#frontier = frontier ?? { ringMs: untilMs, cell: CELLS, key: '' }
      if (!(await table.filledTo(this.#topic, this.#epoch ?? '', this.#frontier))) return this.#doubt()
      if (frontier === null) {
        this.#isDoubtful = false
        return
      }
      await this.#clock.turn()
    }
  }

  async #count(): Promise<number> {
    return (await this.#table.extent(this.#topic)).count
  }
}

/** Returns true if a shared table should have the hint, by the ledger's clock. */
export function isNear({ ringMs }: Hint, nowMs: number, residentMs: number): boolean {
  return ringMs <= nowMs + residentMs + OVERLAP_MS
}
