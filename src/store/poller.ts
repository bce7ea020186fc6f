import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import type { Filler } from './loader.ts'
import { Periodic } from '../lib/periodic.ts'

/** The interval between two polls of the ledger. */
const STEP_MS = 1_000
/** A poll loads tasks that ring within this time. It is longer than the interval, so that polls overlap. */
const AHEAD_MS = 2_000
/**
 * A pass reads all pages, if necessary in several polls. It misses tasks that are written behind its read position. So
 * if a pass takes longer than this time, a new pass begins.
 */
const ROUND_MS = 5_000

/**
 * Fills a table of this process from a ledger that other processes write to. Polls the ledger every second for all
 * tasks that ring soon, and for claimed tasks whose lease ends soon.
 */
export class Poller implements Filler {
  readonly #topic: string
  readonly #ledger: Ledger
  readonly #table: HintTable
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #periodic: Periodic
  #stepping: Promise<void> | null = null
  #isPollWanted = false
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

  /** Polls no more. Resolves when the current poll has ended, also one that `pollNow` or `nudge` began. */
  async stop(): Promise<void> {
    await this.#periodic.stop()
    await this.#stepping?.catch(() => {})
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

  /** Polls at once from the beginning. If a poll is under way, polls once more after it. */
  pollNow(): void {
    this.#frontier = null
    if (this.#stepping === null) this.catchUp().catch(this.#onError)
    else this.#isPollWanted = true
  }

  catchUp(): Promise<void> {
    this.#stepping ??= this.#step().finally(() => {
      this.#stepping = null
      if (!this.#isPollWanted || this.#periodic.isStopped) return
      this.#isPollWanted = false
      this.pollNow()
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
