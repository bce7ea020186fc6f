import { TocsinError } from '../../../src/errors.ts'
import type {
  ClaimVerdict,
  ExtendAnswer,
  HandlerTransaction,
  Ledger,
  LedgerClaimRequest,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettings,
  LedgerSettlement,
  LedgerTransaction,
  Loaded,
  Recount,
  Retention,
} from '../../../src/ledger.ts'
import { DEAD } from '../../../src/ledgers/rows.ts'
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
} from '../../../src/timetable.ts'
import type { RingTime } from '../../../src/values/ring-time.ts'
import type { Frontier, Hint } from '../../../src/hint-table.ts'
import { answered } from './answered.ts'
import { cancel, forget, purgeAll, replay, reschedule, schedule } from './changes.ts'
import { begin, claim, extend } from './claims.ts'
import { type Engine, isNear, type NearAnswers } from './engine.ts'
import { HandlerTransactions } from './handler-transactions.ts'
import { find, list } from './listings.ts'
import { locked } from './locks.ts'
import * as readings from './readings.ts'
import type { Moment } from './rows.ts'
import { settleOne } from './settling.ts'
import { SharedTx } from './shared-tx.ts'
import type { Statement } from './statement.ts'
import type { TopicTable } from './topic-table.ts'
import { within } from './within.ts'
import type { LostClaim } from './write-ahead-log.ts'

/** One call returns at most this many committed writes. */
const COMMITTED_MAX = 1_000

/** The ledger as one process has it open. */
export class SharedSession implements Ledger {
  readonly isShared = true
  readonly session: number
  readonly #engine: Engine
  readonly #handlers: HandlerTransactions
  readonly #tellWithinMs: number
  readonly #unlisten = new Set<() => void>()
  readonly #settings = new Map<string, () => LedgerSettings>()
  #isGone = false

  constructor(engine: Engine, session: number, tellWithinMs: number) {
    this.#engine = engine
    this.session = session
    this.#handlers = new HandlerTransactions(engine, session)
    this.#tellWithinMs = tellWithinMs
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<LedgerScheduled[]> {
    if (entries.length > 0) this.#engine.makeTopic(topic)
    return this.#writeTelling(topic, 'schedule', (statement) => schedule(statement, entries, mergeMs))
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#write(topic, 'cancel', (statement) => cancel(statement, places))
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    return this.#writeTelling(topic, 'reschedule', (statement) =>
      reschedule(statement, places, when, mergeMs),
    )
  }

  /** Keys are placed by one rule in a simulated run: there is nothing to compare. */
  configure(topic: string, settings: () => LedgerSettings): void {
    this.#settings.set(topic, settings)
  }

  within(tx: unknown): LedgerTransaction {
    return within(SharedTx.transactionOf(tx, this.#engine), this.session)
  }

  claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]> {
    const isFast = this.#settings.get(topic)?.().fastClaims === true
    let taken: LostClaim[] = []
    const take = (statement: Statement) => {
      const before = places.map((place) => statement.draft.row(place))
      const verdicts = claim(statement, request, places)
      const { session } = this
      const { stamp } = request
      const changed = [...places.keys()].filter((i) => statement.draft.row(places[i] as Place) !== before[i])
      // As PostgreSQL's: what also ends a task, or counts a lost lease, waits for the disk.
      if (changed.every((i) => before[i]?.session === null))
        taken = changed.map((i) => ({ ...(places[i] as Place), topic, session, stamp }))
      return verdicts
    }
    return this.#write(topic, 'claim', take, () => (isFast && taken.length > 0 ? taken : null))
  }

  begin(topic: string, place: Place, stamp: number): Promise<boolean> {
    return this.#write(topic, 'begin', (statement) => begin(statement, place, stamp))
  }

  sessionOf(_cell: number): number {
    return this.session
  }

  extend(
    topic: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    session = this.session,
  ): Promise<ExtendAnswer[]> {
    return this.#write(topic, 'extend', (statement) =>
      extend({ ...statement, session }, places, stamp, leaseMs),
    )
  }

  /** What is not locked is settled, though the call fails because of the rest: it may be repeated. */
  async settle(
    topic: string,
    settlements: readonly LedgerSettlement[],
    session = this.session,
  ): Promise<LedgerSettled[]> {
    const answers = await this.#write(topic, 'settle', (statement) =>
      settlements.map((settlement) => settleOne({ ...statement, session }, settlement)),
    )
    const settled = answers.filter((answer) => answer !== null)
    if (settled.length === answers.length) return settled
    throw settled.length === 0 ? locked('settle') : inPart(answers.indexOf(null), settled.length)
  }

  transact(
    work: (transaction: HandlerTransaction) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<boolean> {
    return this.#isGone ? Promise.reject(gone()) : this.#handlers.run(work, signal)
  }

  replay(topic: string, places: readonly Place[], which: Replayable = 'any'): Promise<LedgerReplayed[]> {
    return this.#writeTelling(topic, 'replay', (statement) => replay(statement, places, which))
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return this.#write(topic, 'purge', (statement) => purgeAll(statement, places))
  }

  load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded> {
    return this.#read(topic, (table, moment) => readings.load(table, after, untilMs, limit, moment))
  }

  hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]> {
    return this.#read(topic, (table, moment) => readings.hints(table, places, moment))
  }

  get(topic: string, place: Place): Promise<EntryView | null> {
    return this.#read(topic, (table) => readings.get(topic, table, place))
  }

  list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return this.#read(topic, (table) => list(topic, table, query))
  }

  find(
    { topic, cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#read(topic, (table) => {
      if (among === 'live') return find(table.rowsOfCell(cell), what, cursor)
      const dead = table.byEnd(DEAD).slice(0, table.byEnd(DEAD).size)
      return find(
        dead.filter((row) => row.cell === cell),
        what,
        cursor,
      )
    })
  }

  counts(topic: string): Promise<Counts> {
    return this.#read(topic, (table, moment) => readings.counts(table, moment))
  }

  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    return this.#read(topic, (table, moment) => readings.forecast(table, fromMs, toMs, stepMs, moment))
  }

  books(topic: string): Promise<Books> {
    return this.#read(topic, readings.books)
  }

  recount(topic: string): Promise<{ books: Books; counted: Recount }> {
    return this.#read(topic, (table) => ({ books: readings.books(table), counted: readings.count(table) }))
  }

  topics(): Promise<string[]> {
    return this.#connected(() => this.#engine.topics)
  }

  forget(topic: string, retention: Retention): Promise<{ ended: number; dead: number }> {
    return this.#write(topic, 'forget', (statement) =>
      forget(statement, this.#engine.table(topic), retention),
    )
  }

  nowMs(): Promise<number> {
    return this.#connected(() => this.clockMs())
  }

  clockMs(): number {
    return this.#engine.moment().nowMs
  }

  committedWrites(topic: string): Promise<Place[]> {
    return this.#read(topic, ({ committed }) => committed.splice(0, COMMITTED_MAX))
  }

  listen(onNear: (topic: string | null) => void): () => void {
    const unlisten = this.#engine.listen(onNear)
    this.#unlisten.add(unlisten)
    return () => {
      unlisten()
      this.#unlisten.delete(unlisten)
    }
  }

  close(): Promise<void> {
    this.crash()
    return Promise.resolve()
  }

  /** The process is gone: the server undoes its handlers' transactions. What it holds stays its own until its leases end. */
  crash(): void {
    this.#isGone = true
    this.#handlers.abandon()
    for (const unlisten of this.#unlisten) unlisten()
    this.#unlisten.clear()
  }

  /** The same, but what it has sent before is still on its way, and is carried out. */
  abandon(): void {
    this.#handlers.abandon()
  }

  #write<T>(
    topic: string,
    doing: string,
    work: (statement: Statement) => T,
    unwritten?: (answer: T) => readonly LostClaim[] | null,
  ): Promise<T> {
    return this.#connected(() => this.#committed(topic, doing, work, unwritten).answer)
  }

  #writeTelling<A extends NearAnswers>(
    topic: string,
    doing: string,
    work: (statement: Statement) => A,
  ): Promise<A> {
    return this.#connected(() => {
      const { answer, moment } = this.#committed(topic, doing, work)
      if (isNear(answer, moment, this.#tellWithinMs)) this.#engine.tell(topic)
      return answer
    })
  }

  /**
   * One statement, one transaction: what throws has written nothing. `unwritten` returns the claims of a commit that does
   * not wait for the disk, and null for one that waits.
   */
  #committed<T>(
    topic: string,
    doing: string,
    work: (statement: Statement) => T,
    unwritten: (answer: T) => readonly LostClaim[] | null = () => null,
  ): { readonly answer: T; readonly moment: Moment } {
    const draft = this.#engine.draft(topic, null)
    const statement = this.#engine.statement(draft, topic, this.session, doing)
    const answer = work(statement)
    const undo = draft.apply()
    const claims = unwritten(answer)
    if (claims !== null) this.#engine.log.unwritten(statement.moment.steadyMs, undo, claims)
    else if (!draft.isEmpty) this.#engine.log.written()
    return { answer, moment: statement.moment }
  }

  #read<T>(topic: string, work: (table: TopicTable, moment: Moment) => T): Promise<T> {
    return this.#connected(() => work(this.#engine.table(topic), this.#engine.moment()))
  }

  #connected<T>(work: () => T): Promise<T> {
    return this.#isGone ? Promise.reject(gone()) : answered(work)
  }
}

function gone(): TocsinError {
  return new TocsinError('ledger-unavailable', 'this session of the shared ledger is closed')
}

/** As src/lib/batcher.ts says it, which puts the answers of one call together. */
function inPart(gap: number, count: number): TocsinError {
  return new TocsinError('interrupted', `${count} took effect; then: ${locked('settle').message}`, {
    accepted: gap,
    inAll: count,
  })
}
