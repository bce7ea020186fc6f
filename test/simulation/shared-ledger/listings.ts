/** Listings and searches: by state, tag, prefix and time. */
import { ENDED_STATES, endedView, liveView, tagsOf } from '../../../src/ledgers/rows.ts'
import { compareKeys, comparePositions, positionOf } from '../../../src/values/list-position.ts'
import type { EntryView, ListQuery, Selection } from '../../../src/timetable.ts'
import type { ListPosition } from '../../../src/values/list-position.ts'
import type { TopicTable } from './topic-table.ts'

/** Keys that one page of `find` brings. */
const FOUND_MAX = 1_000

interface Findable {
  readonly key: string
  readonly tags: string | null
}

export function list(topic: string, table: TopicTable, query: ListQuery): EntryView[] {
  const { state, tag, prefix, dueFromMs, dueToMs, limit, after } = query
  const number = state === null ? -1 : ENDED_STATES.indexOf(state as 'done')
  const views = number > 0 ? endedViews(topic, table, number) : liveViews(topic, table)
  const compare = number > 0 ? compareEnds : comparePositions
  return views
    .filter(
      (view) =>
        (state === null || view.state === state) &&
        (tag === null || view.tags.includes(tag)) &&
        (prefix === null || hasPrefix(view.key, prefix)) &&
        view.dueMs >= dueFromMs &&
        view.dueMs <= dueToMs &&
        (after === null || compare(positionOf(view), after) > 0),
    )
    .toSorted((a, b) => compare(positionOf(a), positionOf(b)))
    .slice(0, limit)
}

/** One page of the keys of a cell. */
export function find(
  rows: Iterable<Findable>,
  what: Selection,
  cursor: string | null,
): { keys: string[]; cursor: string | null } {
  const keys = findAll(rows, what)
    .filter((key) => cursor === null || compareKeys(key, cursor) > 0)
    .slice(0, FOUND_MAX)
  return { keys, cursor: keys.length === FOUND_MAX ? (keys.at(-1) ?? null) : null }
}

/** In order. */
export function findAll(rows: Iterable<Findable>, what: Selection): string[] {
  return [...rows]
    .filter((row) => isSelected(row, what))
    .map(({ key }) => key)
    .toSorted(compareKeys)
}

function isSelected({ key, tags }: Findable, what: Selection): boolean {
  if ('tag' in what) return tagsOf(tags).includes(what.tag)
  return 'prefix' in what ? hasPrefix(key, what.prefix) : true
}

function hasPrefix(key: string, prefix: string): boolean {
  return key === prefix || key.startsWith(`${prefix}:`)
}

function liveViews(topic: string, { byRing }: TopicTable): EntryView[] {
  return byRing.slice(0, byRing.size).map((row) => liveView(topic, row, row.session !== null))
}

function endedViews(topic: string, table: TopicTable, state: number): EntryView[] {
  const rows = table.byEnd(state)
  return rows.slice(0, rows.size).map((row) => endedView(topic, row, table.isSuperseded(row)))
}

/** What ended lies in the order in which it did; `failures` has what tells two of one key apart. */
function compareEnds(a: ListPosition, b: ListPosition): number {
  return a.ringMs - b.ringMs || compareKeys(a.key, b.key) || a.failures - b.failures
}
