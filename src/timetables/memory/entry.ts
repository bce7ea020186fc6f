import type { HeapMember } from '../../lib/heap.ts'
import type { DeadCause, Priority } from '../../task.ts'

/** One live task. Fields that most tasks never use (tries, tags, claim) are null, to save memory. */
export class Entry implements HeapMember {
  readonly key: string
  readonly body: string
  readonly priority: Priority
  readonly tags: readonly string[] | null
  readonly createdMs: number
  /** The index in its lane's heap while it waits, in its claim's arrays while it is held. */
  position = -1
  /** Waits in the suspects' lane instead of its priority's: it lost two leases in a row. */
  suspect = false
  claim: ClaimRecord | null = null
  /** Cancelled while held: the current attempt is the last. */
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

/** Earlier claims of a task, once one did not end it. */
export interface Tries {
  /** When the task was first due; its score in the lane is the next ring. */
  dueMs: number
  /** The stamp of the first claim, from which the id is made. */
  firstStamp: number
  failures: number
  deliveries: number
  /** Leases lost in a row, reset by any outcome. Counted apart from failures. */
  lost: number
  /** The stamp under which a suspect was started alone. */
  startedStamp: number
  error: string | null
  updatedMs: number
}

/** One claim call. It has one lease for all its tasks, so that extending it is one step, whatever its size. */
export class ClaimRecord implements HeapMember {
  /** The id of the request that made it. */
  readonly key: string
  readonly stamp: number
  readonly members: readonly Entry[]
  readonly scores: readonly number[]
  /** Holds one suspect, by itself. */
  readonly alone: boolean
  /** Members not yet settled. */
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

/** A dead task with its body. A new task of the same key shares nothing with it. */
export interface Grave {
  readonly entry: Entry
  readonly dueMs: number
  readonly diedMs: number
  readonly cause: DeadCause
  readonly error: string
}

/** ms * 1000 + failures: of two tasks that ring at the same time, the one with fewer failures goes first. */
export function scoreOf(ringMs: number, failures: number): number {
  return ringMs * 1000 + failures
}

/** The highest score of a task that is due at `ms`: the last three digits count failures. */
export function lastScoreAt(ms: number): number {
  return scoreOf(ms, 999)
}

export function ringMsOf(score: number): number {
  return Math.floor(score / 1000)
}
