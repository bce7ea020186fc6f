/** A claim and its tasks while this process holds them: from the answered claim to the recorded outcomes. */
import type { HeapMember } from '../lib/heap.ts'
import type { CellAddress, ClaimedTask } from '../timetable.ts'
import type { AnsweredClaim } from './claimer.ts'
import type { HandlerCall } from './handler-call.ts'

export class HeldClaim implements HeapMember {
  /** The id of the claim request, by which the lease is extended. */
  readonly key: string
  readonly at: CellAddress
  readonly stamp: number
  readonly leaseMs: number
  readonly tasks: readonly HeldTask[]
  /** Monotonic end of the lease, counted from before the claim was sent: until then no other process has its tasks. */
  trustedUntilMs: number
  /** Extensions sent so far: only the answer to the newest may raise `trustedUntilMs`. */
  renewals = 0
  /** Tasks whose outcome is not recorded yet. */
  open: number
  position = -1
  /** The timetable's clock when the claim was made, and our monotonic clock when its answer arrived. */
  readonly #nowMs: number
  readonly #answeredMs: number

  constructor({ at, request, sentMs, claim }: AnsweredClaim, answeredMs: number) {
    this.key = request.req
    this.at = at
    this.leaseMs = request.leaseMs
    this.stamp = claim.stamp
    this.tasks = claim.tasks.map((task) => new HeldTask(this, task))
    this.open = claim.tasks.length
    this.trustedUntilMs = sentMs + request.leaseMs
    this.#nowMs = claim.nowMs
    this.#answeredMs = answeredMs
  }

  /** Returns the timetable's clock at a moment of our monotonic clock. This machine's wall clock is never read. */
  recordMs(monotonicMs: number): number {
    return this.#nowMs + Math.max(0, Math.floor(monotonicMs - this.#answeredMs))
  }
}

export class HeldTask {
  readonly claim: HeldClaim
  readonly entry: ClaimedTask
  /** True once the outcome is decided; an answer of the handler after that is ignored. */
  isEnded = false
  /** The handler call that the task runs in; null while it does not run. */
  call: HandlerCall | null = null
  /** True if the task was cancelled or replaced while we hold it, or its lease is lost. */
  isFenced = false
  /** Monotonic end of the task's own lease, if it ends before the lease of its claim. */
  trustedUntilMs = Number.POSITIVE_INFINITY

  constructor(claim: HeldClaim, entry: ClaimedTask) {
    this.claim = claim
    this.entry = entry
  }
}
