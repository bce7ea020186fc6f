import type { Clock } from '../clock.ts'
import { Heap } from '../lib/heap.ts'
import type { TaskStore } from '../store.ts'
import { Alarm } from '../lib/alarm.ts'
import type { HeldClaim } from './held.ts'

/**
 * Extends the leases of claims that have open tasks. An extension is sent after every third of a lease: two are sent
 * before the lease expires, so one may fail. One call extends all tasks of a claim.
 *
 * `HeldClaim.trustedUntilMs` is the end of the lease for this process. It counts from before the call was sent, because
 * the timetable cannot have started the lease earlier.
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
  #isStopped = false

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

  /** Plans the first extension, a third of the lease after the claim was sent. For a repeated claim this may be now. */
  add(claim: HeldClaim): void {
    this.#claims.push(claim, claim.trustedUntilMs - (claim.leaseMs * 2) / 3)
    this.#alarm.noLaterThan(this.#claims.headScore())
  }

  /** Stops extending a claim whose tasks are all settled. */
  remove(claim: HeldClaim): void {
    this.#claims.remove(claim)
  }

  /** Extends the leases that are due for extension. */
  step(): void {
    const nowMs = this.#clock.monotonicNow()
    while (this.#claims.headScore() <= nowMs) {
      const claim = this.#claims.head() as HeldClaim
      const leaseMs = this.#leaseMs()
      this.#claims.move(claim, nowMs + leaseMs / 3)
      const renewal = this.#extend(claim, leaseMs, nowMs).finally(() => this.#renewing.delete(renewal))
      this.#renewing.add(renewal)
    }
    if (!this.#isStopped) this.#alarm.noLaterThan(this.#claims.headScore())
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#alarm.off()
    await Promise.all(this.#renewing)
  }

  async #extend(claim: HeldClaim, leaseMs: number, sentMs: number): Promise<void> {
    // If the topic's lease became shorter, the timetable may apply the shorter lease although its answer is lost. Trust
    // only the shorter lease from now on.
    claim.trustedUntilMs = Math.min(claim.trustedUntilMs, sentMs + leaseMs)
    const renewal = ++claim.renewals
    try {
      const answer = await this.#store.extend(claim.at, claim.key, leaseMs)
      if (answer === 'extended') {
        if (renewal === claim.renewals) claim.trustedUntilMs = sentMs + leaseMs
        return
      }
      // If every task was settled while the call was under way, no lease was left that could be lost.
      if (claim.open > 0) this.#onLost(claim)
    } catch (error) {
      this.#onError(error)
    }
  }
}
