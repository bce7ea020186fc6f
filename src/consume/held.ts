/**
 * A claim and its tasks while this process holds them, that is, from the reply to the claim until the outcomes are
 * recorded.
 */
import type { HeapMember } from '../lib/heap.ts'
import type { CellAddress, ClaimedTask } from '../timetable.ts'
import type { AnsweredClaim } from './claimer.ts'
import type { HandlerCall } from './handler-call.ts'
import type { RatedTask } from './start-rate.ts'

export class HeldClaim implements HeapMember {
  /** The id of the claim request. Extensions of the lease name the claim by this id. */
  readonly key: string
  readonly at: CellAddress
  readonly stamp: number
  readonly leaseMs: number
  readonly from: 'lanes' | 'suspects'
  readonly tasks: readonly HeldTask[]
  /**
   * The monotonic end of the lease, counted from before the claim or its last extension was sent. No other process can
   * claim the tasks before this time. -Infinity once the lease is lost.
   */
  trustedUntilMs: number
  /** The number of extensions sent so far. Only the answer to the newest extension may raise `trustedUntilMs`. */
  renewals = 0
  /** The number of tasks whose outcome is not recorded yet. */
  open: number
  position = -1
  /** The monotonic time when the reply to the claim arrived. */
  readonly answeredMs: number
  /** The time of the timetable's clock in the reply to the claim. */
  readonly #nowMs: number

  constructor({ at, request, sentMs, claim }: AnsweredClaim, answeredMs: number) {
    this.key = request.req
    this.at = at
    this.leaseMs = request.leaseMs
    this.from = request.from
    this.stamp = claim.stamp
    this.tasks = claim.tasks.map((task) => new HeldTask(this, task))
    this.open = claim.tasks.length
    this.trustedUntilMs = sentMs + request.leaseMs
    this.answeredMs = answeredMs
    this.#nowMs = claim.nowMs
  }

  /** Converts a monotonic time of this process to the timetable's clock. This machine's wall clock is never read. */
  recordMs(monotonicMs: number): number {
    return this.#nowMs + Math.max(0, Math.floor(monotonicMs - this.answeredMs))
  }
}

export class HeldTask implements RatedTask {
  readonly claim: HeldClaim
  readonly entry: ClaimedTask
  /** True once the outcome is decided. A later answer of the handler is ignored. */
  isEnded = false
  hasStart = false
  /** The handler call that runs the task; null if no call runs it. */
  call: HandlerCall | null = null
  /** True if the task was cancelled or replaced while this process holds it, or if its lease is lost. */
  isFenced = false
  /** The monotonic end of the task's own lease, if it ends before the lease of its claim; otherwise Infinity. */
  trustedUntilMs = Number.POSITIVE_INFINITY

  constructor(claim: HeldClaim, entry: ClaimedTask) {
    this.claim = claim
    this.entry = entry
  }
}
