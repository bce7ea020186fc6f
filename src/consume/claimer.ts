import type { Clock } from '../clock.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import type { CellAddress, Claim, ClaimRequest } from '../timetable.ts'
import type { Settings } from '../values/config.ts'

export interface ClaimerParts {
  readonly topic: string
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  /** The settings that are in force now. */
  readonly settings: () => Settings
}

/** The lanes hold ordinary tasks by priority; suspects are claimed one at a time. */
export type ClaimSource = ClaimRequest['from']

export interface SentClaim {
  readonly at: CellAddress
  readonly request: ClaimRequest
  /** Monotonic. A repeated request keeps the time of its first sending: its lease may have begun then. */
  readonly sentMs: number
}

export interface AnsweredClaim extends SentClaim {
  readonly claim: Claim
}

/**
 * Makes the claim requests of one topic.
 *
 * A claim that failed may have taken effect, with only its reply lost. The claimer keeps its request and repeats it with
 * the next claim of the same cell, which returns the tasks that it took. After one lease the request is dropped: by then
 * the tasks were rescued.
 *
 * The caller sends the request itself (`store.claim`) and holds the tasks right after its own await. With another async
 * function in between, a fence could arrive after the reply and before the tasks are held, and would be lost.
 */
export class Claimer {
  readonly #parts: ClaimerParts
  /** By cell. */
  readonly #unanswered: Record<ClaimSource, Map<number, SentClaim>> = {
    lanes: new Map(),
    suspects: new Map(),
  }

  constructor(parts: ClaimerParts) {
    this.#parts = parts
  }

  /** Returns the claim to send next. A repeated request keeps its own limit and lease, and may return more than `limit`. */
  next(cell: number, limit: number, from: ClaimSource, leaseMs: number): SentClaim {
    return this.#takeUnanswered(cell, from) ?? this.#newClaim(cell, limit, from, leaseMs)
  }

  /** Keeps the request of a claim that failed, to be repeated. */
  unanswered(sent: SentClaim): void {
    this.#unanswered[sent.request.from].set(sent.at.cell, sent)
  }

  #takeUnanswered(cell: number, from: ClaimSource): SentClaim | null {
    const sent = this.#unanswered[from].get(cell)
    if (sent === undefined) return null
    this.#unanswered[from].delete(cell)
    return this.#parts.clock.monotonicNow() < sent.sentMs + sent.request.leaseMs ? sent : null
  }

  #newClaim(cell: number, limit: number, from: ClaimSource, leaseMs: number): SentClaim {
    const { topic, clock, random, settings } = this.#parts
    const wholePrefixes = settings().mergeMs > 0
    const request = { req: random.uniqueId(), limit, leaseMs, from, wholePrefixes }
    return { at: { topic, cell }, request, sentMs: clock.monotonicNow() }
  }
}
