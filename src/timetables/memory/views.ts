/** Read-only views of a cell's tasks. */
import { prefixOf } from '../../values/cell.ts'
import { comparePositions, positionOf } from '../../values/list-position.ts'
import { taskId } from '../../task.ts'
import type { EntryView, ListQuery, Selection } from '../../timetable.ts'
import type { ListPosition } from '../../values/list-position.ts'
import type { MemoryCell } from './cell.ts'
import { type Entry, type Grave, ringMsOf } from './entry.ts'

export function viewOfLive(cell: MemoryCell, entry: Entry): EntryView {
  const { tries } = entry
  const claimed = entry.claim !== null
  return {
    key: entry.key,
    id: cell.idOf(entry),
    body: entry.body,
    state: claimed ? 'claimed' : 'pending',
    dueMs: cell.dueMsOf(entry),
    ringMs: ringMsOf(cell.scoreOf(entry)),
    failures: tries?.failures ?? 0,
    deliveries: (tries?.deliveries ?? 0) + (claimed ? 1 : 0),
    tags: entry.tags ?? [],
    priority: entry.priority,
    createdMs: entry.createdMs,
    updatedMs: Math.max(entry.createdMs, tries?.updatedMs ?? 0),
    lastError: tries?.error ?? null,
    deadCause: null,
  }
}

export function viewOfDead(cell: MemoryCell, grave: Grave): EntryView {
  const { entry, dueMs, diedMs, cause, error, superseded } = grave
  const { tries } = entry
  return {
    key: entry.key,
    id: taskId(cell.topic, entry.key, tries?.firstStamp ?? 0),
    body: entry.body,
    state: 'dead',
    dueMs,
    ringMs: diedMs,
    failures: tries?.failures ?? 0,
    deliveries: tries?.deliveries ?? 0,
    tags: entry.tags ?? [],
    priority: entry.priority,
    createdMs: entry.createdMs,
    updatedMs: diedMs,
    lastError: error,
    deadCause: cause,
    superseded,
  }
}

export function keysOf(cell: MemoryCell, among: 'live' | 'dead', what: Selection): string[] {
  const keys: string[] = []
  if (among === 'dead') {
    for (const { entry } of cell.graves.all()) if (selects(what, entry)) keys.push(entry.key)
  } else if ('tag' in what) for (const entry of cell.tags.with(what.tag)) keys.push(entry.key)
  else for (const entry of cell.pool.values()) if (selects(what, entry)) keys.push(entry.key)
  return keys
}

function selects(what: Selection, entry: Entry): boolean {
  if ('tag' in what) return entry.tags?.includes(what.tag) ?? false
  return 'all' in what || prefixOf(entry.key) === what.prefix
}

/** Collects the first `limit` tasks of a query, in one pass over any number of cells. */
export class Page {
  readonly #query: ListQuery
  #found: EntryView[] = []
  /** The position of the last task of the page, once `limit` tasks were found. Tasks after it are skipped. */
  #cut: ListPosition | null = null

  constructor(query: ListQuery) {
    this.#query = query
  }

  add(cell: MemoryCell): void {
    const { state, tag } = this.#query
    if (state === 'dead') for (const grave of cell.graves.all()) this.#offer(viewOfDead(cell, grave))
    else {
      const entries = tag === null ? cell.pool.values() : cell.tags.with(tag)
      for (const entry of entries) if (this.#mayBelong(cell, entry)) this.#offer(viewOfLive(cell, entry))
    }
  }

  tasks(): EntryView[] {
    this.#trim()
    return this.#found
  }

  /** Returns false if the task comes after the page. This check is cheaper than building a view. */
  #mayBelong(cell: MemoryCell, entry: Entry): boolean {
    const failures = entry.tries?.failures ?? 0
    const position = { ringMs: ringMsOf(cell.scoreOf(entry)), failures, key: entry.key }
    return this.#cut === null || comparePositions(position, this.#cut) < 0
  }

  #offer(view: EntryView): void {
    const { state, tag, prefix, dueFromMs, dueToMs, after, limit } = this.#query
    if (state !== null && view.state !== state) return
    if (tag !== null && !view.tags.includes(tag)) return
    if (prefix !== null && prefixOf(view.key) !== prefix) return
    if (view.dueMs < dueFromMs || view.dueMs > dueToMs) return
    if (after !== null && comparePositions(positionOf(view), after) <= 0) return
    this.#found.push(view)
    if (this.#found.length >= limit * 2) this.#trim()
  }

  #trim(): void {
    const { limit } = this.#query
    this.#found.sort((a, b) => comparePositions(positionOf(a), positionOf(b)))
    if (this.#found.length < limit) return
    this.#found = this.#found.slice(0, limit)
    const last = this.#found[limit - 1]
    this.#cut = last === undefined ? null : positionOf(last)
  }
}
