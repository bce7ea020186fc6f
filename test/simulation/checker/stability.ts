/** Whether all processes can reach the board, and whether they have had time to agree on the owners of all slots. */
import { BEAT_MS, GONE_MS } from '../../../src/cluster/liveness.ts'
import type { Composition, Event } from '../history.ts'

/**
 * After a crash, or when a process or a link recovers, each slot must have one owner within twice the time that it takes to
 * detect a crash. After a change that is announced (a process joins or leaves, settings change), within `TOLD_MS`.
 */
export const SETTLED_MS = 2 * (GONE_MS + 2 * BEAT_MS)
export const TOLD_MS = 2_000
/** A message sent over a faulty link may arrive this long after the link has recovered. */
const LATE_MS = 6_000
/** When a link recovers, the call in progress fails within a second, and the next one succeeds. */
const BACK_MS = 3_000

/** Faults that last for a while and keep a process from reaching the board. */
const LASTING = /^(pause|noise|cut|crash-ledger$)/
/** Faults that cut off processes. While a ledger that crashed is down, no process reaches it. */
const CUTTING = /^(cut|crash-ledger$)/

export class Stability {
  readonly #server: 'timetable' | 'ledger'
  readonly #lasting = new Map<string, number>()
  /** How many faults cut off all processes at once. If nothing else happens meanwhile, all slots keep their owners. */
  #cutForAll = 0
  #wasSettledBeforeCut = false
  #settledAtMs = 0
  #backAtMs = 0

  constructor(composition: Composition) {
    this.#server = composition === 'redis' ? 'timetable' : 'ledger'
  }

  /** Returns true if each slot must have one owner and keep it. */
  isSettled(trueMs: number): boolean {
    if (this.#lasting.size > 0) return false
    return this.#cutForAll > 0 ? this.#wasSettledBeforeCut : trueMs > this.#settledAtMs
  }

  /** Since when all processes can reach the board; Infinity if some cannot. */
  get clearSinceMs(): number {
    return this.#lasting.size > 0 || this.#cutForAll > 0 ? Number.POSITIVE_INFINITY : this.#backAtMs
  }

  observe(event: Event): void {
    const { trueMs } = event
    if (event.kind === 'life') {
      if (event.phase === 'starts') return
      this.#disturbed(trueMs + (event.phase === 'crashes' ? SETTLED_MS : TOLD_MS))
      if (event.phase === 'opens') this.#backAtMs = Math.max(this.#backAtMs, trueMs)
    } else if (event.kind === 'fault') this.#fault(event)
  }

  /** A process announced a change to all others. */
  announced(trueMs: number): void {
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
    if (isEverybody && CUTTING.test(fault)) this.#cut(phase, trueMs)
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
      if (this.#cutForAll === 0) this.#wasSettledBeforeCut = this.isSettled(trueMs)
      this.#cutForAll++
      return
    }
    if (--this.#cutForAll === 0 && !this.#wasSettledBeforeCut) this.#disturbed(trueMs + SETTLED_MS)
  }

  #disturbed(untilMs: number): void {
    this.#wasSettledBeforeCut = false
    this.#settledAtMs = Math.max(this.#settledAtMs, untilMs)
  }
}
