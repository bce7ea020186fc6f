/** Columns and values that the tables of all SQL ledgers share, and functions that convert rows into other types. */
import { compareKeys } from '../values/list-position.ts'
import { LOSSES_OF_A_SUSPECT } from '../values/rescue.ts'
import { type DeadCause, PRIORITIES, type Priority, type State, taskId } from '../task.ts'
import type { ClaimedTask, EntryView } from '../timetable.ts'
import type { Hint } from '../hint-table.ts'

/** The states of ended tasks. The index of a state is its number in the column `state`; the number 0 is not used. */
export const ENDED_STATES = ['', 'done', 'cancelled', 'obsolete', 'dead'] as const
export type EndedState = Exclude<(typeof ENDED_STATES)[number], ''>
export const DONE = 1
export const CANCELLED = 2
export const OBSOLETE = 3
export const DEAD = 4

/** Value of the column `started`: the task was claimed alone, as a suspect. For any other claim the value is 0. */
export const ALONE = 1
/** Value of the column `started`: the task was claimed alone, and the start of its handler was recorded. */
export const STARTED_ALONE = 2

/**
 * The counters of a topic, each of which is a column. The transaction that changes a task also updates them. A counter
 * `…_swept` counts the ended tasks that were deleted because of their age.
 */
export const COUNTERS = [
  'scheduled',
  'done',
  'cancelled',
  'obsolete',
  'dead',
  'claimed',
  'purged',
  'done_swept',
  'cancelled_swept',
  'obsolete_swept',
] as const

export type Counter = (typeof COUNTERS)[number]

/**
 * The largest step back of a clock that the lists of tasks allow for. Without such a step, a task never rings before it
 * is due, and a claimed task has rung before now. A list uses that to read only a part of the index of ring times.
 */
export const CLOCK_STEP_MAX_MS = 86_400_000

const NO_TAGS: readonly string[] = Object.freeze([])

export function priorityNumber(priority: Priority): number {
  return PRIORITIES.indexOf(priority)
}

export function priorityOf(number: number): Priority {
  return PRIORITIES[number] ?? 'normal'
}

/**
 * Returns the tags as one text, one tag per line. A tag cannot contain a line break, because control characters are
 * rejected.
 */
export function tagsText(tags: readonly string[] | null): string | null {
  return tags === null ? null : tags.join('\n')
}

export function tagsOf(text: string | null): readonly string[] {
  return text === null ? NO_TAGS : text.split('\n')
}

/** The columns of a live task from which its hint is made. */
export interface WaitingRow {
  readonly key: string
  readonly cell: number
  readonly ring_ms: number
  readonly failures: number
  readonly priority: number
  /** The number of leases that the task has lost in a row. */
  readonly lost: number
}

export function hintOf(row: WaitingRow, ringMs = row.ring_ms): Hint {
  return {
    key: row.key,
    cell: row.cell,
    ringMs,
    failures: row.failures,
    priority: priorityOf(row.priority),
    isSuspect: row.lost >= LOSSES_OF_A_SUSPECT,
  }
}

/** The columns of a live task that a claim reads. */
export interface ClaimedRow {
  readonly key: string
  readonly generation: number
  readonly body: string
  readonly due_ms: number
  readonly ring_ms: number
  readonly failures: number
  readonly deliveries: number
  readonly tags: string | null
  readonly priority: number
}

export function claimedTaskOf(topic: string, row: ClaimedRow): ClaimedTask {
  return {
    id: taskId(topic, row.key, row.generation),
    key: row.key,
    body: row.body,
    dueMs: row.due_ms,
    ringMs: row.ring_ms,
    failures: row.failures,
    deliveries: row.deliveries,
    tags: tagsOf(row.tags),
    priority: priorityOf(row.priority),
  }
}

/** The columns of a pending or claimed task that its view shows. */
export interface SeenLiveRow extends ClaimedRow {
  readonly created_ms: number
  readonly updated_ms: number
  readonly error: string | null
}

export function liveView(topic: string, row: SeenLiveRow, isClaimed: boolean): EntryView {
  return {
    ...claimedTaskOf(topic, row),
    state: isClaimed ? 'claimed' : 'pending',
    createdMs: row.created_ms,
    updatedMs: row.updated_ms,
    lastError: row.error,
    deadCause: null,
  }
}

export interface SeenEndedRow extends Omit<ClaimedRow, 'ring_ms'> {
  readonly state: number
  readonly ended_ms: number
  readonly created_ms: number
  readonly error: string | null
  readonly cause: string | null
}

/** Orders ended tasks as lists do: by the time of their end, then by key and generation. */
export function compareEnded(
  a: Pick<SeenEndedRow, 'ended_ms' | 'key' | 'generation'>,
  b: Pick<SeenEndedRow, 'ended_ms' | 'key' | 'generation'>,
): number {
  return a.ended_ms - b.ended_ms || compareKeys(a.key, b.key) || a.generation - b.generation
}

/**
 * `isSuperseded` is true for a dead task whose key has a newer task, or had one. A ledger looks for the newer task among
 * the live and the ended ones. Where that does not tell, the column `outranked` of the ended tasks does: it is true for a
 * dead task whose newer task was deleted because of its age, and for a task that no longer supersedes, because the dead one
 * was replayed after it.
 */
export function endedView(topic: string, row: SeenEndedRow, isSuperseded: boolean): EntryView {
  const state = ENDED_STATES[row.state] as State
  return {
    ...claimedTaskOf(topic, { ...row, ring_ms: row.ended_ms }),
    state,
    createdMs: row.created_ms,
    updatedMs: row.ended_ms,
    lastError: row.error,
    deadCause: row.cause as DeadCause | null,
    ...(state === 'dead' && { superseded: isSuperseded }),
    generation: row.generation,
  }
}
