/** Rows as SQLite has them, and what the rest of Tocsin makes of them. */
import { crc32 } from 'node:zlib'
import { TocsinError } from '../../errors.ts'
import { LOSSES_OF_A_SUSPECT } from '../../rescue.ts'
import { type DeadCause, PRIORITIES, type Priority, type State, taskId } from '../../task.ts'
import type { ClaimedTask, EntryView, Hint } from '../../timetable.ts'

/** By their numbers in the column `state`. */
export const ENDED_STATES = ['', 'done', 'cancelled', 'obsolete', 'dead'] as const
export type EndedState = 'done' | 'cancelled' | 'obsolete' | 'dead'
export const DEAD = 4

export interface LiveRow {
  readonly generation: number
  readonly cell: number
  readonly key: string
  readonly due_ms: number
  readonly ring_ms: number
  readonly priority: number
  readonly failures: number
  readonly lost: number
  readonly deliveries: number
  readonly session: number | null
  readonly stamp: number | null
  readonly lease_ms: number | null
  readonly started: number
  readonly marked: number
  readonly created_ms: number
  readonly updated_ms: number
  readonly error: string | null
  readonly tags: string | null
  readonly checksum: number
  readonly body: string
}

export interface EndedRow {
  readonly generation: number
  readonly cell: number
  readonly key: string
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
  readonly checksum: number
  readonly body: string
}

const NO_TAGS: readonly string[] = Object.freeze([])

export function priorityNumber(priority: Priority): number {
  return PRIORITIES.indexOf(priority)
}

export function priorityOf(number: number): Priority {
  return PRIORITIES[number] ?? 'normal'
}

/** Tags have no control characters. */
export function tagsText(tags: readonly string[] | null): string | null {
  return tags === null ? null : tags.join('\n')
}

export function tagsOf(text: string | null): readonly string[] {
  return text === null ? NO_TAGS : text.split('\n')
}

/** SQLite notices a torn page, not a flipped bit: a task that is not what was written must not be delivered. */
export function checksumOf(key: string, body: string): number {
  return crc32(body, crc32(key))
}

export function isIntact({ key, body, checksum }: Pick<LiveRow, 'key' | 'body' | 'checksum'>): boolean {
  return checksum === checksumOf(key, body)
}

/** For whoever asks for this one. */
export function checkIntact(topic: string, row: Pick<LiveRow, 'key' | 'body' | 'checksum'>): void {
  if (isIntact(row)) return
  const { key } = row
  throw new TocsinError('ledger-damaged', `task '${key}' of topic '${topic}': ${DAMAGED}`, { topic, key })
}

/** Looking must not fail for the others of a page: what is damaged is shown as such, without its payload. */
function shown<T extends EntryView>(row: Pick<LiveRow, 'key' | 'body' | 'checksum'>, view: T): T {
  return isIntact(row) ? view : { ...view, body: 'null', lastError: DAMAGED }
}

export const DAMAGED = 'the ledger is damaged here: the task is not what was written, its checksum differs'

/** What waits, without its body. */
export type WaitingRow = Pick<LiveRow, 'key' | 'cell' | 'ring_ms' | 'failures' | 'priority' | 'lost'>

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
export type ClaimedRow = Pick<
  LiveRow,
  | 'generation'
  | 'key'
  | 'body'
  | 'checksum'
  | 'due_ms'
  | 'ring_ms'
  | 'failures'
  | 'deliveries'
  | 'tags'
  | 'priority'
>

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

export function liveView(topic: string, row: LiveRow, isHeld: boolean): EntryView {
  return shown(row, {
    key: row.key,
    id: taskId(topic, row.key, row.generation),
    body: row.body,
    state: isHeld ? 'claimed' : 'pending',
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
  })
}

export function endedView(topic: string, row: EndedRow): EntryView {
  return shown(row, {
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
  })
}
