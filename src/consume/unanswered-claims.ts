import type { Clock } from '../clock.ts'
import type { SentClaim } from './held.ts'

/**
 * Claims that failed: each may have taken effect, and only its answer be lost. So its request is repeated with the next
 * claim of the cell, and brings what it took. After a lease that is of no use: the tasks are rescued by then.
 */
export class UnansweredClaims {
  readonly #clock: Clock
  readonly #sent = new Map<string, SentClaim>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  keep(cell: number, sent: SentClaim): void {
    this.#sent.set(nameOf(cell, sent.request.from), sent)
  }

  take(cell: number, from: 'lanes' | 'suspects'): SentClaim | null {
    const name = nameOf(cell, from)
    const sent = this.#sent.get(name)
    if (sent === undefined) return null
    this.#sent.delete(name)
    return this.#clock.monotonicNow() < sent.sentMs + sent.request.leaseMs ? sent : null
  }
}

function nameOf(cell: number, from: 'lanes' | 'suspects'): string {
  return `${from}/${cell}`
}
