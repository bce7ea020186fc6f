/** What the tables of all SQL ledgers have in common, and what the rest of Tocsin makes of their rows. */
import { LOSSES_OF_A_SUSPECT } from '../values/rescue.ts'
import { type DeadCause, PRIORITIES, type Priority, type State, taskId } from '../task.ts'
import type { ClaimedTask, EntryView } from '../timetable.ts'
import type { Hint } from '../hint-table.ts'

/** By their numbers in the column `state`. 0 is no state. */
export const ENDED_STATES = ['', 'done', 'cancelled', 'obsolete', 'dead'] as const
export type EndedState = Exclude<(typeof ENDED_STATES)[number], ''>
export const DONE = 1
export const CANCELLED = 2
export const OBSOLETE = 3
export const DEAD = 4

/** In the column `started`: claimed alone, and its start recorded. */
export const ALONE = 1
export const STARTED_ALONE = 2

/** Columns of the books, which move with the writes. */
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

const NO_TAGS: readonly string[] = Object.freeze([])

export function priorityNumber(priority: Priority): number {
  return PRIORITIES.indexOf(priority)
}

export function priorityOf(number: number): Priority {
  return PRIORITIES[number] ?? 'normal'
}

/** Tags have no control characters, and are lines of one text. */
export function tagsText(tags: readonly string[] | null): string | null {
  return tags === null ? null : tags.join('\n')
}

export function tagsOf(text: string | null): readonly string[] {
  return text === null ? NO_TAGS : text.split('\n')
}

/** What waits, without its body. */
export interface WaitingRow {
  readonly key: string
  readonly cell: number
  readonly ring_ms: number
  readonly failures: number
  readonly priority: number
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

/** What a claim reads of a row. */
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

/** What an onlooker is shown of a task that waits or is claimed. */
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

export function endedView(topic: string, row: SeenEndedRow): EntryView {
  return {
    ...claimedTaskOf(topic, { ...row, ring_ms: row.ended_ms }),
    state: ENDED_STATES[row.state] as State,
    createdMs: row.created_ms,
    updatedMs: row.ended_ms,
    lastError: row.error,
    deadCause: row.cause as DeadCause | null,
    generation: row.generation,
  }
}
