import type { HeapMember } from '../../lib/heap.ts'
import type { DeadCause, Priority } from '../../task.ts'

/** One live task. What most tasks never have (tries, tags, a claim) is null and costs a pointer. */
export class Entry implements HeapMember {
  readonly key: string
  readonly body: string
  readonly priority: Priority
  readonly tags: readonly string[] | null
  readonly createdMs: number
  /** In its lane while it waits, in its claim's arrays while it is held. */
  position = -1
  /** The lane it waits in is its priority's, unless it is suspected of taking its process down. */
  suspect = false
  claim: ClaimRecord | null = null
  /** Cancelled while held: this attempt ends as it ends, and none follows. */
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

/** What is remembered of earlier claims, once there was one that did not end the task. */
export interface Tries {
  /** When it was to fire first; its lane only knows when it fires next. */
  dueMs: number
  /** Of the first claim: the id is made of it. */
  firstStamp: number
  failures: number
  deliveries: number
  /** Leases lost in a row: any outcome sets it back to 0. Never mixed with failures. */
  lost: number
  /** The stamp under which a suspect was started alone. */
  startedStamp: number
  error: string | null
  updatedMs: number
}

/** One claim call. The lease belongs to it as a whole, so that extending it is one step whatever its size. */
export class ClaimRecord implements HeapMember {
  /** The request that made it. */
  readonly key: string
  readonly stamp: number
  readonly members: readonly Entry[]
  readonly scores: readonly number[]
  /** Taken from the suspects: one task, by itself. */
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

/** A dead task with its body, apart from the living: a new task of the same key shares nothing with it. */
export interface Grave {
  readonly entry: Entry
  readonly dueMs: number
  readonly diedMs: number
  readonly cause: DeadCause
  readonly error: string
}

/** ms * 1000 + failures: at one moment, what failed less often goes first. */
export function scoreOf(ringMs: number, failures: number): number {
  return ringMs * 1000 + failures
}

/** What is due at a moment has at most this score: three digits count failures. */
export function lastScoreAt(ms: number): number {
  return scoreOf(ms, 999)
}

export function ringMsOf(score: number): number {
  return Math.floor(score / 1000)
}
