/**
 * A task is one timer. This file is the whole vocabulary; read it first.
 *
 *             schedule               claim, when due               done
 *   ( ) ────────────────▶ PENDING ───────────────────▶ CLAIMED ───────────▶ DONE
 *                          │  ▲ ▲    store → prepare    │ │ │ obsolete
 *                  cancel  │  │ └── retry · snooze ─────┘ │ └──────────▶ OBSOLETE
 *                          ▼  │     · lease ran out       │ attempts used up · rejected
 *                    CANCELLED│     · given back          ▼ · poison · late
 *                             └──────────── replay ───── DEAD ── purge ──▶ ( )
 *
 * A claim holds a task for one lease, which is extended while a handler runs. The stamp is the claim's fencing token: it
 * grows with every claim of a cell and does not change when the lease is extended. So a consumer that slept through its
 * lease has an outdated stamp, and its outcome is ignored.
 */
import type { Duration } from './values/duration.ts'
import type { Instant } from './values/instant.ts'

export type State = 'pending' | 'claimed' | 'done' | 'cancelled' | 'obsolete' | 'dead'

/** The drawing as data: the next states of each state. The contract suite checks timetables against it. */
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

/** Why a task is dead: its attempts failed, its handler returned `{ dead }`, its lease was lost three times in a row, … */
export type DeadCause = 'attempts' | 'handler' | 'poison' | 'payload' | 'late'

/** What a handler gets. */
export interface Task<Out> {
  /** Assigned by Tocsin, the same at every attempt: use it as the idempotency key. */
  readonly id: string
  readonly topic: string
  /** Chosen by the caller: unique among the live tasks of the topic. */
  readonly key: string
  readonly payload: Out
  /** When the task was scheduled to fire. Retries and snoozes do not change it. */
  readonly dueAt: Date
  /** Time of the call minus the time it was to fire, in ms. */
  readonly latenessMs: number
  /** Failures so far + 1. Snoozes, crashes and lost leases do not count. */
  readonly attempt: number
  /** How many times the task was claimed, including this one. */
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
}

/** What `get` and `list` show. */
export interface TaskInfo<Out> extends Omit<Task<Out>, 'id' | 'latenessMs'> {
  /** Without a ledger: null until the first claim. */
  readonly id: string | null
  readonly state: State
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly lastError: string | null
  readonly deadCause: DeadCause | null
}

/** `delay` from now, or `at` an instant: exactly one of them. */
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
  /** Fires somewhere in [due, due + smear]. */
  readonly smear?: Duration | undefined
  /** If the key has a live task: replace that task (default), or keep it. */
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

/** What a handler may return; nothing means done, a throw means retry with backoff. */
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
 * Returns the id of a task in a timetable without a ledger: its key and the stamp of its first claim. A pending task stores
 * no id. Ids are unique, because a cell never assigns a stamp twice.
 */
export function taskId(topic: string, key: string, firstStamp: number): string {
  return `${topic}/${key}/${firstStamp}`
}
