import type { CellAddress } from '../timetable.ts'

/** A claim may take effect in the ledger this long after it was sent, and its lease begins then. */
const LATE_MS = 60_000

interface Use {
  readonly req: string
  readonly untilMs: number
  /** When the claim was first sent: its lease may count from then. */
  readonly askedMs: number
}

/**
 * Stamps of claims that may still be held. With the session and the cell, a stamp is the ledger's token. It comes from a
 * hint table, and one that was wiped, or a spare one, may issue it again. The ledger would take the second claim for a
 * retry of the first, and deliver the same tasks twice.
 */
export class Stamps {
  readonly #uses = new Map<string, Use>()

  /** Reserves the stamp. Returns when the claim was first sent. Null if another claim may hold tasks under this stamp. */
  take(at: CellAddress, stamp: number, req: string, nowMs: number, leaseMs: number): number | null {
    this.#forgetOld(nowMs)
    const name = nameOf(at, stamp)
    const use = this.#uses.get(name)
    if (use !== undefined && use.req !== req && use.untilMs > nowMs) return null
    const askedMs = use?.req === req ? use.askedMs : nowMs
    // Moved to the end of the map: entries are forgotten from its start.
    this.#uses.delete(name)
    this.#uses.set(name, { req, untilMs: nowMs + leaseMs + LATE_MS, askedMs })
    return askedMs
  }

  /** Releases the stamp: no task is held under it any more. */
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
