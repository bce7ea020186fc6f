import type { CellAddress } from '../timetable.ts'

/** A claim may take effect this much later than it was sent, and its lease count from then. */
const LATE_MS = 60_000

interface Use {
  readonly req: string
  readonly untilMs: number
  /** When it was sent first: the lease may count from then. */
  readonly askedMs: number
}

/**
 * Stamps of claims that may be held. A stamp is the ledger's token, with the session and the cell; but it comes from a
 * timetable, and one that was wiped, or another one in its place, may give it once more. To the ledger the second claim
 * would be the first one, repeated: it would give out the same tasks again.
 */
export class Stamps {
  readonly #uses = new Map<string, Use>()

  /** Answers when the claim was sent first. Null: another one may hold tasks under this stamp. */
  take(at: CellAddress, stamp: number, req: string, nowMs: number, leaseMs: number): number | null {
    this.#forgetOld(nowMs)
    const name = nameOf(at, stamp)
    const use = this.#uses.get(name)
    if (use !== undefined && use.req !== req && use.untilMs > nowMs) return null
    const askedMs = use?.req === req ? use.askedMs : nowMs
    // To the end of the line: the first of it is the first to be forgotten.
    this.#uses.delete(name)
    this.#uses.set(name, { req, untilMs: nowMs + leaseMs + LATE_MS, askedMs })
    return askedMs
  }

  /** Nothing is held under it any more. */
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
