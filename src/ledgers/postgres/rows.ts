/** Rows as PostgreSQL has them, and what the rest of Tocsin makes of them. */
import { LOSSES_OF_A_SUSPECT } from '../../rescue.ts'
import { type DeadCause, PRIORITIES, type Priority, type State, taskId } from '../../task.ts'
import type { EntryView, Hint } from '../../timetable.ts'

/** In the column `state` of tocsin.ended. 0 is no state. */
export const ENDED_STATES = ['', 'done', 'cancelled', 'obsolete', 'dead'] as const
export const DONE = 1
export const CANCELLED = 2
export const OBSOLETE = 3
export const DEAD = 4

const NO_TAGS: readonly string[] = Object.freeze([])

export function priorityNumber(priority: Priority): number {
  return PRIORITIES.indexOf(priority)
}

export function priorityOf(number: number): Priority {
  return PRIORITIES[number] ?? 'normal'
}

/** Tags have no control characters, and travel as lines. */
export function tagsText(tags: readonly string[] | null): string | null {
  return tags === null ? null : tags.join('\n')
}

export function tagsOf(text: string | null): readonly string[] {
  return text === null ? NO_TAGS : text.split('\n')
}

/** What is read to make a hint. `ends_in` is null when nobody holds it. */
export type HintRow = [
  key: string,
  cell: number,
  ringMs: number,
  failures: number,
  priority: number,
  lost: number,
  leaseMs: number | null,
  nowMs: number,
]

export function hintOf([key, cell, ringMs, failures, priority, lost, leaseMs, nowMs]: HintRow): Hint {
  const isLapsed = leaseMs !== null && leaseMs <= nowMs
  return {
    key,
    cell,
    ringMs: leaseMs === null || isLapsed ? ringMs : leaseMs,
    failures,
    priority: priorityOf(priority),
    // Its lease is over, and the next claim will find it so.
    isSuspect: lost + (isLapsed ? 1 : 0) >= LOSSES_OF_A_SUSPECT,
  }
}

export interface LiveRow {
  readonly key: string
  readonly generation: number
  readonly due_ms: number
  readonly ring_ms: number
  readonly priority: number
  readonly failures: number
  readonly deliveries: number
  readonly is_claimed: boolean
  readonly created_ms: number
  readonly updated_ms: number
  readonly error: string | null
  readonly tags: string | null
  readonly body: string
}

export interface EndedRow {
  readonly key: string
  readonly generation: number
  readonly state: number
  readonly ended_ms: number
  readonly due_ms: number
  readonly priority: number
  readonly failures: number
  readonly deliveries: number
  readonly created_ms: number
  readonly error: string | null
  readonly cause: string | null
  readonly tags: string | null
  readonly body: string
}

export function liveView(topic: string, row: LiveRow): EntryView {
  return {
    key: row.key,
    id: taskId(topic, row.key, row.generation),
    body: row.body,
    state: row.is_claimed ? 'claimed' : 'pending',
    dueMs: row.due_ms,
    ringMs: row.ring_ms,
    failures: row.failures,
    deliveries: row.deliveries,
    tags: tagsOf(row.tags),
    priority: priorityOf(row.priority),
    createdMs: row.created_ms,
    updatedMs: row.updated_ms,
    lastError: row.error,
    deadCause: null,
  }
}

export function endedView(topic: string, row: EndedRow): EntryView {
  return {
    key: row.key,
    id: taskId(topic, row.key, row.generation),
    body: row.body,
    state: ENDED_STATES[row.state] as State,
    dueMs: row.due_ms,
    ringMs: row.ended_ms,
    failures: row.failures,
    deliveries: row.deliveries,
    tags: tagsOf(row.tags),
    priority: priorityOf(row.priority),
    createdMs: row.created_ms,
    updatedMs: row.ended_ms,
    lastError: row.error,
    deadCause: row.cause as DeadCause | null,
    generation: row.generation,
  }
}
