/** What onlookers and loaders see of what is committed. Nothing here changes anything. */
import type { Loaded, Recount } from '../../../src/ledger.ts'
import { CANCELLED, DEAD, DONE, endedView, hintOf, liveView, OBSOLETE } from '../../../src/ledgers/rows.ts'
import { compareFrontiers } from '../../../src/values/list-position.ts'
import type { Books, Counts, EntryView, Place } from '../../../src/timetable.ts'
import type { Frontier, Hint } from '../../../src/hint-table.ts'
import { isHeld, type LiveRow, type Moment } from './rows.ts'
import type { TopicTable } from './topic-table.ts'

export function get(topic: string, table: TopicTable, place: Place): EntryView | null {
  const row = table.row(place)
  if (row !== undefined) return liveView(topic, row, row.session !== null)
  const last = table
    .endedAt(place)
    .toSorted((a, b) => b.ended_ms - a.ended_ms || b.generation - a.generation)
    .at(0)
  return last === undefined ? null : endedView(topic, last, table.isSuperseded(last))
}

export function hints(table: TopicTable, places: readonly Place[], moment: Moment): (Hint | null)[] {
  return places.map((place) => {
    const row = table.row(place)
    return row === undefined || row.marked ? null : hintNow(row, moment)
  })
}

export function load(
  { byRing }: TopicTable,
  after: Frontier | null,
  untilMs: number,
  limit: number,
  moment: Moment,
): Loaded {
  const from = after === null ? 0 : byRing.firstWhere((row) => compareFrontiers(frontierOf(row), after) > 0)
  const to = byRing.firstWhere(({ ring_ms }) => ring_ms > untilMs)
  const rows = byRing.slice(from, Math.max(from, Math.min(to, from + limit)))
  const last = rows.length === limit ? rows.at(-1) : undefined
  return {
    hints: rows.map((row) => hintNow(row, moment)),
    orderMs: rows.map(({ ring_ms }) => ring_ms),
    frontier: last === undefined ? null : frontierOf(last),
  }
}

export function books({ counters }: TopicTable): Books {
  const { scheduled, done, cancelled, obsolete, dead, claimed, purged } = counters
  const live = scheduled - done - cancelled - obsolete - dead - purged
  return { scheduled, pending: live - claimed, claimed, dead, done, cancelled, obsolete, purged }
}

export function counts(table: TopicTable, { nowMs }: Moment): Counts {
  const { pending, claimed, dead } = books(table)
  const rung = table.byRing.slice(
    0,
    table.byRing.firstWhere(({ ring_ms }) => ring_ms > nowMs),
  )
  return { pending, due: rung.filter(({ session }) => session === null).length, claimed, dead }
}

export function forecast(
  { byRing }: TopicTable,
  fromMs: number,
  toMs: number,
  stepMs: number,
  { nowMs }: Moment,
): number[] {
  const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
  for (const { ring_ms, session } of byRing.slice(
    0,
    byRing.firstWhere((row) => row.ring_ms >= toMs),
  )) {
    const ringMs = Math.max(ring_ms, nowMs)
    const step = Math.floor((ringMs - fromMs) / stepMs)
    if (session === null && ringMs >= fromMs && ringMs < toMs) steps[step] = (steps[step] ?? 0) + 1
  }
  return steps
}

/** Rows, one by one. */
export function count(table: TopicTable): Recount {
  const { done_swept, cancelled_swept, obsolete_swept } = table.counters
  const live = table.byRing.slice(0, table.byRing.size)
  const claimed = live.filter(({ session }) => session !== null).length
  return {
    pending: live.length - claimed,
    claimed,
    dead: table.byEnd(DEAD).size,
    done: table.byEnd(DONE).size + done_swept,
    cancelled: table.byEnd(CANCELLED).size + cancelled_swept,
    obsolete: table.byEnd(OBSOLETE).size + obsolete_swept,
  }
}

function frontierOf({ ring_ms, cell, key }: LiveRow): Frontier {
  return { ringMs: ring_ms, cell, key }
}

function hintNow(row: LiveRow, moment: Moment): Hint {
  if (row.session === null) return hintOf(row)
  if (isHeld(row, moment))
    return hintOf(row, Math.ceil(moment.nowMs + (row.lease_ms as number) - moment.steadyMs))
  // Its lease is over, and the next claim will find it so.
  return hintOf({ ...row, lost: row.lost + 1 })
}
