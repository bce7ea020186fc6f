/**
 * PORT. The store that the API and the consumers use: a timetable alone, or a ledger with a timetable (store/). Callers
 * never check which of the two the store is. A method of `features` that needs a ledger throws an error without one.
 */
import type { Settings } from './values/config.ts'
import { needsLedger } from './values/options.ts'
import type { ExtendAnswer, HeldPlace, Recount, TopicCreated } from './ledger.ts'
import type { Tx } from './values/tx.ts'
import type {
  Books,
  CancelAnswer,
  CellAddress,
  NewEntry,
  Place,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Timetable,
} from './timetable.ts'
import type { RingTime } from './values/ring-time.ts'

export interface TaskStore extends Timetable {
  readonly features: StoreFeatures
  /**
   * `session` is the session of the process that made the claim. Null or absent if this process made the claim. A
   * client that pulls tasks over HTTP gets the session in a token, and may settle the tasks through any process.
   */
  settle(
    at: CellAddress,
    settlements: readonly Settlement[],
    session?: number | null,
  ): Promise<SettleAnswer[]>
}

/** What a store offers in addition to a timetable. `NO_LEDGER` implements these features for a timetable alone. */
export interface StoreFeatures {
  /** True if the store keeps ended tasks (done, cancelled, obsolete) for the retention time, and can list them. */
  readonly keepsEnded: boolean
  /** Sets the function that returns a topic's current settings, and the function that waits for its creation. */
  configure(topic: string, settings: () => Settings, created?: TopicCreated): void
  /** Sets the cells of a topic that this process pulls. Other processes pull the other cells. */
  pulls(topic: string, cells: readonly number[]): void
  /** Returns the writes in a caller's transaction. Throws 'bad-tx' if `tx` is not an open transaction of the ledger. */
  within(tx: unknown): StoreTransaction
  /**
   * Returns a function that commits a handler's writes together with its outcomes. Throws 'ledger-required' if the
   * store cannot do this.
   */
  handlerTransactions(): Transact
  /** Returns the session of this process for a cell. HTTP clients get it in their tokens. Null without a ledger. */
  sessionOf(cell: number): number | null
  /**
   * Marks tasks of a claim as handed out to an HTTP client. The client may extend and settle these tasks through any
   * process. After this call the claim request must not be retried, because the client already has its tasks.
   */
  handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void>
  /**
   * Extends the leases of some keys of a claim, because several HTTP clients may hold keys of one claim. Any process
   * may have made the claim. Returns one answer per key, in order; retry a key that is 'locked'. `extendKeys` is null
   * if the store can only extend a whole claim (`Timetable.extend`).
   */
  readonly extendKeys: ExtendKeys | null
  audit(): Promise<TopicAudit[]>
  /** Returns how far the loading of hints lags behind the clock. Null if this process does not load the topic. */
  loaderLagMs(topic: string): number | null
}

export type ExtendKeys = (
  token: ClaimToken,
  at: CellAddress,
  keys: readonly string[],
  leaseMs: number,
) => Promise<ExtendAnswer[]>

/** The features of a timetable alone. */
export const NO_LEDGER: StoreFeatures = {
  keepsEnded: false,
  extendKeys: null,
  configure: () => {},
  pulls: () => {},
  within: () => {
    throw needsLedger('{ tx }')
  },
  handlerTransactions: () => {
    throw needsLedger('transaction: true')
  },
  sessionOf: () => null,
  handOut: () => Promise.resolve(),
  audit: () => Promise.reject(needsLedger('audit()')),
  loaderLagMs: () => null,
}

/** Identifies a claim among the claims of all processes. */
export interface ClaimToken {
  readonly session: number
  readonly req: string
  readonly stamp: number
}

/**
 * Calls `work` in a transaction. Commits if `work` returns true, and rolls back otherwise. Returns whether the
 * transaction committed. `held` are the handler's own tasks: a write of the handler to one of these tasks first checks
 * that the claim still holds the task. If `signal` aborts while the call waits for a connection, `work` is not called.
 */
export type Transact = (
  topic: string,
  held: readonly HeldPlace[],
  work: (
    tx: Tx,
    settle: (settlements: readonly (Settlement & Place)[]) => Promise<SettleAnswer[]>,
  ) => Promise<boolean>,
  signal: AbortSignal,
) => Promise<boolean>

export interface StoreTransaction {
  /** True if the methods throw errors synchronously. False if their promises reject. */
  readonly isSynchronous: boolean
  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]>
  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]>
  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]>
  cancelBy(topic: string, cells: readonly number[], what: Selection): Promise<CancelAnswer[]>
  rescheduleBy(
    topic: string,
    cells: readonly number[],
    what: Selection,
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]>
}

/** The result of an audit: the books of a topic, whether they balance, and what the audit repaired. */
export interface TopicAudit {
  readonly topic: string
  /** Counters, updated by every write. */
  readonly books: Books
  /** The numbers of rows, counted one by one. */
  readonly counted: Recount
  /** True if `scheduled` is the sum of the other counters, and the counters agree with the rows. */
  readonly balances: boolean
  /** The number of missing hints that the audit added to the timetable. 0 if this process does not load the topic. */
  readonly missing: number
  /** The number of hints without a task that the audit removed. 0 if this process does not load the topic. */
  readonly orphaned: number
  /** The number of lost hints that the sweeper (store/sweeper.ts) added since the process started. Usually 0. */
  readonly rescued: number
}
