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

/** The interval between two probes of an unreachable shared table. */
const PROBE_MS = 500

export interface Outages {
  /** Called when the shared table becomes unreachable. `spare` rings instead, and the callee has to fill it. */
  onAway(spare: HintTable, error: unknown): void
  /**
   * Called when a probe finds that the shared table is there and refuses this process, for example because of a setting
   * of its server. It will not recover by itself. Called once per outage and message.
   */
  onRefused(error: TocsinError): void
  /**
   * Called when the shared table answers again. The callee fills the table, because its hints may be outdated or gone.
   * The table does not ring before the promise resolves. `untold` are the topics whose hints this process could not
   * write to the shared table. They include topics that this process does not consume.
   */
  onBack(untold: readonly string[]): Promise<void>
  /** Called when the shared table rings again. The spare table is closed when the promise resolves. */
  onOver(): Promise<void>
}

/**
 * A shared hint table (Redis) with a fallback: while the shared table is unreachable, a spare table in this process
 * rings. The spare table is filled by polling the ledger, so tasks may ring later than usual. If both tables ring the
 * same key, the ledger refuses one of the two claims.
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
 * #spare is null only in the state ON REDIS. #isReturning is true only in the state RECONCILING.
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
  /** Topics with hints that could not be written to the shared table. */
  readonly #untold = new Set<string>()
  readonly #keptCells = new Map<string, readonly number[]>()
  readonly #stop = new AbortController()
  #spare: HintTable | null = null
  /** True in the state RECONCILING. The shared table is being filled, so new hints have to be written to it, too. */
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

  /**
   * Tries the spare table first, then the shared table, because the claim may come from either table. A table that did
   * not make the claim answers 'stale'.
   */
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
    // The returned function need not unwatch the spare table, because the spare table is discarded after the outage.
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

  /** Runs `work` on the table that rings now. If the shared table becomes unreachable, runs it on the spare table. */
  async #ring<T>(work: (table: HintTable) => Promise<T>): Promise<T> {
    if (this.#spare !== null) return work(this.#spare)
    try {
      return await work(this.#shared)
    } catch (error) {
      if (!this.notice(error)) throw error
      return work(this.#spare ?? this.#shared)
    }
  }

  /**
   * Runs `work`, a write, on the shared table. If the table is unreachable, skips the write and returns `otherwise`:
   * after the outage, the table is filled from the ledger.
   */
  async #tell<T>(otherwise: T, work: (shared: HintTable) => Promise<T>): Promise<T> {
    if (this.#spare !== null && !this.#isReturning) return otherwise
    try {
      return await work(this.#shared)
    } catch (error) {
      if (!this.notice(error)) throw error
      return otherwise
    }
  }

  /**
   * Enters the state AWAY and returns true if the error is an outage of the shared table. Returns false for any other
   * error, and after `close`.
   */
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
    const refusals = new Set<string>()
    while (!signal.aborted) {
      await sleep(this.#clock, PROBE_MS, signal)
      if (signal.aborted) return
      try {
        await this.#shared.nowMs()
        this.#isReturning = true
        await this.#outages.onBack([...this.#untold])
      } catch (error) {
        this.#isReturning = false
        if (TocsinError.is(error, 'timetable-refused') && !refusals.has(error.message)) {
          refusals.add(error.message)
          this.#outages.onRefused(error)
        }
      }
      // #isReturning is false if a call failed while the shared table was being filled. Then the state is AWAY again.
      if (this.#isReturning) break
    }
    if (signal.aborted) return
    const spare = this.#spare
    this.#isReturning = false
    this.#spare = null
    this.#untold.clear()
    const left = this.#outages.onOver()
    this.#wakeAll()
    await left
    await spare?.close()
  }

  #wakeAll(): void {
    for (const watchers of this.#watchers.values())
      for (const watcher of watchers) for (const cell of ALL_CELLS) watcher.wake(cell, 0, 0)
  }
}

/**
 * Returns true if the table, or a server of it, cannot be reached or used at present. Returns false for other errors, which
 * are bugs.
 */
function isOutage(error: unknown): boolean {
  if (!TocsinError.is(error)) return false
  // A call about several cells failed for some of them.
  if (error.code === 'interrupted') return isOutage(error.cause)
  return error.code.startsWith('timetable-') || error.code === 'unknown-outcome'
}
