import type { Callers } from './callers.ts'
import type { FaultInjector } from './fault-injector.ts'
import type { Recorder } from './recorder.ts'
import { type Servers, TOPIC } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

/** This long after the last fault, the timetable must have every task that rings soon. */
const FILLED_MS = 3_000
/** Tasks that ring within this range from now are checked. */
const SOON_MS = { from: 1_000, to: 10_000 }
const TOLD_MS = 2_000
const LATE_MS = 10_000

interface MissingHintWatchParts {
  readonly clock: WorldClock
  readonly recorder: Recorder
  readonly servers: Servers
  readonly callers: Callers
  readonly faultInjector: FaultInjector
  readonly everyMs: number
}

/**
 * With a ledger and a shared timetable: checks again and again, while no fault is in progress, that the timetable has a hint
 * for every task of the ledger that rings soon. A hint that is missing twice in a row is not merely delayed.
 */
export class MissingHintWatch {
  readonly #parts: MissingHintWatchParts
  /** When each process crashed, and until when its links had been faulty. */
  readonly #deaths = new Map<string, { readonly atMs: number; readonly troubledMs: number }>()
  #troubles = 0
  #troubledMs = 0
  #isOver = false

  constructor(parts: MissingHintWatchParts) {
    this.#parts = parts
    parts.recorder.watch((event) => {
      const { trueMs } = event
      // A process that was cut off from the timetable reads the ledger before it writes hints again.
      if (event.kind === 'fault' && /^(cut|noise|crash)-(timetable|cells|ledger)$|^all$/.test(event.fault)) {
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
    const { clock, recorder, faultInjector } = this.#parts
    if (this.#isOver) return
    const isQuiet = clock.nowMs > faultInjector.quietSinceMs + FILLED_MS
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
   * Returns true if the process that wrote the task lived long enough to write its hint. Otherwise the task is found only when
   * it is overdue. The hint of a task written in a transaction comes from the process that reads the commit feed, which may
   * have crashed as well.
   */
  #isToldOf(key: string, ringMs: number): boolean {
    const told = this.#parts.callers.acknowledged.get(key)
    if (told?.dueMs !== ringMs) return false
    // A late call that was already abandoned may also have consumed that part of the feed.
    if (told.isInTransaction) return told.atMs > this.#parts.faultInjector.quietSinceMs + LATE_MS
    const death = this.#deaths.get(told.life)
    return death === undefined || death.atMs > Math.max(told.atMs, death.troubledMs) + TOLD_MS
  }
}
