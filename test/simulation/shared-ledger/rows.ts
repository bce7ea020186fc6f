/** Rows as the tables of PostgreSQL have them. They are never changed: another one takes their place. */
import type { SeenEndedRow, SeenLiveRow, WaitingRow } from '../../../src/ledgers/rows.ts'
import type { Place } from '../../../src/timetable.ts'

export interface LiveRow extends SeenLiveRow, WaitingRow {
  /** Who holds it: the token is the session and the stamp of the claim. Null if it is not held. */
  readonly session: number | null
  readonly stamp: number | null
  /** By the server's steady clock. */
  readonly lease_ms: number | null
  readonly started: number
  readonly marked: boolean
}

export interface EndedRow extends SeenEndedRow {
  readonly cell: number
}

/** When a statement takes place. Tasks are due by the server's wall clock; leases end by its steady one. */
export interface Moment {
  readonly nowMs: number
  readonly steadyMs: number
}

/** Not held. */
export const FREE = { session: null, stamp: null, lease_ms: null, started: 0 } as const

/** What names a task inside its topic. Neither part has a slash that could be mistaken: the first is a number. */
export function addressOf({ cell, key }: Place): string {
  return `${cell}/${key}`
}

/** A live claim is a lease that has not expired, of any session. */
export function isHeld({ session, lease_ms }: LiveRow, { steadyMs }: Moment): boolean {
  return session !== null && (lease_ms as number) > steadyMs
}

export function endedRow(
  row: LiveRow,
  end: Pick<EndedRow, 'state' | 'ended_ms' | 'failures' | 'error' | 'cause'>,
): EndedRow {
  const { key, cell, generation, due_ms, priority, deliveries, created_ms, tags, body } = row
  return { key, cell, generation, due_ms, priority, deliveries, created_ms, tags, body, ...end }
}
