import type { CellAddress } from '../timetable.ts'

/** The maximum time from the call to the ledger until the claim takes effect in the ledger, where its lease begins. */
const LATE_MS = 60_000

interface Use {
  readonly req: string
  /** The stamp is reserved until this time of the monotonic clock. */
  readonly untilMs: number
  /** When the claim was first sent to the ledger, by the monotonic clock. The lease began then or later. */
  readonly askedMs: number
}

/**
 * Reserves the stamps of claims that may still be held, so that no other claim uses them. The session, the cell and the
 * stamp are the ledger's token of a claim. The stamp comes from a hint table. A hint table that was wiped, or a spare
 * hint table, may issue the same stamp again. Then the ledger would treat the second claim as a retry of the first, and
 * deliver the same tasks twice.
 */
export class Stamps {
  readonly #uses = new Map<string, Use>()

  /**
   * Reserves the stamp for the claim `req`, or renews its reservation. Returns the time when the claim was first sent
   * to the ledger. Returns null if the stamp is reserved for another claim.
   */
  take(at: CellAddress, stamp: number, req: string, nowMs: number, leaseMs: number): number | null {
    this.#forgetOld(nowMs)
    const name = nameOf(at, stamp)
    const use = this.#uses.get(name)
    if (use !== undefined && use.req !== req && use.untilMs > nowMs) return null
    const askedMs = use?.req === req ? use.askedMs : nowMs
    // Delete the entry first, so that `set` adds it at the end of the map: #forgetOld removes entries from the start.
    this.#uses.delete(name)
    this.#uses.set(name, { req, untilMs: nowMs + leaseMs + LATE_MS, askedMs })
    return askedMs
  }

  /** Releases the stamp. Called when no task is held under the stamp any more. */
  free(at: CellAddress, stamp: number, req: string): void {
    const name = nameOf(at, stamp)
    if (this.#uses.get(name)?.req === req) this.#uses.delete(name)
  }

  #forgetOld(nowMs: number): void {
    for (const [name, { untilMs }] of this.#uses) {
      if (untilMs > nowMs) return
      this.#uses.delete(name)
    }
  }
}

function nameOf({ topic, cell }: CellAddress, stamp: number): string {
  return `${topic}/${cell}/${stamp}`
}
