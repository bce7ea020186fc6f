/** Whether the processes can see each other, and since when they have had time to come to terms. */
import { BEAT_MS, GONE_MS } from '../../../src/cluster/liveness.ts'
import type { Composition, Event } from '../history.ts'

/**
 * After a death, or when a process or a line is back, each slot has one owner within twice the time that it takes to
 * notice a death; after anything that is told (coming, going, other settings) within two seconds.
 */
export const SETTLED_MS = 2 * (GONE_MS + 2 * BEAT_MS)
export const TOLD_MS = 2_000
/** What was sent on a bad line may still arrive so long after the line is good again. */
const LATE_MS = 6_000
/** When a line is back, a call that was under way ends within a second, and the next one finds out. */
const BACK_MS = 3_000

/** Faults that last, and keep a process from the board. */
const LASTING = /^(pause|noise|cut)/

export class Weather {
  readonly #server: 'timetable' | 'ledger'
  readonly #lasting = new Map<string, number>()
  /** Nobody reaches the board: as long as nothing else happens, everything stays as it is. */
  #cutForAll = 0
  #isBecalmed = false
  #settledAtMs = 0
  #backAtMs = 0

  constructor(composition: Composition) {
    this.#server = composition === 'redis' ? 'timetable' : 'ledger'
  }

  /** Each slot must have its owner, and keep it. */
  isSettled(trueMs: number): boolean {
    if (this.#lasting.size > 0) return false
    return this.#cutForAll > 0 ? this.#isBecalmed : trueMs > this.#settledAtMs
  }

  /** Since when everybody can hear everything, Infinity: not everybody can. */
  get clearSinceMs(): number {
    return this.#lasting.size > 0 || this.#cutForAll > 0 ? Number.POSITIVE_INFINITY : this.#backAtMs
  }

  see(event: Event): void {
    const { trueMs } = event
    if (event.kind === 'life') {
      if (event.phase === 'starts') return
      this.#disturbed(trueMs + (event.phase === 'crashes' ? SETTLED_MS : TOLD_MS))
      if (event.phase === 'opens') this.#backAtMs = Math.max(this.#backAtMs, trueMs)
    } else if (event.kind === 'fault') this.#fault(event)
  }

  /** Somebody told everybody something. */
  told(trueMs: number): void {
    this.#disturbed(trueMs + TOLD_MS)
  }

  #fault({ fault, phase, isEverybody = false, trueMs }: Extract<Event, { kind: 'fault' }>): void {
    if (fault === 'all') {
      this.#lasting.clear()
      this.#cutForAll = 0
      this.#backAtMs = trueMs + BACK_MS
      return this.#disturbed(trueMs + LATE_MS + SETTLED_MS)
    }
    if (!LASTING.test(fault) || (fault !== 'pause' && !fault.endsWith(this.#server))) return
    if (isEverybody && fault.startsWith('cut')) this.#cut(phase, trueMs)
    else {
      const count = (this.#lasting.get(fault) ?? 0) + (phase === 'begin' ? 1 : -1)
      if (count > 0) this.#lasting.set(fault, count)
      else this.#lasting.delete(fault)
      this.#disturbed(trueMs + SETTLED_MS + (fault.startsWith('noise') ? LATE_MS : 0))
    }
    this.#backAtMs = trueMs + BACK_MS
  }

  #cut(phase: 'begin' | 'end', trueMs: number): void {
    if (phase === 'begin') {
      if (this.#cutForAll === 0) this.#isBecalmed = this.isSettled(trueMs)
      this.#cutForAll++
      return
    }
    if (--this.#cutForAll === 0 && !this.#isBecalmed) this.#disturbed(trueMs + SETTLED_MS)
  }

  #disturbed(untilMs: number): void {
    this.#isBecalmed = false
    this.#settledAtMs = Math.max(this.#settledAtMs, untilMs)
  }
}
