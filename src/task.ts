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
 * A claim is a promise with an end: whoever claimed a task has it for one lease, prolonged while a handler runs.
 * A stamp proves the claim. It grows with every claim of a cell and does not change when the lease is extended, so
 * a holder that slept through its lease finds its stamp outdated, and what it says is not believed.
 */
import type { Duration } from './values/duration.ts'
import type { Instant } from './values/instant.ts'

export type State = 'pending' | 'claimed' | 'done' | 'cancelled' | 'obsolete' | 'dead'

/** The drawing as data: what may become of a task in each state. The contract suite holds timetables to it. */
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

/** Why a task is dead: its attempts failed, its handler said so, it took its process down, … */
export type DeadCause = 'attempts' | 'handler' | 'poison' | 'payload' | 'late'

/** What a handler gets. */
export interface Task<Out> {
  /** Made by us, the same at every attempt: the idempotency key. */
  readonly id: string
  readonly topic: string
  /** Yours: unique among the topic's live tasks, and all it takes to find one. */
  readonly key: string
  readonly payload: Out
  /** When it was to fire. Retries and snoozes do not move it. */
  readonly dueAt: Date
  /** fired − due. */
  readonly latenessMs: number
  /** Failures so far + 1. Snoozes, crashes and lost leases do not count. */
  readonly attempt: number
  /** Times it was handed to somebody, this one included. */
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
}

/** What `get` and `list` show. */
export interface TaskInfo<Out> extends Omit<Task<Out>, 'id' | 'latenessMs'> {
  /** Null until the first claim where no ledger keeps it. */
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
  /** Made if none is given. */
  readonly key?: string | undefined
  /** What it belongs to, up to 4: 'campaign:77'. */
  readonly tags?: readonly string[] | undefined
  readonly priority?: Priority | undefined
  /** Fires somewhere in [due, due + smear]. */
  readonly smear?: Duration | undefined
  /** When the key has a live task: supersede it (default), or leave it. */
  readonly onConflict?: OnConflict | undefined
}

export type Scheduled = {
  readonly key: string
  readonly dueAt: Date
  readonly outcome: 'created' | 'replaced' | 'kept'
  /** A handler has the older task of this key right now. */
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
 * The id of a task in a timetable without a ledger: its key and the stamp of its first claim. A pending task costs
 * no byte for it; two tasks never share one, because a cell never gives a stamp twice.
 */
export function taskId(topic: string, key: string, firstStamp: number): string {
  return `${topic}/${key}/${firstStamp}`
}
