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
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
}

/** Where a claim takes tasks from: 'lanes' are ordinary tasks by priority; 'suspects' are claimed one at a time. */
export type ClaimSource = ClaimRequest['from']

export interface SentClaim {
  readonly at: CellAddress
  readonly request: ClaimRequest
  /**
   * The monotonic time when the request was first sent. A repeated request keeps this time, because its lease may have
   * begun then.
   */
  readonly sentMs: number
}

export interface AnsweredClaim extends SentClaim {
  readonly claim: Claim
}

/**
 * Makes the claim requests of one topic.
 *
 * A failed claim may have taken effect: perhaps only its reply was lost. The claimer keeps the failed request and
 * repeats it as the next claim of the same cell. The repeated request returns the tasks that the first one took. After
 * one lease the claimer drops the request, because the lease of these tasks has expired by then.
 *
 * The claimer does not send requests. The caller sends them (`store.claim`) and registers the claimed tasks right after
 * its own await. With another async function in between, the notice that a task was cancelled or replaced could arrive
 * after the reply but before the task is registered, and would be lost.
 */
export class Claimer {
  readonly #parts: ClaimerParts
  /** Requests that got no reply, by cell. */
  readonly #unanswered: Record<ClaimSource, Map<number, SentClaim>> = {
    lanes: new Map(),
    suspects: new Map(),
  }

  constructor(parts: ClaimerParts) {
    this.#parts = parts
  }

  /**
   * Returns the claim to send next. A repeated request keeps its own limit and lease, so it may return more than
   * `limit` tasks. If `limit` is 0, no request is repeated: if the first request was lost, the repeated one would take
   * tasks, although the topic is paused or there is no capacity.
   */
  next(cell: number, limit: number, from: ClaimSource, leaseMs: number): SentClaim {
    const repeated = limit === 0 ? null : this.#takeUnanswered(cell, from)
    return repeated ?? this.#newClaim(cell, limit, from, leaseMs)
  }

  /** Keeps the request of a claim that failed, to be repeated. A request for no tasks has none to return. */
  unanswered(sent: SentClaim): void {
    if (sent.request.limit > 0) this.#unanswered[sent.request.from].set(sent.at.cell, sent)
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
