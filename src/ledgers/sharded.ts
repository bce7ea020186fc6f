import { CELLS } from '../values/cell.ts'
import { badTx } from '../values/tx.ts'
import type {
  ClaimVerdict,
  ExtendAnswer,
  Ledger,
  LedgerClaimRequest,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettlement,
  LedgerTransaction,
  Loaded,
  LedgerSettings,
  Recount,
  Retention,
  TopicCreated,
} from '../ledger.ts'
import { compareFrontiers, compareKeys, comparePositions, positionOf } from '../values/list-position.ts'
import type {
  Books,
  CancelAnswer,
  CellAddress,
  Counts,
  EntryView,
  ListQuery,
  NewEntry,
  Place,
  Replayable,
  Selection,
} from '../timetable.ts'
import type { RingTime } from '../values/ring-time.ts'
import type { Frontier, Hint } from '../hint-table.ts'

/**
 * One ledger over several databases. Each database stores a fixed range of cells, so a task never moves to another
 * database. Every step on a task runs in one database. A call about a whole topic goes to all databases.
 */
export class ShardedLedger implements Ledger {
  readonly isShared = true
  /**
   * Null: no handler can run in a transaction of this ledger. The tasks that a handler gets in one call may be in
   * several databases, and a transaction belongs to one database.
   */
  readonly transact = null
  readonly #shards: readonly Ledger[]

  constructor(shards: readonly Ledger[]) {
    this.#shards = shards
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<LedgerScheduled[]> {
    return this.#spread(entries, (shard, some) => shard.schedule(topic, some, mergeMs))
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#spread(places, (shard, some) => shard.cancel(topic, some))
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    return this.#spread(places, (shard, some) => shard.reschedule(topic, some, when, mergeMs))
  }

  configure(topic: string, settings: () => LedgerSettings, created: TopicCreated): void {
    for (const shard of this.#shards) shard.configure(topic, settings, created)
  }

  /**
   * Writes in a caller's transaction. The transaction belongs to one database, so it can only write tasks of that
   * database.
   */
  within(tx: unknown): LedgerTransaction {
    const inside = this.#shards.map((shard) => shard.within(tx))
    const only = (places: readonly Place[]): LedgerTransaction => {
      const numbers = new Set(places.map(({ cell }) => this.#numberOf(cell)))
      const [number = 0] = numbers
      if (numbers.size > 1)
        throw badTx(
          'these tasks live in several databases, and a transaction is of one; write those of each in one of its own',
        )
      return inside[number] as LedgerTransaction
    }
    const everywhere = (): never => {
      throw badTx(
        'what has a tag or a prefix may live in several databases, and a transaction is of one; name the keys',
      )
    }
    return {
      schedule: async (topic, entries, mergeMs) => only(entries).schedule(topic, entries, mergeMs),
      cancel: async (topic, places) => only(places).cancel(topic, places),
      reschedule: async (topic, places, when, mergeMs) =>
        only(places).reschedule(topic, places, when, mergeMs),
      cancelBy: async () => everywhere(),
      rescheduleBy: async () => everywhere(),
      ended: null,
      isSynchronous: false,
    }
  }

  claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]> {
    return this.#spread(places, (shard, some) => shard.claim(topic, request, some))
  }

  begin(topic: string, place: Place, stamp: number): Promise<boolean> {
    return this.#of(place.cell).begin(topic, place, stamp)
  }

  /**
   * Returns the session number of the database that stores the cell. Each database numbers its sessions by its own
   * counter, so a session number is valid only for the cells of the same database.
   */
  sessionOf(cell: number): number {
    return this.#of(cell).sessionOf(cell)
  }

  extend(
    topic: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    session?: number,
  ): Promise<ExtendAnswer[]> {
    return this.#spread(places, (shard, some) => shard.extend(topic, some, stamp, leaseMs, session))
  }

  settle(
    topic: string,
    settlements: readonly LedgerSettlement[],
    session?: number,
  ): Promise<LedgerSettled[]> {
    return this.#spread(settlements, (shard, some) => shard.settle(topic, some, session))
  }

  replay(topic: string, places: readonly Place[], which?: Replayable): Promise<LedgerReplayed[]> {
    return this.#spread(places, (shard, some) => shard.replay(topic, some, which))
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return this.#spread(places, (shard, some) => shard.purge(topic, some))
  }

  /**
   * Merges one page of each database into one page. A database that has more tasks returns a frontier, which is the
   * position of the last task on its page. After the lowest frontier, tasks of that database may be missing. So the
   * merged page ends at the lowest frontier.
   */
  async load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded> {
    const pages = await Promise.all(this.#shards.map((shard) => shard.load(topic, after, untilMs, limit)))
    const [end] = pages.flatMap(({ frontier }) => frontier ?? []).toSorted(compareFrontiers)
    const all = pages
      .flatMap(({ hints, orderMs }) =>
        hints.map((hint, i) => ({ hint, key: hint.key, cell: hint.cell, ringMs: orderMs[i] as number })),
      )
      .filter((one) => end === undefined || compareFrontiers(one, end) <= 0)
      .toSorted(compareFrontiers)
    const page = all.slice(0, limit)
    const last = page.at(-1)
    const isAll = last === undefined || (end === undefined && all.length <= limit)
    return {
      hints: page.map(({ hint }) => hint),
      orderMs: page.map(({ ringMs }) => ringMs),
      frontier: isAll ? null : { ringMs: last.ringMs, cell: last.cell, key: last.key },
    }
  }

  hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]> {
    return this.#spread(places, (shard, some) => shard.hints(topic, some))
  }

  get(topic: string, place: Place): Promise<EntryView | null> {
    return this.#of(place.cell).get(topic, place)
  }

  async list(topic: string, query: ListQuery): Promise<EntryView[]> {
    const pages = await Promise.all(this.#shards.map((shard) => shard.list(topic, query)))
    return pages.flat().toSorted(compareViews).slice(0, query.limit)
  }

  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#of(at.cell).find(at, among, what, cursor)
  }

  async counts(topic: string): Promise<Counts> {
    return added(await Promise.all(this.#shards.map((shard) => shard.counts(topic))))
  }

  async forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    const parts = await Promise.all(this.#shards.map((shard) => shard.forecast(topic, fromMs, toMs, stepMs)))
    return (parts[0] as number[]).map((_, step) => sum(parts.map((part) => part[step] ?? 0)))
  }

  async books(topic: string): Promise<Books> {
    return added(await Promise.all(this.#shards.map((shard) => shard.books(topic))))
  }

  async recount(topic: string): Promise<{ books: Books; counted: Recount }> {
    const parts = await Promise.all(this.#shards.map((shard) => shard.recount(topic)))
    return {
      books: added(parts.map(({ books }) => books)),
      counted: added(parts.map(({ counted }) => counted)),
    }
  }

  async topics(): Promise<string[]> {
    const parts = await Promise.all(this.#shards.map((shard) => shard.topics()))
    return [...new Set(parts.flat())].toSorted()
  }

  async forget(topic: string, retention: Retention): Promise<{ ended: number; dead: number }> {
    const forgotten = { ended: 0, dead: 0 }
    const deadMax = Math.floor(retention.deadMax / this.#shards.length)
    for (const shard of this.#shards) {
      const limit = retention.limit - forgotten.ended - forgotten.dead
      if (limit <= 0) break
      const { ended, dead } = await shard.forget(topic, { ...retention, deadMax, limit })
      forgotten.ended += ended
      forgotten.dead += dead
    }
    return forgotten
  }

  /**
   * Returns the time of the database whose clock is the furthest behind. So no task rings early by the clock of its
   * database.
   */
  async nowMs(): Promise<number> {
    return Math.min(...(await Promise.all(this.#shards.map((shard) => shard.nowMs()))))
  }

  clockMs(): number {
    return Math.min(...this.#shards.map((shard) => shard.clockMs()))
  }

  async committedWrites(topic: string): Promise<Place[]> {
    const parts = await Promise.all(this.#shards.map((shard) => shard.committedWrites(topic)))
    return parts.flat()
  }

  listen(onNear: (topic: string | null) => void): () => void {
    const ends = this.#shards.map((shard) => shard.listen(onNear))
    return () => ends.forEach((end) => end())
  }

  async close(): Promise<void> {
    await Promise.all(this.#shards.map((shard) => shard.close()))
  }

  #numberOf(cell: number): number {
    return Math.floor((cell * this.#shards.length) / CELLS)
  }

  #of(cell: number): Ledger {
    return this.#shards[this.#numberOf(cell)] as Ledger
  }

  #deal<P extends { readonly cell: number }>(places: readonly P[]): [shard: Ledger, places: P[]][] {
    const dealt = new Map<Ledger, P[]>()
    for (const place of places) {
      const shard = this.#of(place.cell)
      const known = dealt.get(shard)
      if (known === undefined) dealt.set(shard, [place])
      else known.push(place)
    }
    return [...dealt]
  }

  /**
   * Runs the step in each database with the places of that database. Returns one answer per place, in the order of
   * `places`.
   */
  async #spread<P extends { readonly cell: number }, A>(
    places: readonly P[],
    step: (shard: Ledger, places: readonly P[]) => Promise<A[]>,
  ): Promise<A[]> {
    const dealt = this.#deal(places)
    if (dealt.length === 0) return []
    const answers = new Map(
      await Promise.all(
        dealt.map(async ([shard, some]) => [shard, (await step(shard, some)).values()] as const),
      ),
    )
    return places.map(({ cell }) => answers.get(this.#of(cell))?.next().value as A)
  }
}

/**
 * Compares two tasks in the order in which each database lists them. Live tasks: by ring time, failures and key. Ended
 * tasks, which have a generation: by the time of their end, key and generation.
 */
function compareViews(a: EntryView, b: EntryView): number {
  if (a.generation === undefined || b.generation === undefined)
    return comparePositions(positionOf(a), positionOf(b))
  return a.ringMs - b.ringMs || compareKeys(a.key, b.key) || a.generation - b.generation
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

function added<T extends object>(parts: readonly T[]): T {
  const total = { ...(parts[0] as T) } as Record<string, number>
  for (const part of parts.slice(1))
    for (const [name, count] of Object.entries(part)) total[name] = (total[name] ?? 0) + (count as number)
  return total as T
}
