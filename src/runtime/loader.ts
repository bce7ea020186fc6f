import { CELLS } from '../cell.ts'
import type { Clock } from '../clock.ts'
import type { Frontier, Ledger } from '../ledger.ts'
import { compareKeys } from '../list-position.ts'
import type { Hint, HintTable } from '../timetable.ts'
import { Routine } from './routine.ts'

/** Hints that one reading brings. */
const PAGE = 1_000
/** No more than this many of a topic are read ahead of their time; what follows is read as they ring. */
const RESIDENT_MAX = 500_000
/** How often it looks whether the window has moved on. */
const STEP_MS = 1_000

const NOWHERE: Frontier = { ringMs: Number.NEGATIVE_INFINITY, cell: 0, key: '' }

/**
 * Keeps the timetable filled with what rings soon: far tasks stay on the disk and cost no memory. All up to the
 * frontier is in the timetable; what is written before it goes there directly, what is written behind it is read in
 * time.
 */
export class Loader {
  readonly #topic: string
  readonly #ledger: Ledger
  readonly #table: HintTable
  readonly #clock: Clock
  readonly #residentMs: () => number
  readonly #onError: (error: unknown) => void
  readonly #routine: Routine
  #frontier = NOWHERE
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
    this.#routine = new Routine(clock, STEP_MS, () => this.catchUp(), onError)
  }

  start(): void {
    this.#routine.start('now')
  }

  stop(): Promise<void> {
    return this.#routine.stop()
  }

  /** It belongs into the timetable now. */
  includes(hint: Hint): boolean {
    return hint.ringMs <= this.#readingUntilMs || !isAfter(hint, this.#frontier)
  }

  /** All that rings before is in the timetable. */
  get loadedUntilMs(): number {
    return this.#frontier.ringMs
  }

  /** There is room again: reads on at once where it had to stop. */
  nudge(): void {
    if (this.#isFull && this.#stepping === null) this.step().catch(this.#onError)
  }

  /** Reads up to the end of the window, or as much as there is room for. */
  step(): Promise<void> {
    this.#stepping ??= this.#step().finally(() => {
      this.#stepping = null
      this.#readingUntilMs = Number.NEGATIVE_INFINITY
    })
    return this.#stepping
  }

  /** Steps if the window has moved on by a quarter, or the clock has. */
  async catchUp(): Promise<void> {
    const leftMs = this.#frontier.ringMs - (await this.#ledger.nowMs())
    if (leftMs < this.#residentMs() * 0.75) await this.step()
  }

  async #step(): Promise<void> {
    const untilMs = (await this.#ledger.nowMs()) + this.#residentMs()
    // Before the first reading: from now on nothing that is written can fall between it and the frontier.
    this.#readingUntilMs = untilMs
    for (;;) {
      const { count } = await this.#table.extent(this.#topic)
      this.#isFull = count >= RESIDENT_MAX
      if (this.#isFull || this.#routine.isStopped) return
      const { hints, frontier } = await this.#ledger.load(this.#topic, this.#frontier, untilMs, PAGE)
      await this.#table.put(this.#topic, hints, 'lower')
      this.#frontier = frontier ?? { ringMs: untilMs, cell: CELLS, key: '' }
      if (frontier === null) return
      await this.#clock.turn()
    }
  }
}

function isAfter(hint: Hint, { ringMs, cell, key }: Frontier): boolean {
  if (hint.ringMs !== ringMs) return hint.ringMs > ringMs
  return hint.cell === cell ? compareKeys(hint.key, key) > 0 : hint.cell > cell
}
