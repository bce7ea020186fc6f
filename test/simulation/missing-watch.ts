import type { Callers } from './callers.ts'
import type { Calamities } from './calamities.ts'
import type { Recorder } from './recorder.ts'
import { type Servers, TOPIC } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

/** So long after the last fault, the timetable has all that rings soon. */
const FILLED_MS = 3_000
/** What rings within this is looked at. */
const SOON_MS = { from: 1_000, to: 10_000 }
const TOLD_MS = 2_000
const LATE_MS = 10_000

interface MissingWatchParts {
  readonly clock: WorldClock
  readonly recorder: Recorder
  readonly servers: Servers
  readonly callers: Callers
  readonly calamities: Calamities
  readonly everyMs: number
}

/**
 * With a ledger and a shared timetable: whether the one knows what the other is to ring. Looked at again and again, for as
 * long as all has been quiet; what is missing twice is not just on its way.
 */
export class MissingWatch {
  readonly #parts: MissingWatchParts
  /** When each process died, and until when there had been trouble with its lines. */
  readonly #deaths = new Map<string, { readonly atMs: number; readonly troubledMs: number }>()
  #troubles = 0
  #troubledMs = 0
  #isOver = false

  constructor(parts: MissingWatchParts) {
    this.#parts = parts
    parts.recorder.watch((event) => {
      const { trueMs } = event
      // Whoever was cut off from the timetable reads the ledger before it tells the timetable again.
      if (event.kind === 'fault' && /^(cut|noise)-(timetable|cells|ledger)$|^all$/.test(event.fault)) {
        this.#troubles = event.fault === 'all' ? 0 : this.#troubles + (event.phase === 'begin' ? 1 : -1)
        this.#troubledMs = trueMs
      }
      if (event.kind !== 'life' || event.phase !== 'crashes') return
      this.#deaths.set(event.life, {
        atMs: trueMs,
        troubledMs: this.#troubles > 0 ? trueMs : this.#troubledMs,
      })
    })
  }

  start(): void {
    this.#lookLater(new Map())
  }

  stop(): void {
    this.#isOver = true
  }

  #lookLater(before: ReadonlyMap<string, number>): void {
    this.#parts.clock.after(this.#parts.everyMs, () => void this.#look(before))
  }

  async #look(before: ReadonlyMap<string, number>): Promise<void> {
    const { clock, recorder, calamities } = this.#parts
    if (this.#isOver) return
    const isQuiet = clock.nowMs > calamities.quietSinceMs + FILLED_MS
    const found = isQuiet ? await this.#missing() : new Map<string, number>()
    for (const [key, ringMs] of found)
      if (before.get(key) === ringMs) recorder.tell({ kind: 'missing', key, ringMs })
    this.#lookLater(found)
  }

  async #missing(): Promise<Map<string, number>> {
    const { ledger, table, ledgerClock } = this.#parts.servers
    const nowMs = ledgerClock.now()
    const soon = ledger
      .live(TOPIC)
      .filter(
        ({ session, ring_ms }) =>
          session === null && ring_ms >= nowMs + SOON_MS.from && ring_ms <= nowMs + SOON_MS.to,
      )
    const sure = soon.filter(({ key, ring_ms }) => this.#isToldOf(key, ring_ms))
    const isThere = await table.face.has(TOPIC, sure)
    return new Map(sure.filter((_, i) => !isThere[i]).map(({ key, ring_ms }) => [key, ring_ms]))
  }

  /**
   * Who wrote it lived on, and could tell the timetable; otherwise it is found when it is overdue, and not before. What a
   * transaction wrote is told by whoever reads the news, who may have died as well.
   */
  #isToldOf(key: string, ringMs: number): boolean {
    const told = this.#parts.callers.acknowledged.get(key)
    if (told?.dueMs !== ringMs) return false
    // Somebody's late call, whose answer nobody waits for any more, may have read that news, too.
    if (told.isInTransaction) return told.atMs > this.#parts.calamities.quietSinceMs + LATE_MS
    const death = this.#deaths.get(told.life)
    return death === undefined || death.atMs > Math.max(told.atMs, death.troubledMs) + TOLD_MS
  }
}
