import type { Clock } from '../clock.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import type { CellAddress, Claim, ClaimRequest } from '../timetable.ts'
import type { Settings } from '../values/config.ts'
import type { Reporter } from './reporter.ts'

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

interface SentClaim {
  readonly request: ClaimRequest
  /** Monotonic. A repeated request keeps the time of its first sending: its lease may have begun then. */
  readonly sentMs: number
}

export interface AnsweredClaim extends SentClaim {
  readonly at: CellAddress
  readonly claim: Claim
}

/**
 * Sends the claims of one topic.
 *
 * A claim that failed may have taken effect, with only its reply lost. The claimer keeps its request and repeats it with
 * the next claim of the same cell, which returns the tasks that it took. After one lease the request is dropped: by then
 * the tasks were rescued.
 */
export class Claimer {
  readonly #parts: ClaimerParts
  readonly #reporter: Reporter
  /** By cell. */
  readonly #unanswered: Record<ClaimSource, Map<number, SentClaim>> = {
    lanes: new Map(),
    suspects: new Map(),
  }

  constructor(parts: ClaimerParts, reporter: Reporter) {
    this.#parts = parts
    this.#reporter = reporter
  }

  /** Claims up to `limit` tasks. A repeated request keeps its own limit and lease, and may return more than `limit`. */
  async claim(cell: number, limit: number, from: ClaimSource, leaseMs: number): Promise<AnsweredClaim> {
    const { topic, store } = this.#parts
    const at = { topic, cell }
    const { request, sentMs } = this.#takeUnanswered(cell, from) ?? this.#newClaim(limit, from, leaseMs)
    let isAnswered = false
    try {
      const claim = await store.claim(at, request)
      isAnswered = true
      this.#reporter.poisoned(claim.poisoned)
      return { at, request, sentMs, claim }
    } finally {
      if (!isAnswered) this.#unanswered[from].set(cell, { request, sentMs })
    }
  }

  #takeUnanswered(cell: number, from: ClaimSource): SentClaim | null {
    const sent = this.#unanswered[from].get(cell)
    if (sent === undefined) return null
    this.#unanswered[from].delete(cell)
    return this.#parts.clock.monotonicNow() < sent.sentMs + sent.request.leaseMs ? sent : null
  }

  #newClaim(limit: number, from: ClaimSource, leaseMs: number): SentClaim {
    const { clock, random, settings } = this.#parts
    const wholePrefixes = settings().mergeMs > 0
    const request = { req: random.uniqueId(), limit, leaseMs, from, wholePrefixes }
    return { request, sentMs: clock.monotonicNow() }
  }
}
