import { ALL_CELLS } from '../values/cell.ts'
import { type Clock, sleep } from '../clock.ts'
import { TocsinError } from '../errors.ts'
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
} from '../timetable.ts'
import type { Filling, Frontier, Hint, HintTable } from '../hint-table.ts'

/** How often an unreachable shared table is probed. */
const PROBE_MS = 500

export interface Outages {
  /** The shared table is unreachable: `spare` rings in its place, and has to be filled. */
  onAway(spare: HintTable, error: unknown): void
  /**
   * The shared table answers again. Its hints may be outdated or gone, so it does not ring before this promise resolves.
   * `untold` are the topics written to during the outage, including topics that this process does not consume.
   */
  onBack(untold: readonly string[]): Promise<void>
  /** The shared table rings again. */
  onOver(): void
}

/**
 * A shared hint table (Redis) with a spare one in this process, filled by polling the ledger, for when the shared one is
 * unreachable. Tasks may ring later than usual, but nothing stops. If both ring the same key, the ledger refuses one.
 *
 *              a call fails                    a probe succeeds
 *   ON REDIS ────────────────▶ AWAY ──────────────────────────────▶ RECONCILING
 *   shared rings               spare rings                          spare rings
 *      ▲                       writes to spare only                 writes to both, shared is filled from the ledger
 *      │                          ▲         a call fails                │   │
 *      │                          └──────────────────────────────────────┘   │
 *      └──────────────────────────────────────────────────────────────────────┘
 *                          the shared table has every hint again
 *
 * #spare is null only on Redis; #isReturning is true only while reconciling.
 */
export class FailoverTable implements HintTable {
  readonly isShared = true
  readonly residentMax = Number.POSITIVE_INFINITY
  readonly lookMs: number
  readonly #shared: HintTable
  readonly #makeSpare: () => HintTable
  readonly #clock: Clock
  readonly #outages: Outages
  readonly #watchers = new Map<string, Set<Watcher>>()
  /** Topics with hints that the shared table has missed. */
  readonly #untold = new Set<string>()
  readonly #keptCells = new Map<string, readonly number[]>()
  readonly #stop = new AbortController()
  #spare: HintTable | null = null
  /** Reconciling: the shared table is being filled, so new writes have to reach it, too. */
  #isReturning = false
  #waiting: Promise<void> | null = null

  constructor(shared: HintTable, makeSpare: () => HintTable, clock: Clock, outages: Outages) {
    this.#shared = shared
    this.#makeSpare = makeSpare
    this.#clock = clock
    this.#outages = outages
    this.lookMs = shared.lookMs
  }

  claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    return this.#ring((table) => table.claim(at, request))
  }

  look(at: CellAddress): Promise<Look> {
    return this.#ring((table) => table.look(at))
  }

  /** The claim may be of either table: the other one does not know its request. */
  async extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    const spared = await this.#spare?.extend(at, req, leaseMs)
    return spared === 'extended' ? spared : this.#tell('stale', (shared) => shared.extend(at, req, leaseMs))
  }

  async settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]> {
    await this.#spare?.settle(at, settlements)
    return this.#tell(
      settlements.map(() => 'stale' as const),
      (shared) => shared.settle(at, settlements),
    )
  }

  async put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number> {
    await this.#spare?.put(topic, hints, mode)
    const changed = await this.#tell<number | null>(null, (shared) => shared.put(topic, hints, mode))
    if (changed === null) this.#untold.add(topic)
    return changed ?? 0
  }

  async cancel(topic: string, places: readonly Place[]): Promise<unknown> {
    await this.#spare?.cancel(topic, places)
    return this.#tell(null, (shared) => shared.cancel(topic, places))
  }

  async drop(topic: string, places: readonly Place[]): Promise<void> {
    await this.#spare?.drop(topic, places)
    return this.#tell(undefined, (shared) => shared.drop(topic, places))
  }

  keepOnly(topic: string, cells: readonly number[]): void {
    this.#keptCells.set(topic, cells)
    this.#spare?.keepOnly(topic, cells)
  }

  extent(topic: string): Promise<{ count: number; headMs: number | null }> {
    return this.#ring((table) => table.extent(topic))
  }

  has(topic: string, places: readonly Place[]): Promise<boolean[]> {
    return this.#ring((table) => table.has(topic, places))
  }

  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#ring((table) => table.find(at, among, what, cursor))
  }

  filling(topic: string): Promise<Filling> {
    return this.#ring((table) => table.filling(topic))
  }

  filledTo(topic: string, epoch: string, frontier: Frontier): Promise<boolean> {
    return this.#ring((table) => table.filledTo(topic, epoch, frontier))
  }

  nowMs(): Promise<number> {
    return this.#ring((table) => table.nowMs())
  }

  watch(topic: string, watcher: Watcher): () => void {
    const watchers = this.#watchers.get(topic) ?? new Set()
    this.#watchers.set(topic, watchers.add(watcher))
    const unwatch = this.#shared.watch(topic, watcher)
    // Not undone for the spare table: that is discarded when the outage is over.
    this.#spare?.watch(topic, watcher)
    return () => {
      watchers.delete(watcher)
      unwatch()
    }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#waiting
    await this.#spare?.close()
    await this.#shared.close()
  }

  /** Runs `work` on the table that rings now. */
  async #ring<T>(work: (table: HintTable) => Promise<T>): Promise<T> {
    if (this.#spare !== null) return work(this.#spare)
    try {
      return await work(this.#shared)
    } catch (error) {
      if (!this.notice(error)) throw error
      return work(this.#spare ?? this.#shared)
    }
  }

  /** Runs `work` on the shared table. Returns `otherwise` while it is away: reconciling fills it from the ledger later. */
  async #tell<T>(otherwise: T, work: (shared: HintTable) => Promise<T>): Promise<T> {
    if (this.#spare !== null && !this.#isReturning) return otherwise
    try {
      return await work(this.#shared)
    } catch (error) {
      if (!this.notice(error)) throw error
      return otherwise
    }
  }

  /** Enters AWAY if the error is an outage of the shared table. Returns false if it is not, or the table is closed. */
  notice(error: unknown): boolean {
    if (!isOutage(error) || this.#stop.signal.aborted) return false
    this.#isReturning = false
    this.#away(error)
    return true
  }

  #away(error: unknown): void {
    if (this.#spare !== null) return
    const spare = this.#makeSpare()
    this.#spare = spare
    for (const [topic, cells] of this.#keptCells) spare.keepOnly(topic, cells)
    for (const [topic, watchers] of this.#watchers)
      for (const watcher of watchers) spare.watch(topic, watcher)
    this.#outages.onAway(spare, error)
    this.#waiting = this.#untilBack()
    this.#wakeAll()
  }

  async #untilBack(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      await sleep(this.#clock, PROBE_MS, signal)
      if (signal.aborted) return
      try {
        await this.#shared.nowMs()
        this.#isReturning = true
        await this.#outages.onBack([...this.#untold])
      } catch {
        this.#isReturning = false
      }
      // False if a call failed while the table was filled: it is away again.
      if (this.#isReturning) break
    }
    if (signal.aborted) return
    const spare = this.#spare
    this.#isReturning = false
    this.#spare = null
    this.#untold.clear()
    this.#outages.onOver()
    this.#wakeAll()
    await spare?.close()
  }

  #wakeAll(): void {
    for (const watchers of this.#watchers.values())
      for (const watcher of watchers) for (const cell of ALL_CELLS) watcher.wake(cell, 0, 0)
  }
}

/** True if the table cannot be reached or used at present, as opposed to a bug, which no wait will fix. */
function isOutage(error: unknown): boolean {
  return TocsinError.is(error) && (error.code.startsWith('timetable-') || error.code === 'unknown-outcome')
}
