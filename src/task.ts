/**
 * A task is one timer. This file defines the words that the other files use: read it first.
 *
 *             schedule               claim, when due                   done
 *   ( ) ────────────────▶ PENDING ───────────────────▶ CLAIMED ─────────────────────▶ DONE
 *                          │  ▲ ▲                       │ │ │ └─ obsolete ──────────▶ OBSOLETE
 *                  cancel  │  │ └── retry · snooze ─────┘ │ └─── cancelled in flight ▶ CANCELLED
 *                          ▼  │     · lease ran out       │ attempts used up · rejected
 *                    CANCELLED│     · given back          ▼ · poison · late
 *                             └──────────── replay ───── DEAD ── purge ──▶ ( )
 *
 * A claim holds a task for one lease. The lease is extended while a handler runs. The stamp is the claim's fencing
 * token: it grows with every claim of a cell, and extending the lease does not change it. So a consumer whose lease has
 * expired has an outdated stamp, and its outcome is ignored.
 */
import type { Duration } from './values/duration.ts'
import type { Instant } from './values/instant.ts'

export type State = 'pending' | 'claimed' | 'done' | 'cancelled' | 'obsolete' | 'dead'

/** The next states of each state, as in the drawing above. The contract suite checks timetables against this table. */
export const TRANSITIONS: Readonly<Record<State, readonly State[]>> = {
  pending: ['claimed', 'cancelled'],
  claimed: ['done', 'pending', 'dead', 'obsolete', 'cancelled'],
  done: [],
  cancelled: [],
  obsolete: [],
  dead: ['pending'],
}

export const PRIORITIES = ['high', 'normal', 'low'] as const
export type Priority = (typeof PRIORITIES)[number]

/** Why a task is dead: all attempts failed, the handler returned `{ dead }`, poison, a bad payload, or too late. */
export type DeadCause = 'attempts' | 'handler' | 'poison' | 'payload' | 'late'

/** The argument of a handler. */
export interface Task<Out> {
  /** Assigned by Tocsin. The id is the same at every attempt: use it as the idempotency key. */
  readonly id: string
  readonly topic: string
  /** Chosen by the caller. A topic has at most one live task with this key. */
  readonly key: string
  readonly payload: Out
  /** The time for which the task was scheduled. Retries and snoozes do not change this time. */
  readonly dueAt: Date
  /** How late the handler was called: the time of the call minus `dueAt`, in ms, at least 0. */
  readonly latenessMs: number
  /** The number of failures so far, plus 1. Snoozes, crashes and lost leases are not failures. */
  readonly attempt: number
  /**
   * How many claims delivered the task, including the current claim. A claim does not count if the task was given back
   * before its handler started.
   */
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
}

/** A task as `get` and `list` return it. */
export interface TaskInfo<Out> extends Omit<Task<Out>, 'id' | 'latenessMs'> {
  /** Without a ledger, the id is null until the first claim. */
  readonly id: string | null
  readonly state: State
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly lastError: string | null
  readonly deadCause: DeadCause | null
  /** Only of a dead task: true if its key was scheduled again since. Only `dead.replay({ keys })` replays such a task. */
  readonly superseded?: boolean
}

/** When a task is due: either `delay` from now, or `at` an instant. */
export type When =
  | { readonly delay: Duration; readonly at?: undefined }
  | { readonly at: Instant; readonly delay?: undefined }

export type OnConflict = 'replace' | 'keep'

export type NewTask<In> = When & {
  readonly payload: In
  /** A unique id by default. */
  readonly key?: string | undefined
  /** Up to 4 labels, like 'campaign:77', for `cancelBy`, `rescheduleBy` and `list`. */
  readonly tags?: readonly string[] | undefined
  readonly priority?: Priority | undefined
  /** The task fires at a random time between its due time and its due time + `smear`. */
  readonly smear?: Duration | undefined
  /** What to do if the key already has a live task: replace the task (default), or keep it. */
  readonly onConflict?: OnConflict | undefined
}

export type Scheduled = {
  readonly key: string
  readonly dueAt: Date
  readonly outcome: 'created' | 'replaced' | 'kept'
  /** True if a consumer holds the older task of this key. */
  readonly inFlight: boolean
}
export type Cancelled = { readonly key: string; readonly outcome: 'cancelled' | 'in-flight' | 'not-found' }
export type Rescheduled = {
  readonly key: string
  readonly outcome: 'rescheduled' | 'in-flight' | 'not-found'
  readonly dueAt: Date | null
}

/**
 * What a handler may return. A return without a value means done. A throw means a retry with backoff. Any other value is
 * ignored, with a warning, and means done; a misspelt outcome is a failure.
 */
export type Outcome =
  | { readonly snooze: Duration; readonly retry?: undefined; readonly dead?: undefined }
  | {
      readonly retry: Duration
      readonly reason?: string | undefined
      readonly snooze?: undefined
      readonly dead?: undefined
    }
  | { readonly dead: string; readonly snooze?: undefined; readonly retry?: undefined }

/**
 * Returns the id of a task in a timetable without a ledger: the topic, the key, and the stamp of the task's first
 * claim. Before its first claim, a task has no id. Ids are unique, because a cell never assigns the same stamp twice.
 */
export function taskId(topic: string, key: string, firstStamp: number): string {
  return `${topic}/${key}/${firstStamp}`
}
