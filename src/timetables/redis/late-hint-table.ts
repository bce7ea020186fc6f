import type { Filling, Frontier, Hint, HintTable } from '../../hint-table.ts'
import { TocsinError } from '../../errors.ts'
import type {
  CellAddress,
  Claim,
  ClaimRequest,
  Look,
  Place,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../../timetable.ts'

/**
 * A hint table on a Redis that was unreachable when it was opened. Every call tries to open the table first, and throws
 * the error if Redis is still unreachable. Once open, the table stays open, and its connection reconnects by itself.
 */
export class LateHintTable implements HintTable {
  readonly isShared = true
  readonly residentMax = Number.POSITIVE_INFINITY
  readonly lookMs: number
  readonly #open: () => Promise<HintTable>
  readonly #watches = new Set<Watch>()
  /** The open table, or the attempt that is under way. Null between attempts. */
  #opening: Promise<HintTable> | null = null
  #isClosed = false

  constructor(lookMs: number, open: () => Promise<HintTable>) {
    this.lookMs = lookMs
    this.#open = open
  }

  async claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    return (await this.#table()).claim(at, request)
  }

  async look(at: CellAddress): Promise<Look> {
    return (await this.#table()).look(at)
  }

  async extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    return (await this.#table()).extend(at, req, leaseMs)
  }

  async settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]> {
    return (await this.#table()).settle(at, settlements)
  }

  async put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number> {
    return (await this.#table()).put(topic, hints, mode)
  }

  async cancel(topic: string, places: readonly Place[]): Promise<unknown> {
    return (await this.#table()).cancel(topic, places)
  }

  async drop(topic: string, places: readonly Place[]): Promise<void> {
    return (await this.#table()).drop(topic, places)
  }

  async extent(topic: string): Promise<{ count: number; headMs: number | null }> {
    return (await this.#table()).extent(topic)
  }

  async has(topic: string, places: readonly Place[]): Promise<boolean[]> {
    return (await this.#table()).has(topic, places)
  }

  async find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return (await this.#table()).find(at, among, what, cursor)
  }

  async filling(topic: string): Promise<Filling> {
    return (await this.#table()).filling(topic)
  }

  async filledTo(topic: string, epoch: string, frontier: Frontier): Promise<boolean> {
    return (await this.#table()).filledTo(topic, epoch, frontier)
  }

  async nowMs(): Promise<number> {
    return (await this.#table()).nowMs()
  }

  /** Does nothing, because other processes claim from the other cells and need their hints. */
  keepOnly(): void {}

  watch(topic: string, watcher: Watcher): () => void {
    const watch: Watch = { topic, watcher, unwatch: null }
    this.#watches.add(watch)
    // If no attempt is under way, the next attempt that succeeds begins to watch.
    void this.#opening?.then((table) => this.#begin(watch, table)).catch(() => {})
    return () => {
      this.#watches.delete(watch)
      watch.unwatch?.()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#opening?.then((table) => table.close()).catch(() => {})
  }

  #table(): Promise<HintTable> {
    if (this.#isClosed)
      return Promise.reject(new TocsinError('closed', 'this Tocsin was closed; open a new one'))
    this.#opening ??= this.#attempt()
    return this.#opening
  }

  async #attempt(): Promise<HintTable> {
    try {
      const table = await this.#open()
      for (const watch of this.#watches) this.#begin(watch, table)
      return table
    } catch (error) {
      this.#opening = null
      throw error
    }
  }

  /** Begins to watch, unless the watch has begun before or was ended meanwhile. */
  #begin(watch: Watch, table: HintTable): void {
    if (watch.unwatch !== null || !this.#watches.has(watch)) return
    watch.unwatch = table.watch(watch.topic, watch.watcher)
  }
}

interface Watch {
  readonly topic: string
  readonly watcher: Watcher
  /** Ends the watch. Null until the watch has begun. */
  unwatch: (() => void) | null
}
