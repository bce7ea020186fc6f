import { BATCH_MAX } from '../../lib/batch-max.ts'
import { CELLS } from '../../values/cell.ts'
import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Random } from '../../random.ts'
import type {
  Books,
  CancelAnswer,
  CellAddress,
  Claim,
  ClaimRequest,
  Counts,
  EntryView,
  ListQuery,
  Look,
  NewEntry,
  Place,
  Replayable,
  ReplayAnswer,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../../timetable.ts'
import { NO_LEDGER, type TaskStore } from '../../store.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Filling, Frontier, Hint, HintTable } from '../../hint-table.ts'
import { compareKeys } from '../../values/list-position.ts'
import { finiteOrNull } from '../../values/ring-time.ts'
import { MemoryCell, type CellTime, type Rings } from './cell.ts'
import { lastScoreAt, ringMsOf } from './entry.ts'
import { keysOf, Page, viewOfDead, viewOfLive } from './views.ts'

/**
 * The interval at which consumers poll idle cells. A poll notices that the wall clock was set. Polling is needed for
 * nothing else, because a wake is a function call here and cannot be lost.
 */
const LOOK_MS = 10_000

/** The maximum number of hints of a topic in memory. A hint takes some 200 bytes. */
const RESIDENT_MAX = 500_000

/**
 * The number of tables created so far. The epoch of a table is its number, and never changes, because a table in memory
 * never loses hints.
 */
let tables = 0

const NEVER = Number.POSITIVE_INFINITY

interface TopicCells {
  readonly cells: readonly MemoryCell[]
  readonly watchers: Set<Watcher>
  /** The hints of all tasks up to this position have been loaded from the ledger. Null if none have been loaded. */
  frontier: Frontier | null
}

/** The timetable of one process, in memory. Each call takes effect before it returns its promise. */
export class MemoryTimetable implements TaskStore, HintTable {
  readonly features = NO_LEDGER
  readonly isShared: boolean = false
  readonly residentMax: number
  readonly lookMs: number
  readonly isSettleCostly = false
  readonly bulkMax = BATCH_MAX
  /**
   * The cells for which this process keeps hints, by topic. Topics that `keepOnly` does not restrict are not in this
   * map.
   */
  readonly #keptCells = new Map<string, ReadonlySet<number>>()
  readonly #clock: Clock
  readonly #random: Random
  readonly #epoch = `table ${++tables}`
  readonly #topics = new Map<string, TopicCells>()
  #isClosed = false

  constructor(clock: Clock, random: Random, lookMs = LOOK_MS, residentMax = RESIDENT_MAX) {
    this.#clock = clock
    this.#random = random
    this.lookMs = lookMs
    this.residentMax = residentMax
  }

  async schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]> {
    return this.#change(topic, entries, (cell, entry, time) => cell.schedule(entry, time, mergeMs))
  }

  async cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#change(topic, places, (cell, { key }, time) => cell.cancel(key, time))
  }

  async reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]> {
    return this.#change(topic, places, (cell, { key }, time) => cell.reschedule(key, when, time, mergeMs))
  }

  async claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    const time = this.#time()
    const cell = this.#cell(at)
    const before = cell.nextRings()
    const claim = cell.claim(request, time)
    // Wake other consumers if a task whose lease expired was put back and is now the next to ring.
    if (claim.rescued > 0) this.#wakeIfNearer(at.topic, at.cell, before, time)
    return claim
  }

  async look(at: CellAddress): Promise<Look> {
    return this.#cell(at).look(this.#time())
  }

  async begin(at: CellAddress, key: string, stamp: number): Promise<boolean> {
    return this.#cell(at).begin(key, stamp, this.#time())
  }

  async extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    return this.#cell(at).extend(req, leaseMs, this.#time())
  }

  async settle({ topic, cell }: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]> {
    const target = this.#cell({ topic, cell })
    const time = this.#time()
    const before = target.nextRings()
    const answers = settlements.map((settlement) => target.settle(settlement, time))
    this.#wakeIfNearer(topic, cell, before, time)
    return answers
  }

  async get(topic: string, { key, cell }: Place): Promise<EntryView | null> {
    const home = this.#cell({ topic, cell })
    const entry = home.pool.get(key)
    if (entry !== undefined) return viewOfLive(home, entry)
    const grave = home.graves.get(key)
    return grave === undefined ? null : viewOfDead(home, grave)
  }

  /** Scans all tasks of the topic. Yields to the event loop after each large cell. */
  async list(topic: string, query: ListQuery): Promise<EntryView[]> {
    const page = new Page(query)
    for (const cell of this.#topic(topic).cells) {
      page.add(cell)
      if (cell.pool.size > 1_000) await this.#clock.turn()
    }
    return page.tasks()
  }

  async find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
  ): Promise<{ keys: string[]; cursor: null }> {
    return { keys: keysOf(this.#cell(at), among, what), cursor: null }
  }

  async counts(topic: string): Promise<Counts> {
    const nowScore = lastScoreAt(this.#clock.now())
    const { pending, claimed, dead } = await this.books(topic)
    let due = 0
    for (const cell of this.#topic(topic).cells)
      for (const lane of cell.lanes.all()) due += lane.countUpTo(nowScore)
    return { pending, due, claimed, dead }
  }

  async forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
    // Overdue tasks count as due now.
    const nowMs = this.#clock.now()
    for (const cell of this.#topic(topic).cells) {
      for (const lane of cell.lanes.all())
        for (const [, score] of lane.entries()) {
          const ringMs = Math.max(ringMsOf(score), nowMs)
          if (ringMs < fromMs || ringMs >= toMs) continue
          const step = Math.floor((ringMs - fromMs) / stepMs)
          steps[step] = (steps[step] ?? 0) + 1
        }
      if (cell.pool.size > 1_000) await this.#clock.turn()
    }
    return steps
  }

  async books(topic: string): Promise<Books> {
    const sum = {
      scheduled: 0,
      pending: 0,
      claimed: 0,
      dead: 0,
      done: 0,
      cancelled: 0,
      obsolete: 0,
      purged: 0,
    }
    for (const cell of this.#topic(topic).cells) {
      sum.pending += cell.pool.size - cell.heldCount
      sum.claimed += cell.heldCount
      sum.dead += cell.graves.size
      for (const [name, count] of Object.entries(cell.counters))
        sum[name as keyof typeof cell.counters] += count
    }
    return sum
  }

  async replay(topic: string, places: readonly Place[], which: Replayable = 'any'): Promise<ReplayAnswer[]> {
    return this.#change(topic, places, (cell, { key }, time) => cell.replay(key, time, which))
  }

  async purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return places.map(({ key, cell }) => this.#cell({ topic, cell }).purge(key))
  }

  async put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number> {
    const keptCells = this.#keptCells.get(topic)
    const kept = keptCells === undefined ? hints : hints.filter(({ cell }) => keptCells.has(cell))
    const changed = this.#change(topic, kept, (cell, hint, time) => cell.put(hint, mode, time))
    return changed.filter(Boolean).length
  }

  keepOnly(topic: string, cells: readonly number[]): void {
    const keptCells = new Set(cells)
    this.#keptCells.set(topic, keptCells)
    for (const [number, cell] of this.#topic(topic).cells.entries()) {
      if (keptCells.has(number)) continue
      // Held tasks stay until they are settled.
      for (const [key, { claim }] of cell.pool) if (claim === null) cell.drop(key)
    }
  }

  async drop(topic: string, places: readonly Place[]): Promise<void> {
    for (const { key, cell } of places) this.#cell({ topic, cell }).drop(key)
  }

  async extent(topic: string): Promise<{ count: number; headMs: number | null }> {
    let count = 0
    let headMs = NEVER
    for (const cell of this.#topic(topic).cells) {
      const { laneMs, suspectMs } = cell.nextRings()
      count += cell.pool.size
      headMs = Math.min(headMs, laneMs, suspectMs)
    }
    return { count, headMs: finiteOrNull(headMs) }
  }

  async has(topic: string, places: readonly Place[]): Promise<boolean[]> {
    return places.map(({ key, cell }) => this.#cell({ topic, cell }).pool.has(key))
  }

  async filling(topic: string): Promise<Filling> {
    return { epoch: this.#epoch, frontier: this.#topic(topic).frontier }
  }

  async filledTo(topic: string, epoch: string, frontier: Frontier): Promise<boolean> {
    if (epoch !== this.#epoch) return false
    const filled = this.#topic(topic)
    if (filled.frontier === null || !isBehind(frontier, filled.frontier)) filled.frontier = frontier
    return true
  }

  async nowMs(): Promise<number> {
    return this.#clock.now()
  }

  watch(topic: string, watcher: Watcher): () => void {
    const { watchers } = this.#topic(topic)
    watchers.add(watcher)
    return () => watchers.delete(watcher)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#topics.clear()
  }

  /**
   * Calls `step` for each place, always with the same time. Then wakes each cell whose next ring is now earlier, once
   * per cell.
   */
  #change<P extends Place, A>(
    topic: string,
    places: readonly P[],
    step: (cell: MemoryCell, place: P, time: CellTime) => A,
  ): A[] {
    const { cells } = this.#topic(topic)
    const time = this.#time()
    if (places.length === 1) return [this.#changeOne(topic, places[0] as P, time, step)]
    const ringsBefore = new Map<number, Rings>()
    const answers = places.map((place) => {
      const cell = cells[place.cell] as MemoryCell
      if (!ringsBefore.has(place.cell)) ringsBefore.set(place.cell, cell.nextRings())
      return step(cell, place, time)
    })
    for (const [cell, before] of ringsBefore) this.#wakeIfNearer(topic, cell, before, time)
    return answers
  }

  /**
   * Does the same as #change for a single place, without a Map: a program may make hundreds of thousands of such calls.
   */
  #changeOne<P extends Place, A>(
    topic: string,
    place: P,
    time: CellTime,
    step: (cell: MemoryCell, place: P, time: CellTime) => A,
  ): A {
    const cell = this.#cell({ topic, cell: place.cell })
    const before = cell.nextRings()
    const answer = step(cell, place, time)
    this.#wakeIfNearer(topic, place.cell, before, time)
    return answer
  }

  /**
   * Wakes a cell if its next ring is now earlier. Compares lanes and suspects separately: a suspect may wait long after
   * its ring time, and that old time would otherwise suppress the wakes for all other tasks.
   */
  #wakeIfNearer(topic: string, cell: number, before: Rings, { nowMs }: CellTime): void {
    const { cells, watchers } = this.#topic(topic)
    const now = (cells[cell] as MemoryCell).nextRings()
    const nearer = [
      now.laneMs < before.laneMs ? now.laneMs : NEVER,
      now.suspectMs < before.suspectMs ? now.suspectMs : NEVER,
    ]
    const ringMs = Math.min(...nearer)
    if (ringMs === NEVER) return
    for (const watcher of watchers) watcher.wake(cell, ringMs - nowMs, ringMs)
  }

  #time(): CellTime {
    return { nowMs: this.#clock.now(), steadyMs: this.#clock.monotonicNow() }
  }

  #cell({ topic, cell }: CellAddress): MemoryCell {
    return this.#topic(topic).cells[cell] as MemoryCell
  }

  #topic(name: string): TopicCells {
    const known = this.#topics.get(name)
    if (known !== undefined) return known
    // After `close`, a write must fail instead of being stored in a new topic and lost.
    if (this.#isClosed) throw new TocsinError('closed', 'this timetable was closed')
    const watchers = new Set<Watcher>()
    const cells = Array.from({ length: CELLS }, (_, cell) => {
      // Notify the watchers after the current call: the notification runs abort listeners of the user, which may call
      // this timetable again.
      const fence = (key: string, stamp: number, cause: 'cancelled' | 'replaced') =>
        queueMicrotask(() => {
          for (const watcher of watchers) watcher.fence(cell, key, stamp, cause)
        })
      return new MemoryCell(name, this.#random, fence)
    })
    const topic = { cells, watchers, frontier: null }
    this.#topics.set(name, topic)
    return topic
  }
}

function isBehind(a: Frontier, b: Frontier): boolean {
  return (a.ringMs - b.ringMs || a.cell - b.cell || compareKeys(a.key, b.key)) < 0
}
