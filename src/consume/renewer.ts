import type { Clock } from '../clock.ts'
import { Heap } from '../lib/heap.ts'
import type { TaskStore } from '../store.ts'
import { Alarm } from '../lib/alarm.ts'
import type { HeldClaim } from './held.ts'

/**
 * Keeps the leases of claims that still have work: each is extended after a third of its length, so that two
 * extensions may fail before anything is lost. One call per claim, whatever its size.
 *
 * Trust counts from before a call was sent: the timetable cannot have started the lease any earlier.
 */
export class Renewer {
  readonly #store: TaskStore
  readonly #clock: Clock
  readonly #leaseMs: () => number
  readonly #onLost: (claim: HeldClaim) => void
  readonly #onError: (error: unknown) => void
  readonly #claims = new Heap<HeldClaim>()
  readonly #alarm: Alarm
  readonly #renewing = new Set<Promise<void>>()
  #stopped = false

  constructor(
    store: TaskStore,
    clock: Clock,
    leaseMs: () => number,
    onLost: (claim: HeldClaim) => void,
    onError: (error: unknown) => void,
  ) {
    this.#store = store
    this.#clock = clock
    this.#leaseMs = leaseMs
    this.#onLost = onLost
    this.#onError = onError
    this.#alarm = new Alarm(clock, () => this.step())
  }

  /** A third of its lease after it was sent, which for a repeated claim may be now. */
  add(claim: HeldClaim): void {
    this.#claims.push(claim, claim.trustedUntilMs - (claim.leaseMs * 2) / 3)
    this.#alarm.noLaterThan(this.#claims.headScore())
  }

  /** Every task of it is settled. */
  remove(claim: HeldClaim): void {
    this.#claims.remove(claim)
  }

  /** Extends what is due. */
  step(): void {
    const nowMs = this.#clock.monotonicNow()
    while (this.#claims.headScore() <= nowMs) {
      const claim = this.#claims.head() as HeldClaim
      const leaseMs = this.#leaseMs()
      this.#claims.move(claim, nowMs + leaseMs / 3)
      const renewal = this.#extend(claim, leaseMs, nowMs).finally(() => this.#renewing.delete(renewal))
      this.#renewing.add(renewal)
    }
    if (!this.#stopped) this.#alarm.noLaterThan(this.#claims.headScore())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#alarm.off()
    await Promise.all(this.#renewing)
  }

  async #extend(claim: HeldClaim, leaseMs: number, sentMs: number): Promise<void> {
    // Should the lease have become shorter, the timetable may hold us to that before we hear of it.
    claim.trustedUntilMs = Math.min(claim.trustedUntilMs, sentMs + leaseMs)
    const renewal = ++claim.renewals
    try {
      const answer = await this.#store.extend(claim.at, claim.key, leaseMs)
      if (answer === 'extended') {
        if (renewal === claim.renewals) claim.trustedUntilMs = sentMs + leaseMs
        return
      }
      // Everything may have been settled while the call was under way: then there was no lease left to lose.
      if (claim.open > 0) this.#onLost(claim)
    } catch (error) {
      this.#onError(error)
    }
  }
}
