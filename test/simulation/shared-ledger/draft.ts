import { type Counter, DEAD } from '../../../src/ledgers/rows.ts'
import type { Place } from '../../../src/timetable.ts'
import { type Locks, locked } from './locks.ts'
import { addressOf, type EndedRow, type LiveRow } from './rows.ts'
import type { TopicTable } from './topic-table.ts'

/**
 * What a statement or a transaction has written and not committed, of one topic: seen by itself alone. Rows are what is
 * committed, with what it wrote itself laid over them. What it touches is locked, so it cannot change below.
 */
export class TopicDraft {
  readonly #topic: string
  readonly #table: TopicTable
  readonly #locks: Locks
  /** A transaction that outlives a statement has to lock; null if nothing can come in between. */
  readonly #owner: object | null
  readonly #locked = new Set<string>()
  readonly #live = new Map<string, { readonly place: Place; readonly row: LiveRow | null }>()
  readonly #graves = new Map<string, { readonly old: EndedRow | undefined; now: EndedRow | null }>()
  readonly #ended: EndedRow[] = []
  readonly #forgotten: EndedRow[] = []
  readonly #tally = new Map<Counter, number>()
  readonly #committed: Place[] = []
  /** For messages. */
  doing = 'write'

  constructor(topic: string, table: TopicTable, locks: Locks, owner: object | null) {
    this.#topic = topic
    this.#table = table
    this.#locks = locks
    this.#owner = owner
  }

  /** As this draft sees it. */
  row(place: Place): LiveRow | undefined {
    const own = this.#live.get(addressOf(place))
    return own === undefined ? this.#table.row(place) : (own.row ?? undefined)
  }

  /** The same, for one who is about to write to it. */
  rowForUpdate(place: Place): LiveRow | undefined {
    const row = this.row(place)
    // A row that another transaction has inserted and not committed is invisible to a statement that does not insert it.
    if (row !== undefined) this.#lock(this.#rowName(place))
    return row
  }

  /** For an insert where there is no row: another transaction may have inserted one, and not committed. */
  lockPlace(place: Place): void {
    this.#lock(this.#rowName(place))
  }

  /** Returns true if there is such a row, locked by another transaction. */
  isLocked(place: Place): boolean {
    return this.row(place) !== undefined && this.#isOthers(this.#rowName(place))
  }

  *rowsOfCell(cell: number): Generator<LiveRow> {
    for (const row of this.#table.rowsOfCell(cell)) if (!this.#live.has(addressOf(row))) yield row
    for (const { row } of this.#live.values()) if (row !== null && row.cell === cell) yield row
  }

  put(row: LiveRow): void {
    this.#live.set(addressOf(row), { place: row, row })
  }

  remove({ key, cell }: Place): void {
    this.#live.set(addressOf({ key, cell }), { place: { key, cell }, row: null })
  }

  graveForUpdate(place: Place): EndedRow | undefined {
    const own = this.#graves.get(addressOf(place))
    const grave = own === undefined ? this.#table.grave(place) : (own.now ?? undefined)
    if (grave !== undefined) this.#lock(this.#graveName(place))
    return grave
  }

  isSuperseded(grave: EndedRow): boolean {
    return this.#table.isSuperseded(grave)
  }

  isGraveLocked(place: Place): boolean {
    return this.#isOthers(this.#graveName(place))
  }

  /** Whatever lay there was asked for before. A new one is invisible to others, and its key is locked. */
  setGrave(place: Place, now: EndedRow | null): void {
    const address = addressOf(place)
    const known = this.#graves.get(address)
    if (known === undefined) this.#graves.set(address, { old: this.#table.grave(place), now })
    else known.now = now
  }

  addEnded(row: EndedRow): void {
    if (row.state === DEAD) this.setGrave(row, row)
    else this.#ended.push(row)
  }

  forget(rows: readonly EndedRow[]): void {
    this.#forgotten.push(...rows)
  }

  count(counter: Counter, by: number): void {
    this.#tally.set(counter, (this.#tally.get(counter) ?? 0) + by)
  }

  tell(places: readonly Place[]): void {
    for (const { key, cell } of places) this.#committed.push({ key, cell })
  }

  /** True if nothing was written: then there is nothing to commit. */
  get isEmpty(): boolean {
    return this.#live.size + this.#graves.size + this.#ended.length + this.#forgotten.length === 0
  }

  /** What was written becomes the truth. Returns what undoes that, as long as nothing else was applied since. */
  apply(): () => void {
    const before = [...this.#live.values()].map(({ place }) => ({ place, row: this.#table.row(place) }))
    for (const { place, row } of this.#live.values()) {
      if (row === null) this.#table.remove(place)
      else this.#table.put(row)
    }
    for (const { old, now } of this.#graves.values()) {
      if (old !== undefined) this.#table.removeEnded(old)
      if (now !== null) this.#table.addEnded(now)
    }
    for (const row of this.#ended) this.#table.addEnded(row)
    for (const row of this.#forgotten) this.#table.removeEnded(row)
    for (const [counter, by] of this.#tally) this.#table.counters[counter] += by
    this.#table.committed.push(...this.#committed)
    return () => this.#undo(before)
  }

  #undo(before: readonly { readonly place: Place; readonly row: LiveRow | undefined }[]): void {
    for (const { place, row } of before) {
      if (row === undefined) this.#table.remove(place)
      else this.#table.put(row)
    }
    for (const { old, now } of this.#graves.values()) {
      if (now !== null) this.#table.removeEnded(now)
      if (old !== undefined) this.#table.addEnded(old)
    }
    for (const row of this.#ended) this.#table.removeEnded(row)
    for (const row of this.#forgotten) this.#table.addEnded(row)
    for (const [counter, by] of this.#tally) this.#table.counters[counter] -= by
  }

  release(): void {
    this.#locks.release(this.#locked)
    this.#locked.clear()
  }

  #lock(name: string): void {
    if (this.#isOthers(name)) throw locked(this.doing)
    if (this.#owner === null) return
    this.#locks.take(name, this.#owner)
    this.#locked.add(name)
  }

  #isOthers(name: string): boolean {
    return this.#locks.isOthers(name, this.#owner ?? this)
  }

  #rowName(place: Place): string {
    return `row ${this.#topic} ${addressOf(place)}`
  }

  #graveName(place: Place): string {
    return `grave ${this.#topic} ${addressOf(place)}`
  }
}
