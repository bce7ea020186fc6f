/** The types of the rows in SQLite, and the checksum of a task. */
import { crc32 as zlibCrc32 } from 'node:zlib'
import { crc32 } from '../../lib/crc32.ts'
import { TocsinError } from '../../errors.ts'
import type { EntryView } from '../../timetable.ts'
import {
  type ClaimedRow as PlainClaimedRow,
  DEAD,
  endedView as plainEndedView,
  liveView as plainLiveView,
  type SeenEndedRow,
  type SeenLiveRow,
  type WaitingRow,
} from '../rows.ts'

interface Checked {
  readonly checksum: number
}

export interface LiveRow extends SeenLiveRow, WaitingRow, Checked {
  /**
   * The session of the process that claimed the task. `session`, `stamp` and `lease_ms` are null if the task is
   * pending.
   */
  readonly session: number | null
  readonly stamp: number | null
  /** The end of the lease, as a time of the monotonic clock. */
  readonly lease_ms: number | null
  /** ALONE if the task was claimed alone. STARTED_ALONE if its handler was started, too. Otherwise 0. */
  readonly started: number
  /** 1 if the task was cancelled while it was claimed. Then it gets no further attempt. */
  readonly marked: number
}

export type EndedRow = SeenEndedRow & Checked & { readonly cell: number }

/**
 * An expression that is 1 if the ended task `e` is dead and a newer task of its key supersedes it, and otherwise 0. The
 * index is named, because SQLite without statistics prefers the primary key, and then reads all ended tasks of the topic.
 */
export const IS_SUPERSEDED = `(e.state = ${DEAD} AND (e.outranked
      OR EXISTS (SELECT 1 FROM tocsin_live l WHERE l.topic = e.topic AND l.cell = e.cell AND l.key = e.key)
      OR EXISTS (SELECT 1 FROM tocsin_ended n INDEXED BY tocsin_ended_place WHERE n.topic = e.topic AND n.cell = e.cell AND n.key = e.key
        AND n.generation > e.generation AND NOT n.outranked)))`

export type SupersedableRow = EndedRow & { readonly is_superseded: number }

export type ClaimedRow = PlainClaimedRow & Checked

/**
 * Returns the checksum of a task. SQLite detects a torn page, but not a flipped bit. A task that differs from what was
 * written must not be delivered.
 */
export function checksumOf(key: string, body: string): number {
  return zlibCrc32(body, crc32(key))
}

type Checkable = Pick<LiveRow, 'key' | 'body' | 'checksum'>

export function isIntact({ key, body, checksum }: Checkable): boolean {
  return checksum === checksumOf(key, body)
}

/** Throws if the task is damaged. Used if the caller has asked for a single task. */
export function checkIntact(topic: string, row: Checkable): void {
  if (isIntact(row)) return
  const { key } = row
  throw new TocsinError('ledger-damaged', `task '${key}' of topic '${topic}': ${DAMAGED}`, { topic, key })
}

/**
 * Returns the view of a task. A damaged task is shown as damaged, without its payload. An error would hide the other
 * tasks of the same page.
 */
function shown(row: Checkable, view: EntryView): EntryView {
  return isIntact(row) ? view : { ...view, body: 'null', lastError: DAMAGED }
}

export const DAMAGED = 'the ledger is damaged here: the task is not what was written, its checksum differs'

export function liveView(topic: string, row: LiveRow, isClaimed: boolean): EntryView {
  return shown(row, plainLiveView(topic, row, isClaimed))
}

export function endedView(topic: string, row: SupersedableRow): EntryView {
  return shown(row, plainEndedView(topic, row, row.is_superseded === 1))
}
