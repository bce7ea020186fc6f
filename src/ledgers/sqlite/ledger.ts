import type { Clock } from '../../clock.ts'
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
} from '../../ledger.ts'
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
} from '../../timetable.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Frontier, Hint } from '../../hint-table.ts'
import { SqliteBoard } from './board.ts'
import type { StepName, Writer } from './committer.ts'
import type { StepTime } from './step-time.ts'
import type { Readings } from './readings.ts'
import type { CallerTransactions } from './caller-transactions.ts'
import type { Transitions } from './transitions.ts'
import { toTocsinError } from './driver-errors.ts'

export interface SqliteParts {
  readonly clock: Clock
  readonly readings: Readings
  readonly writer: Writer
  /** Number of the session that began when this process opened the file. */
  readonly session: number
  readonly transactions: CallerTransactions
  /** The settings of the topics that were configured. */
  readonly topics: Map<string, () => LedgerSettings>
  readonly where: string
  readonly close: () => Promise<void>
}

const STALE: LedgerSettled = { answer: 'stale', hint: null }

/** The parameters of a step without its last parameter, the time. */
type StepArgs<N extends StepName> =
  Parameters<Transitions[N]> extends [...infer Args, StepTime] ? Args : never

/** The ledger of one process, in a SQLite file. A write is answered after its data is on the disk. */
export class SqliteLedger implements Ledger {
  readonly isShared = false
  /** Null because a transaction that is open while a handler runs would block all other writes to the file. */
  readonly transact = null
  readonly board: SqliteBoard
  readonly #parts: SqliteParts

  constructor(parts: SqliteParts) {
    this.#parts = parts
    this.board = new SqliteBoard(parts)
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<LedgerScheduled[]> {
    return this.#write('schedule', topic, entries, mergeMs)
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#write('cancel', topic, places, this.#keepsEnded(topic))
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    return this.#write('reschedule', topic, places, when, mergeMs)
  }

  within(tx: unknown): LedgerTransaction {
    return this.#parts.transactions.within(tx)
  }

  claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]> {
    return this.#write('claim', topic, request, places)
  }

  begin(topic: string, place: Place, stamp: number): Promise<boolean> {
    return this.#write('begin', topic, place, stamp)
  }

  sessionOf(_cell: number): number {
    return this.#parts.session
  }

  extend(
    topic: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    session = this.#parts.session,
  ): Promise<ExtendAnswer[]> {
    if (this.#isOver(session)) return Promise.resolve(places.map(() => 'stale'))
    return this.#write('extend', topic, places, stamp, leaseMs)
  }

  settle(
    topic: string,
    settlements: readonly LedgerSettlement[],
    session = this.#parts.session,
  ): Promise<LedgerSettled[]> {
    if (this.#isOver(session)) return Promise.resolve(settlements.map(() => STALE))
    return this.#write('settle', topic, settlements, this.#keepsEnded(topic))
  }

  replay(topic: string, places: readonly Place[], which: Replayable = 'any'): Promise<LedgerReplayed[]> {
    return this.#write('replay', topic, places, which)
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return this.#write('purge', topic, places)
  }

  forget(topic: string, retention: Retention): Promise<{ ended: number; dead: number }> {
    return this.#write('forget', topic, retention)
  }

  load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded> {
    return this.#read((from, time) => from.load(topic, after, untilMs, limit, time))
  }

  hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]> {
    return this.#read((from, time) => from.hints(topic, places, time))
  }

  get(topic: string, place: Place): Promise<EntryView | null> {
    return this.#read((from) => from.get(topic, place))
  }

  list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return this.#read((from, time) => from.list(topic, query, time))
  }

  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#read((from) => from.find(at, among, what, cursor))
  }

  counts(topic: string): Promise<Counts> {
    return this.#read((from, time) => from.counts(topic, time))
  }

  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    return this.#read((from, time) => from.forecast(topic, fromMs, toMs, stepMs, time))
  }

  books(topic: string): Promise<Books> {
    return this.#read((from) => from.books(topic))
  }

  topics(): Promise<string[]> {
    return this.#read((from) => from.topics())
  }

  recount(topic: string): Promise<{ books: Books; counted: Recount }> {
    return this.#read((from) => from.recount(topic))
  }

  async nowMs(): Promise<number> {
    return this.#parts.clock.now()
  }

  clockMs(): number {
    return this.#parts.clock.now()
  }

  /**
   * Uses only `keepsEnded`. A shared ledger stores how the keys of a topic are assigned to cells, because other processes
   * write tasks, too. No other process writes tasks to this file.
   */
  configure(topic: string, placing: () => LedgerSettings): void {
    this.#parts.topics.set(topic, placing)
  }

  /** Never calls its listener, because no other process writes tasks to the file. */
  listen(): () => void {
    return () => {}
  }

  /** Returns no places. The property `ended` of a caller's transaction reports the end of the transaction instead. */
  committedWrites(): Promise<Place[]> {
    return Promise.resolve([])
  }

  async close(): Promise<void> {
    await this.#parts.close()
  }

  /**
   * Returns true for an earlier session. The claims of an earlier session ended when this session began, because only
   * one process at a time has the file open.
   */
  #isOver(session: number): boolean {
    return session !== this.#parts.session
  }

  #keepsEnded(topic: string): boolean {
    return this.#parts.topics.get(topic)?.().keepsEnded ?? true
  }

  /**
   * Runs a step. A lease begins at the time of this call, before the step waits for its transaction. So the wait can
   * only shorten the lease.
   */
  #write<N extends StepName>(name: N, ...args: StepArgs<N>): Promise<ReturnType<Transitions[N]>> {
    const answer = this.#parts.writer.run({ name, args: [...args, this.#time()] })
    return answer as Promise<ReturnType<Transitions[N]>>
  }

  #read<T>(work: (readings: Readings, time: StepTime) => T): Promise<T> {
    try {
      return Promise.resolve(work(this.#parts.readings, this.#time()))
    } catch (error) {
      return Promise.reject(toTocsinError(error, this.#parts.where) as Error)
    }
  }

  #time(): StepTime {
    const { clock } = this.#parts
    return { nowMs: clock.now(), steadyMs: clock.monotonicNow() }
  }
}
