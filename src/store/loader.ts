import { CELLS } from '../values/cell.ts'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Ledger, Loaded } from '../ledger.ts'
import { compareFrontiers } from '../values/list-position.ts'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import { Periodic } from '../lib/periodic.ts'

/** The number of hints per page. */
const PAGE = 1_000
/**
 * The page size for a shared table. A page takes up to 64 calls to the server, one per cell: large pages save calls.
 */
const SHARED_PAGE = 8_000
/** The interval between two steps. Each step checks whether there are hints to load. */
const STEP_MS = 1_000

/**
 * How far beyond the window (the next `residentMs`) a writer still puts hints into a shared table. The margin is needed
 * because every process estimates the ledger's clock, so the windows of two processes end at slightly different times.
 * Example: a load in one process covers tasks until 12:00:01. Then another process, whose window ends at 12:00:00,
 * commits a task that rings in between. The load began too early to see the task, and without the margin the writer
 * would skip its hint. An estimate is behind by the latency of a call, and the margin is longer than any call takes.
 */
const OVERLAP_MS = 30_000

const NOWHERE: Frontier = { ringMs: Number.NEGATIVE_INFINITY, cell: 0, key: '' }

/** Keeps a hint table filled with the hints of one topic from the ledger. */
export interface Filler {
  start(): void
  stop(): Promise<void>
  /** Returns true if the hint rings soon enough to be in the table. */
  includes(hint: Hint): boolean
  /** The table has the hint of every task that rings before this time. -Infinity before anything was loaded. */
  readonly loadedUntilMs: number
  /** Continues loading at once if the table was full. Called when the table may have room again. */
  nudge(): void
  /** Loads all hints that the table should have by now. */
  catchUp(): Promise<void>
}

/**
 * Loads the hints of tasks that ring within the window, that is, within the next `residentMs`. Later tasks stay in the
 * ledger and need no memory. The table has every hint up to the frontier. When a task is written that rings before the
 * frontier, the HintWriter puts its hint into the table. A task that rings after the frontier is loaded later.
 *
 * The frontier is stored in the table, so processes that share a table share the frontier. When the table's epoch
 * changes, hints may be lost, and the loader loads all hints again from the beginning.
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
  /** True if hints before the shared frontier may be missing. Then all hints are loaded from the beginning. */
  #isDoubtful = false
  /**
   * While a load runs, the latest ring time that it reads. Only used if the table is in this process. The load misses
   * tasks that are written behind its read position. So after a write, the HintWriter puts every hint that rings by
   * this time into the table. Infinity before the first load: every hint is put. -Infinity between loads: only hints up
   * to the frontier are put.
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

  /** Loads all hints again. Called when the table may have lost hints. */
  async reconcile(): Promise<void> {
    // Wait for a load that is under way: it began before the hints were lost.
    await this.#stepping?.catch(() => {})
    this.#doubt()
    await this.catchUp()
    if (this.#isDoubtful && !this.#isFull)
      throw new TocsinError(
        'timetable-unavailable',
        'the timetable lost its hints again while it was being filled',
      )
  }

  /** Loads more hints if the window has moved by a quarter, the clock has stepped, or the table may have lost hints. */
  catchUp(): Promise<void> {
    return this.#alone(async () => {
      await this.#lookAtTable()
      const leftMs = this.#frontier.ringMs - this.#ledger.clockMs()
      if (leftMs < this.#residentMs() * 0.75) await this.#step()
    })
  }

  /** Runs one load at a time. A call during a load waits for that load, and starts no other. */
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
    // If the epoch has changed, load from the beginning, even if other processes have loaded hints since the change:
    // hints that this process wrote may have been lost with the old epoch.
    if (this.#epoch !== null && epoch !== this.#epoch) this.#doubt()
    this.#epoch = epoch
    if (this.#isDoubtful || frontier === null) return
    if (compareFrontiers(frontier, this.#frontier) > 0) this.#frontier = frontier
  }

  /** Loads up to the end of the window, or until the table is full. */
  async #step(): Promise<void> {
    const table = this.#table
    const untilMs = this.#ledger.clockMs() + this.#residentMs()
    // Set this before the first read. From now on, `includes` accepts every hint that the reads of this load may miss.
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
      // For a shared table, read the next page while this page is put. A table of this process has a limit, which must
      // be checked before each read.
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

/** Returns true if a shared table should have the hint. `nowMs` is the time of the ledger's clock. */
export function isNear({ ringMs }: Hint, nowMs: number, residentMs: number): boolean {
  return ringMs <= nowMs + residentMs + OVERLAP_MS
}
