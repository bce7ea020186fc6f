/** What this process holds: claim calls and their tasks, from the claim to the settled outcome. */
import type { HeapMember } from '../lib/heap.ts'
import type { CellAddress, Claim, ClaimedTask, ClaimRequest } from '../timetable.ts'
import type { Call } from './handler-call.ts'

/** A claim call, with the moment it was sent first. */
export interface SentClaim {
  readonly request: ClaimRequest
  readonly sentMs: number
}

export class HeldClaim implements HeapMember {
  /** The request that made it: what the lease is extended by. */
  readonly key: string
  readonly at: CellAddress
  readonly stamp: number
  readonly leaseMs: number
  readonly tasks: readonly HeldTask[]
  /** Monotonic: until then nobody else can have its tasks. Counted from before the claim was sent. */
  trustedUntilMs: number
  /** Extensions sent so far: only the answer to the newest may raise the trust. */
  renewals = 0
  /** Tasks whose outcome is not recorded yet. */
  open: number
  position = -1
  /** The timetable's clock when the claim was made, and ours when we heard of it. */
  readonly #nowMs: number
  readonly #heardMs: number

  constructor(at: CellAddress, { request, sentMs }: SentClaim, claim: Claim, heardMs: number) {
    this.key = request.req
    this.at = at
    this.leaseMs = request.leaseMs
    this.stamp = claim.stamp
    this.tasks = claim.tasks.map((task) => new HeldTask(this, task))
    this.open = claim.tasks.length
    this.trustedUntilMs = sentMs + request.leaseMs
    this.#nowMs = claim.nowMs
    this.#heardMs = heardMs
  }

  /** The timetable's clock at a moment of ours: a worker's wall clock is never asked. */
  recordMs(monotonicMs: number): number {
    return this.#nowMs + Math.max(0, Math.floor(monotonicMs - this.#heardMs))
  }
}

export class HeldTask {
  readonly claim: HeldClaim
  readonly entry: ClaimedTask
  /** Its outcome is decided; whatever its handler says after that is not listened to. */
  ended = false
  /** The call it runs in, if it runs. */
  call: Call | null = null
  /** Cancelled or replaced by somebody while we hold it, or its lease is lost. */
  fenced = false
  /** Monotonic, where its lease ends before that of the others of its claim. */
  trustedUntilMs = Number.POSITIVE_INFINITY

  constructor(claim: HeldClaim, entry: ClaimedTask) {
    this.claim = claim
    this.entry = entry
  }
}
