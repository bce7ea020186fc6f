import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import type { Filler } from './loader.ts'
import { Periodic } from '../lib/periodic.ts'

/** How often it looks. */
const STEP_MS = 1_000
/** It brings what rings within this: seen at one look, or at the next. */
const AHEAD_MS = 2_000
/** After so long it begins again with what rings first, though it has not got to the end. */
const ROUND_MS = 5_000

/**
 * Fills a timetable of this process from a ledger that other processes write to as well: what they write can only be
 * found by looking. So it looks every second at all that rings soon. What somebody else holds is left alone until its
 * lease is all but over.
 */
export class Poller implements Filler {
  readonly #topic: string
  readonly #ledger: Ledger
  readonly #table: HintTable
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #periodic: Periodic
  #stepping: Promise<void> | null = null
  #isAskedAgain = false
  #isFull = false
  #frontier: Frontier | null = null
  #roundStartMs = Number.NEGATIVE_INFINITY
  #seenUntilMs = Number.NEGATIVE_INFINITY

  constructor(
    topic: string,
    ledger: Ledger,
    table: HintTable,
    clock: Clock,
    onError: (error: unknown) => void,
  ) {
    this.#topic = topic
    this.#ledger = ledger
    this.#table = table
    this.#clock = clock
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
    return hint.ringMs <= this.#ledger.clockMs() + AHEAD_MS
  }

  get loadedUntilMs(): number {
    return this.#seenUntilMs
  }

  nudge(): void {
    if (this.#isFull && this.#stepping === null) this.catchUp().catch(this.#onError)
  }

  /** Somebody wrote what rings soon: looks now, or once more after the look that is under way. */
  look(): void {
    this.#frontier = null
    if (this.#stepping === null) this.catchUp().catch(this.#onError)
    else this.#isAskedAgain = true
  }

  catchUp(): Promise<void> {
    this.#stepping ??= this.#step().finally(() => {
      this.#stepping = null
      if (!this.#isAskedAgain || this.#periodic.isStopped) return
      this.#isAskedAgain = false
      this.look()
    })
    return this.#stepping
  }

  async #step(): Promise<void> {
    const untilMs = this.#ledger.clockMs() + AHEAD_MS
    if (this.#frontier === null || this.#clock.monotonicNow() > this.#roundStartMs + ROUND_MS) {
      this.#frontier = null
      this.#roundStartMs = this.#clock.monotonicNow()
    }
    do {
      const { count } = await this.#table.extent(this.#topic)
      this.#isFull = count >= this.#table.residentMax
      if (this.#isFull || this.#periodic.isStopped) return
      const { hints, frontier } = await this.#ledger.load(this.#topic, this.#frontier, untilMs, BATCH_MAX)
      const near = hints.filter(({ ringMs }) => ringMs <= untilMs)
      await this.#table.put(this.#topic, near, 'lower')
      this.#frontier = frontier
      await this.#clock.turn()
    } while (this.#frontier !== null)
    this.#seenUntilMs = untilMs
  }
}
