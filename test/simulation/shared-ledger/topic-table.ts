import { type Counter, COUNTERS, DEAD } from '../../../src/ledgers/rows.ts'
import { compareKeys } from '../../../src/values/list-position.ts'
import type { Place } from '../../../src/timetable.ts'
import { addressOf, type EndedRow, type LiveRow } from './rows.ts'
import { SortedList } from './sorted-list.ts'

export type Counters = Record<Counter, number>

/** What is committed of one topic. Only drafts change it, and only when they are applied. */
export class TopicTable {
  readonly #cells = new Map<number, Map<string, LiveRow>>()
  readonly #graves = new Map<string, EndedRow>()
  /** Addresses of dead tasks whose keys had a newer task since. */
  readonly #superseded = new Set<string>()
  readonly #endedAt = new Map<string, EndedRow[]>()
  readonly #byEnd = new Map<number, SortedList<EndedRow>>()
  /** In the order in which they are loaded. */
  readonly byRing = new SortedList<LiveRow>(compareRings)
  readonly counters = Object.fromEntries(COUNTERS.map((name) => [name, 0])) as Counters
  /** What callers' committed transactions wrote, and the commit feed has not delivered yet. */
  readonly committed: Place[] = []

  row({ cell, key }: Place): LiveRow | undefined {
    return this.#cells.get(cell)?.get(key)
  }

  rowsOfCell(cell: number): Iterable<LiveRow> {
    return this.#cells.get(cell)?.values() ?? []
  }

  put(row: LiveRow): void {
    this.#supersede(row)
    const old = this.row(row)
    if (old === undefined) this.byRing.insert(row)
    else this.byRing.replace(old, row)
    const cell = this.#cells.get(row.cell) ?? new Map<string, LiveRow>()
    this.#cells.set(row.cell, cell.set(row.key, row))
  }

  remove(place: Place): void {
    const old = this.row(place)
    if (old === undefined) return
    this.byRing.remove(old)
    this.#cells.get(place.cell)?.delete(place.key)
  }

  /** The dead task of a key; there is one at most. */
  grave(place: Place): EndedRow | undefined {
    return this.#graves.get(addressOf(place))
  }

  isSuperseded(grave: EndedRow): boolean {
    return grave.state === DEAD && (this.#superseded.has(addressOf(grave)) || this.row(grave) !== undefined)
  }

  /** All of a key that ended, the dead one among them. */
  endedAt(place: Place): readonly EndedRow[] {
    return this.#endedAt.get(addressOf(place)) ?? []
  }

  byEnd(state: number): SortedList<EndedRow> {
    const known = this.#byEnd.get(state)
    if (known !== undefined) return known
    const made = new SortedList<EndedRow>(compareEnds)
    this.#byEnd.set(state, made)
    return made
  }

  addEnded(row: EndedRow): void {
    const address = addressOf(row)
    this.byEnd(row.state).insert(row)
    const others = this.#endedAt.get(address)
    if (others === undefined) this.#endedAt.set(address, [row])
    else others.push(row)
    if (row.state === DEAD) this.#bury(row)
    else this.#supersede(row)
  }

  removeEnded(row: EndedRow): void {
    const address = addressOf(row)
    this.byEnd(row.state).remove(row)
    const left = this.endedAt(row).filter((one) => one !== row)
    if (left.length === 0) this.#endedAt.delete(address)
    else this.#endedAt.set(address, left)
    if (row.state !== DEAD) return
    this.#graves.delete(address)
    this.#superseded.delete(address)
  }

  #bury(row: EndedRow): void {
    this.#graves.set(addressOf(row), row)
    this.#superseded.delete(addressOf(row))
  }

  /** A task that is not the dead one itself, replayed, comes after it. */
  #supersede(row: LiveRow | EndedRow): void {
    const grave = this.grave(row)
    if (grave !== undefined && grave.generation !== row.generation) this.#superseded.add(addressOf(row))
  }
}

function compareRings(a: LiveRow, b: LiveRow): number {
  return a.ring_ms - b.ring_ms || a.cell - b.cell || compareKeys(a.key, b.key)
}

function compareEnds(a: EndedRow, b: EndedRow): number {
  return (
    a.ended_ms - b.ended_ms || compareKeys(a.key, b.key) || a.generation - b.generation || a.cell - b.cell
  )
}
