import type { HeapMember } from '../../lib/heap.ts'
import type { DeadCause, Priority } from '../../task.ts'

/** One live task or hint. Fields that most waiting tasks do not use (tries, tags, claim) are null, to save memory. */
export class Entry implements HeapMember {
  readonly key: string
  readonly body: string
  readonly priority: Priority
  readonly tags: readonly string[] | null
  readonly createdMs: number
  /** The index of the entry: in the heap of its lane while it waits, in the arrays of its claim while it is held. */
  position = -1
  /**
   * True if the task waits in the suspects' lane instead of the lane of its priority, because it lost two leases in a
   * row.
   */
  suspect = false
  claim: ClaimRecord | null = null
  /** True if the task was cancelled while it was held. The current attempt is then its last. */
  cancelled = false
  tries: Tries | null = null

  constructor(
    key: string,
    body: string,
    priority: Priority,
    tags: readonly string[] | null,
    createdMs: number,
  ) {
    this.key = key
    this.body = body
    this.priority = priority
    this.tags = tags
    this.createdMs = createdMs
  }
}

/**
 * The record of the earlier claims of a task. It exists once the task was retried or snoozed, lost a lease, or died.
 */
export interface Tries {
  /**
   * The due time in ms. Retries, snoozes and lost leases do not change it. The next ring is in the score of the task.
   */
  dueMs: number
  /** The stamp of the first claim. The id of the task is made from it. */
  firstStamp: number
  failures: number
  deliveries: number
  /**
   * The number of leases lost in a row, counted separately from failures. Retry, snooze, reschedule and replay reset
   * it.
   */
  lost: number
  /** The stamp under which a suspect was started alone. 0 if there is none. */
  startedStamp: number
  error: string | null
  updatedMs: number
}

/** One claim call. All its tasks have one lease, so an extension is one step for any number of tasks. */
export class ClaimRecord implements HeapMember {
  /** The id of the claim request. */
  readonly key: string
  readonly stamp: number
  readonly members: readonly Entry[]
  readonly scores: readonly number[]
  /** True if the claim is for a suspect, which is claimed alone. */
  readonly alone: boolean
  /** The number of members that the claim still holds. */
  open: number
  position = -1

  constructor(
    key: string,
    stamp: number,
    members: readonly Entry[],
    scores: readonly number[],
    alone: boolean,
  ) {
    this.key = key
    this.stamp = stamp
    this.members = members
    this.scores = scores
    this.alone = alone
    this.open = members.length
  }
}

/** A dead task with its body. A new task with the same key only supersedes it. */
export interface Grave {
  readonly entry: Entry
  /** True once the key was scheduled again. */
  superseded: boolean
  readonly dueMs: number
  readonly diedMs: number
  readonly cause: DeadCause
  readonly error: string
}

/** Returns ms * 1000 + failures. Of two tasks that ring at the same time, the task with fewer failures goes first. */
export function scoreOf(ringMs: number, failures: number): number {
  return ringMs * 1000 + failures
}

/** Returns the highest score of a task that is due at `ms`. The last three digits of a score count failures. */
export function lastScoreAt(ms: number): number {
  return scoreOf(ms, 999)
}

export function ringMsOf(score: number): number {
  return Math.floor(score / 1000)
}
