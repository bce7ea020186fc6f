import type { Clock } from '../clock.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import type { SettleAnswer, SettleOutcome } from '../timetable.ts'
import type { Settings } from '../values/config.ts'
import type { Capacity } from './capacity.ts'
import type { HeldClaim, HeldTask } from './held.ts'
import { Renewer } from './renewer.ts'
import type { Reporter } from './reporter.ts'
import { Settler } from './settler.ts'
import type { StartRate } from './start-rate.ts'
import { settleOutcomeOf, type Verdict } from './verdict.ts'

export interface HeldTasksParts {
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
}

/**
 * The tasks that a consumer claimed and whose outcomes are not recorded. Extends their leases and records their
 * outcomes.
 */
export class HeldTasks {
  readonly #parts: HeldTasksParts
  readonly #capacity: Capacity
  readonly #startRate: StartRate
  readonly #reporter: Reporter
  readonly #settler: Settler
  readonly #renewer: Renewer
  /** Claims by cell and stamp, to find the task that a call of `fence` or `limit` names. */
  readonly #claims = new Map<string, HeldClaim>()
  /** The number of outcomes that were not recorded because the claim no longer held the task. */
  staleCount = 0

  constructor(parts: HeldTasksParts, capacity: Capacity, startRate: StartRate, reporter: Reporter) {
    this.#parts = parts
    this.#capacity = capacity
    this.#startRate = startRate
    this.#reporter = reporter
    const { store, clock, settings } = parts
    this.#settler = new Settler(
      store,
      clock,
      () => capacity.batchMax,
      (...settled) => this.#settled(...settled),
      (error) => reporter.callFailed('settle', error),
    )
    this.#renewer = new Renewer(
      store,
      clock,
      () => settings().leaseMs,
      (claim) => this.#lost(claim),
      (error) => reporter.callFailed('extend', error),
    )
  }

  get count(): number {
    return [...this.#claims.values()].reduce((sum, { open }) => sum + open, 0)
  }

  /** Extends the lease of a claim until each of its tasks is settled. */
  hold(claim: HeldClaim): void {
    this.#renewer.add(claim)
    this.#claims.set(nameOf(claim.at.cell, claim.stamp), claim)
  }

  /** Extends the leases that are due for extension, without waiting for the timer. */
  renew(): void {
    this.#renewer.step()
  }

  /** Gives back a task that was not started. The timetable does not count the delivery. */
  giveBack(held: HeldTask): void {
    this.conclude(held, { kind: 'return' })
  }

  judge(held: HeldTask, verdict: Verdict): void {
    const { settings, random } = this.#parts
    if (verdict.kind === 'failed') this.#reporter.attemptFailed(held.entry, verdict)
    this.conclude(held, settleOutcomeOf(verdict, held.entry.failures, settings().retry, random.fraction()))
  }

  /** Records an outcome. Does nothing if the task already has an outcome, for example after a timeout. */
  conclude(held: HeldTask, outcome: SettleOutcome): void {
    if (held.isEnded) return
    held.isEnded = true
    held.call = null
    this.#startRate.drop(held)
    this.#settler.add(held, outcome)
    this.#capacity.unrecorded = this.#settler.backlog
  }

  /** Ends a task whose outcome was recorded in the transaction of its handler. */
  recorded(held: HeldTask, outcome: SettleOutcome): void {
    if (held.isEnded) return
    held.isEnded = true
    held.call = null
    this.#settled(held, outcome, 'settled')
  }

  /** Marks a held task that was cancelled or replaced. */
  fence(cell: number, key: string, stamp: number, cause: 'cancelled' | 'replaced'): void {
    const held = this.#find(cell, key, stamp)
    // A marked task does not start, and no 'retry' event is emitted for it. Do not mark a replaced task whose outcome
    // is decided already: 'replaced' may only mean that the lease is in doubt. The store may still accept the outcome,
    // and then a retry follows. After 'cancelled' no retry follows, so always mark a cancelled task.
    if (held === undefined || (held.isEnded && cause === 'replaced')) return
    held.isFenced = true
    held.call?.fence(held, cause === 'cancelled' ? 'cancelled' : 'lease-lost')
  }

  /**
   * Sets the monotonic time at which the lease of one task ends, if it ends before the lease of its claim. Null removes
   * the limit.
   */
  limit(cell: number, key: string, stamp: number, endMs: number | null): void {
    const held = this.#find(cell, key, stamp)
    if (held !== undefined) held.trustedUntilMs = endMs ?? Number.POSITIVE_INFINITY
  }

  /** Resolves when every outcome is recorded or given up. */
  async stop(): Promise<void> {
    // Stop extending leases first: an unreachable store is then retried only until the leases expire, not forever.
    await this.#renewer.stop()
    await this.#settler.drained()
  }

  #settled(held: HeldTask, outcome: SettleOutcome, answer: SettleAnswer): void {
    this.#forget(held)
    this.#capacity.unrecorded = this.#settler.backlog
    if (answer === 'stale') this.staleCount++
    else {
      this.#reporter.settled(outcome)
      // A task that was cancelled while it ran is not retried, so no 'retry' is announced.
      if (outcome.kind !== 'retry' || !held.isFenced) this.#reporter.announce(held.entry, outcome)
    }
    this.#capacity.offer()
  }

  #find(cell: number, key: string, stamp: number): HeldTask | undefined {
    return this.#claims.get(nameOf(cell, stamp))?.tasks.find((task) => task.entry.key === key)
  }

  #forget({ claim }: HeldTask): void {
    if (--claim.open > 0) return
    this.#renewer.remove(claim)
    this.#claims.delete(nameOf(claim.at.cell, claim.stamp))
  }

  /**
   * Handles a claim that the store no longer knows. Aborts the handlers of its tasks; the store answers their outcomes
   * with 'stale'.
   */
  #lost(claim: HeldClaim): void {
    claim.trustedUntilMs = Number.NEGATIVE_INFINITY
    for (const held of claim.tasks) held.call?.fence(held, 'lease-lost')
  }
}

function nameOf(cell: number, stamp: number): string {
  return `${cell}/${stamp}`
}
