/** What callers ask for, one function each: in a transaction of the ledger, or in their own. */
import type { LedgerReplayed, LedgerRescheduled, LedgerScheduled, Retention } from '../../../src/ledger.ts'
import {
  CANCELLED,
  DEAD,
  DONE,
  hintOf,
  OBSOLETE,
  priorityNumber,
  tagsText,
} from '../../../src/ledgers/rows.ts'
import { ringMsAt } from '../../../src/values/ring-time.ts'
import type { CancelAnswer, NewEntry, Place, Replayable } from '../../../src/timetable.ts'
import type { RingTime } from '../../../src/values/ring-time.ts'
import { end, free, purge } from './endings.ts'
import { type EndedRow, FREE, isHeld, type LiveRow } from './rows.ts'
import type { Statement } from './statement.ts'
import type { TopicTable } from './topic-table.ts'

const NEVER_TRIED = { failures: 0, lost: 0, error: null, marked: false, ...FREE } as const

export function schedule(
  statement: Statement,
  entries: readonly NewEntry[],
  mergeMs: number,
): LedgerScheduled[] {
  const { draft, moment } = statement
  return entries.map((entry): LedgerScheduled => {
    draft.lockPlace(entry)
    const old = draft.row(entry)
    const inFlight = old !== undefined && isHeld(old, moment)
    // A task that was cancelled in flight has no further attempt: there is nothing left to keep.
    if (old !== undefined && entry.onConflict === 'keep' && !old.marked)
      return { outcome: 'kept', dueMs: old.due_ms, inFlight, hint: null }
    if (old === undefined) draft.count('scheduled', 1)
    else free(statement, old)
    const row = newRow(statement, entry, ringMsAt(entry.when, moment.nowMs, moment.nowMs, mergeMs))
    draft.put(row)
    const outcome = old === undefined ? 'created' : 'replaced'
    return { outcome, dueMs: row.due_ms, inFlight, hint: hintOf(row) }
  })
}

export function cancel(statement: Statement, places: readonly Place[]): CancelAnswer[] {
  const { draft, moment } = statement
  return places.map((place) => {
    const row = draft.rowForUpdate(place)
    if (row === undefined) return 'not-found'
    if (isHeld(row, moment)) {
      draft.put({ ...row, marked: true })
      return 'in-flight'
    }
    end(statement, row, 'cancelled')
    return 'cancelled'
  })
}

export function reschedule(
  statement: Statement,
  places: readonly Place[],
  when: RingTime,
  mergeMs: number,
): LedgerRescheduled[] {
  const { draft, moment } = statement
  const { nowMs } = moment
  return places.map((place): LedgerRescheduled => {
    const row = draft.rowForUpdate(place)
    if (row !== undefined && isHeld(row, moment)) return { outcome: 'in-flight', dueMs: null, hint: null }
    if (row === undefined || row.marked) {
      if (row !== undefined) end(statement, row, 'cancelled')
      return { outcome: 'not-found', dueMs: null, hint: null }
    }
    const dueMs = ringMsAt(when, nowMs, row.ring_ms, mergeMs)
    free(statement, row)
    const moved = { ...row, due_ms: dueMs, ring_ms: dueMs, updated_ms: nowMs, failures: 0, lost: 0, ...FREE }
    draft.put(moved)
    return { outcome: 'rescheduled', dueMs, hint: hintOf(moved) }
  })
}

export function replay(statement: Statement, places: readonly Place[], which: Replayable): LedgerReplayed[] {
  const { draft, moment } = statement
  return places.map((place): LedgerReplayed => {
    const grave = draft.graveForUpdate(place)
    if (grave === undefined) return { outcome: 'not-found', hint: null }
    draft.lockPlace(place)
    if (draft.row(place) !== undefined) return { outcome: 'live', hint: null }
    if (which === 'newest' && draft.isSuperseded(grave)) return { outcome: 'superseded', hint: null }
    const row = revived(grave, moment.nowMs)
    draft.put(row)
    draft.setGrave(place, null)
    draft.count('dead', -1)
    return { outcome: 'replayed', hint: hintOf(row) }
  })
}

export function purgeAll(statement: Statement, places: readonly Place[]): ('purged' | 'not-found')[] {
  return places.map((place) => (purge(statement, place) ? 'purged' : 'not-found'))
}

export function forget(
  statement: Statement,
  table: TopicTable,
  { endedBeforeMs, deadBeforeMs, deadMax, limit }: Retention,
): { ended: number; dead: number } {
  const { draft } = statement
  let ended = 0
  for (const [state, counter] of SWEPT) {
    const list = table.byEnd(state)
    const old = list.slice(0, Math.min(list.firstWhere(isSince(endedBeforeMs)), limit - ended))
    draft.forget(old)
    draft.count(counter, old.length)
    ended += old.length
  }
  const tooMany = table.counters.dead - deadMax
  const oldest = table.byEnd(DEAD).slice(0, Math.max(0, limit - ended))
  const gone = oldest.filter(
    (grave, i) => (i < tooMany || grave.ended_ms < deadBeforeMs) && !draft.isGraveLocked(grave),
  )
  for (const grave of gone) purge(statement, grave)
  return { ended, dead: gone.length }
}

const SWEPT = [
  [DONE, 'done_swept'],
  [CANCELLED, 'cancelled_swept'],
  [OBSOLETE, 'obsolete_swept'],
] as const

function isSince(ms: number): (row: EndedRow) => boolean {
  return ({ ended_ms }) => ended_ms >= ms
}

function newRow({ moment, nextGeneration }: Statement, entry: NewEntry, dueMs: number): LiveRow {
  const { key, cell, priority, tags, body } = entry
  return {
    ...NEVER_TRIED,
    key,
    cell,
    generation: nextGeneration(),
    due_ms: dueMs,
    ring_ms: dueMs,
    priority: priorityNumber(priority),
    deliveries: 0,
    created_ms: moment.nowMs,
    updated_ms: moment.nowMs,
    tags: tagsText(tags),
    body,
  }
}

/** Under its id, due now, without its failures. */
function revived(grave: EndedRow, nowMs: number): LiveRow {
  const { key, cell, generation, priority, deliveries, created_ms, tags, body } = grave
  const kept = { key, cell, generation, priority, deliveries, created_ms, tags, body }
  return { ...NEVER_TRIED, ...kept, due_ms: nowMs, ring_ms: nowMs, updated_ms: nowMs }
}
