import { comparePositions, positionOf } from '../../values/list-position.ts'
import { prefixOf } from '../../values/cell.ts'
import type { EntryView, ListQuery } from '../../timetable.ts'
import type { ListPosition } from '../../values/list-position.ts'

/** A task's place in the order, without its body. */
export interface Candidate extends ListPosition {
  readonly cell: number
}

export interface CandidatePage {
  readonly candidates: readonly Candidate[]
  /** Up to here nothing is missing; null: nothing is missing at all. */
  readonly completeTo: ListPosition | null
}

export interface ListSource {
  readonly cells: readonly number[]
  /** The next candidates of a cell from `from` on, at least `limit` of them where there are as many. */
  next(cell: number, query: ListQuery, from: ListPosition | null, limit: number): Promise<CandidatePage>
  views(candidates: readonly Candidate[]): Promise<(EntryView | null)[]>
}

/**
 * One page over many cells: each tells its next candidates in order, they are merged, and the bodies of those that
 * may be on the page are fetched. What a filter drops is made up for by the next round.
 */
export async function listPage(source: ListSource, query: ListQuery): Promise<EntryView[]> {
  const found: EntryView[] = []
  let from = query.after
  for (;;) {
    const pages = await Promise.all(source.cells.map((cell) => source.next(cell, query, from, query.limit)))
    const horizon = pages
      .flatMap(({ completeTo }) => (completeTo === null ? [] : [completeTo]))
      .toSorted(comparePositions)[0]
    // Beyond the horizon some cell may have more; before `from` is what earlier rounds have seen.
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

/** Asked again of the view, which is newer than the candidate. */
function belongs(view: EntryView, { state, tag, prefix, dueFromMs, dueToMs, after }: ListQuery): boolean {
  if (state === null ? view.state === 'dead' : view.state !== state) return false
  if (tag !== null && !view.tags.includes(tag)) return false
  if (prefix !== null && prefixOf(view.key) !== prefix) return false
  if (view.dueMs < dueFromMs || view.dueMs > dueToMs) return false
  return after === null || comparePositions(positionOf(view), after) > 0
}
