import { comparePositions, positionOf } from '../../values/list-position.ts'
import { prefixOf } from '../../values/cell.ts'
import type { EntryView, ListQuery } from '../../timetable.ts'
import type { ListPosition } from '../../values/list-position.ts'

/** A task that may be on the page: its cell and its position in the list order, without its body. */
export interface Candidate extends ListPosition {
  readonly cell: number
}

export interface CandidatePage {
  readonly candidates: readonly Candidate[]
  /** The position up to which the candidates are complete. Null if they are complete to the end. */
  readonly completeTo: ListPosition | null
}

export interface ListSource {
  readonly cells: readonly number[]
  /** Returns the candidates of a cell after `from`: at least `limit` candidates, or all if the cell has fewer. */
  next(cell: number, query: ListQuery, from: ListPosition | null, limit: number): Promise<CandidatePage>
  views(candidates: readonly Candidate[]): Promise<(EntryView | null)[]>
}

/**
 * Lists one page of tasks from many cells. In each round, every cell returns its next candidates in order. The
 * candidates are merged, and the tasks that may be on the page are read. If too few tasks pass the filters, another
 * round follows.
 */
export async function listPage(source: ListSource, query: ListQuery): Promise<EntryView[]> {
  const found: EntryView[] = []
  let from = query.after
  for (;;) {
    const pages = await Promise.all(source.cells.map((cell) => source.next(cell, query, from, query.limit)))
    const horizon = pages
      .flatMap(({ completeTo }) => (completeTo === null ? [] : [completeTo]))
      .toSorted(comparePositions)[0]
    // Drop candidates after the horizon, because some cell may have more candidates there that it has not returned yet.
    // Drop candidates up to `from`, because they belong to earlier rounds.
    const certain = pages
      .flatMap((page) => page.candidates)
      .filter((one) => horizon === undefined || comparePositions(one, horizon) <= 0)
      .filter((one) => from === null || comparePositions(one, from) > 0)
      .toSorted(comparePositions)
    for (let at = 0; at < certain.length && found.length < query.limit; at += query.limit) {
      const views = await source.views(certain.slice(at, at + query.limit))
      for (const view of views) if (view !== null && belongs(view, query)) found.push(view)
    }
    if (found.length >= query.limit || horizon === undefined) break
    from = horizon
  }
  return found.toSorted((a, b) => comparePositions(positionOf(a), positionOf(b))).slice(0, query.limit)
}

/**
 * Applies all filters of the query. A candidate need not pass all filters, and its task may have changed since it
 * became a candidate.
 */
function belongs(view: EntryView, { state, tag, prefix, dueFromMs, dueToMs, after }: ListQuery): boolean {
  if (state === null ? view.state === 'dead' : view.state !== state) return false
  if (tag !== null && !view.tags.includes(tag)) return false
  if (prefix !== null && prefixOf(view.key) !== prefix) return false
  if (view.dueMs < dueFromMs || view.dueMs > dueToMs) return false
  return after === null || comparePositions(positionOf(view), after) > 0
}
