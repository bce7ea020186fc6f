import { CELLS } from '../values/cell.ts'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Ledger, Loaded } from '../ledger.ts'
import { compareFrontiers } from '../values/list-position.ts'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import { Periodic } from '../lib/periodic.ts'

/** Hints that one reading brings. */
const PAGE = 1_000
/** A page is dealt to 64 cells: where each of them is a call to a server, the pages are larger. */
const SHARED_PAGE = 8_000
/** How often it looks whether the window has moved on. */
const STEP_MS = 1_000

/**
 * Whoever writes puts what rings within the window, and this much later, into a shared timetable: another process may be
 * reading up to the end of its window, and not see what is being committed. No write takes longer than this.
 */
const OVERLAP_MS = 30_000

const NOWHERE: Frontier = { ringMs: Number.NEGATIVE_INFINITY, cell: 0, key: '' }

/** Keeps a timetable filled from its ledger. */
export interface Filler {
  start(): void
  stop(): Promise<void>
  /** It belongs into the timetable now. */
  includes(hint: Hint): boolean
  /** All that rings before is in the timetable. */
  readonly loadedUntilMs: number
  /** There is room again: reads on at once where it had to stop. */
  nudge(): void
  /** Reads what is to be read by now. */
  catchUp(): Promise<void>
}

/**
 * Keeps the timetable filled with what rings soon: far tasks stay in the ledger and cost no memory. All up to the
 * frontier is in the timetable; what is written before it goes there directly, what is written behind it is read in
 * time.
 *
 * Where several processes share the timetable, they share the frontier, too, which is kept in it. When the timetable
 * says that it may have lost something, all is read again from the beginning.
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
  /** Not all before the frontier need be in the timetable: it is read from the beginning, whatever others say. */
  #isDoubtful = false
  /**
   * While a reading is under way, what is written meanwhile may be behind it: up to here all is put directly. Before the
   * first one that is everything.
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

  /** What was put into the timetable may not be there: when this is over, all is. */
  async reconcile(): Promise<void> {
    // What is under way began before.
    await this.#stepping?.catch(() => {})
    this.#doubt()
    await this.catchUp()
    if (this.#isDoubtful && !this.#isFull)
      throw new TocsinError('timetable-unavailable', 'the timetable was lost again while it was filled')
  }

  /** Reads on if the window has moved on by a quarter, or the clock has, or the timetable has lost something. */
  catchUp(): Promise<void> {
    return this.#alone(async () => {
      await this.#lookAtTable()
      const leftMs = this.#frontier.ringMs - this.#ledger.clockMs()
      if (leftMs < this.#residentMs() * 0.75) await this.#step()
    })
  }

  /** One reading at a time: whoever asks for another meanwhile waits for this one. */
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
    // Whatever others have read since: something of ours may have gone where nobody looks any more.
    if (this.#epoch !== null && epoch !== this.#epoch) this.#doubt()
    this.#epoch = epoch
    if (this.#isDoubtful || frontier === null) return
    if (compareFrontiers(frontier, this.#frontier) > 0) this.#frontier = frontier
  }

  /** Reads up to the end of the window, or as much as there is room for. */
  async #step(): Promise<void> {
    const table = this.#table
    const untilMs = this.#ledger.clockMs() + this.#residentMs()
    // Before the first reading: from now on nothing that is written can fall between it and the frontier.
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
      // The next page is read while this one is put. Not where room is counted: it is put first.
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

/** What belongs into a shared timetable, by the ledger's clock. */
export function isNear({ ringMs }: Hint, nowMs: number, residentMs: number): boolean {
  return ringMs <= nowMs + residentMs + OVERLAP_MS
}
