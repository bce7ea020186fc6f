/** The options and results of `claim`, `settle` and `extend`, and their conversion to and from JSON. */
import type { Duration } from '../values/duration.ts'
import type { Task } from '../task.ts'
import { dateIn, durationOut, type WireTask } from './wire.ts'

/** A claimed task, with the claim token that `settle` and `extend` need. */
export interface ClaimedTask<Out> extends Task<Out> {
  readonly token: string
  readonly leaseUntil: Date
}

export interface ClaimOptions {
  /** The maximum number of tasks, from 1 to 1,000; 100 by default. */
  readonly limit?: number | undefined
  /** How long to wait for the first task; 0 by default, at most 60s. */
  readonly wait?: Duration | undefined
  /** How long the claim holds the tasks; the topic's lease by default. */
  readonly lease?: Duration | undefined
  readonly signal?: AbortSignal | undefined
}

/** A claimed task as `claim` returned it, or only its key and its claim token. */
export interface Held {
  readonly key: string
  readonly token: string
}

/** The outcome of a claimed task. A retry without `delay` uses the topic's backoff. */
export type Settling = Held &
  (
    | { readonly outcome: 'done'; readonly delay?: undefined; readonly reason?: undefined }
    | {
        readonly outcome: 'retry'
        readonly delay?: Duration | undefined
        readonly reason?: string | undefined
      }
    | { readonly outcome: 'snooze'; readonly delay: Duration; readonly reason?: undefined }
    | { readonly outcome: 'dead'; readonly reason?: string | undefined; readonly delay?: undefined }
  )

/** 'stale' means that the claim no longer held the task, and that the call had no effect on it. */
export type Settled = { readonly key: string; readonly outcome: 'settled' | 'stale' }
export type Extended = { readonly key: string; readonly outcome: 'extended' | 'stale' }

export function claimedIn<Out>({
  payload,
  dueAt,
  leaseUntil,
  ...task
}: WireTask<ClaimedTask<unknown>>): ClaimedTask<Out> {
  return { ...task, payload: payload as Out, dueAt: dateIn(dueAt), leaseUntil: dateIn(leaseUntil) }
}

/** Returns the JSON fields of a settlement, without the other fields of a claimed task. */
export function settlingOut({ key, token, outcome, delay, reason }: Settling, i: number): object {
  const spelled = delay === undefined ? undefined : durationOut(delay, `tasks[${i}].delay`)
  return { key, token, outcome, delay: spelled, reason }
}
