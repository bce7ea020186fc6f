/** How a live row becomes one that ended, with the books. */
import { DEAD, ENDED_STATES, type EndedState } from '../../../src/ledgers/rows.ts'
import { poisonText } from '../../../src/values/rescue.ts'
import type { DeadCause } from '../../../src/task.ts'
import type { Place } from '../../../src/timetable.ts'
import { endedRow, type LiveRow } from './rows.ts'
import type { Statement } from './statement.ts'

/** It is not held any more. */
export function free({ draft }: Statement, { session }: LiveRow): void {
  if (session !== null) draft.count('claimed', -1)
}

export function end(statement: Statement, row: LiveRow, how: Exclude<EndedState, 'dead'>): void {
  const { draft, moment } = statement
  const { failures, error } = row
  free(statement, row)
  draft.remove(row)
  const state = ENDED_STATES.indexOf(how)
  draft.addEnded(endedRow(row, { state, ended_ms: moment.nowMs, failures, error, cause: null }))
  draft.count(how, 1)
}

export function bury(
  statement: Statement,
  row: LiveRow,
  cause: DeadCause,
  error: string,
  failed: boolean,
): void {
  const { draft, moment } = statement
  // A second death of a key takes the place of the first.
  purge(statement, row)
  free(statement, row)
  draft.remove(row)
  const failures = row.failures + (failed ? 1 : 0)
  draft.addEnded(endedRow(row, { state: DEAD, ended_ms: moment.nowMs, failures, error, cause }))
  draft.count('dead', 1)
}

/** Answers what it was convicted for. */
export function convict(statement: Statement, row: LiveRow): string {
  const error = poisonText(row.lost + 1)
  bury(statement, row, 'poison', error, false)
  return error
}

export function purge({ draft }: Statement, place: Place): boolean {
  if (draft.graveForUpdate(place) === undefined) return false
  draft.setGrave(place, null)
  draft.count('dead', -1)
  draft.count('purged', 1)
  return true
}
