/**
 * PORT. What the API and the consumers work with: a timetable alone, or a ledger with a timetable (store/). They never ask
 * which of the two they have: `features` says what the store can do, and refuses what it cannot.
 */
import type { Settings } from './values/config.ts'
import { needsLedger } from './values/options.ts'
import type { ExtendAnswer, HeldPlace, Recount } from './ledger.ts'
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
   * `session` is that of the process that claimed, taken from a pull token (`StoreFeatures.sessionOf`): any process may
   * settle such a claim. Null or absent: the claim was made by this process.
   */
  settle(
    at: CellAddress,
    settlements: readonly Settlement[],
    session?: number | null,
  ): Promise<SettleAnswer[]>
}

/** What a store offers beyond a timetable. `NO_LEDGER` implements it for a timetable alone. */
export interface StoreFeatures {
  /** True if tasks that ended (done, cancelled, obsolete) are kept for a while and can be listed. */
  readonly keepsEnded: boolean
  /** Sets the settings by which a topic is loaded, swept and cleaned up. */
  configure(topic: string, settings: () => Settings): void
  /** Sets the cells of a topic that this process pulls. Other processes pull the others. */
  pulls(topic: string, cells: readonly number[]): void
  /** Returns the writes in the caller's transaction. Throws 'bad-tx' if `tx` is not an open transaction of the ledger. */
  within(tx: unknown): StoreTransaction
  /** Returns how a handler's writes commit together with its outcomes. Throws 'ledger-required' if the store cannot. */
  handlerTransactions(): Transact
  /** Returns the session under which this process holds claims of a cell, for pull tokens. Null without a ledger. */
  sessionOf(cell: number): number | null
  /**
   * Marks tasks of a claim as handed to a client that may extend and settle them through any process. The claim request
   * must not be repeated afterwards: the client has the answer.
   */
  handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void>
  /**
   * Extends the leases of some keys of a claim, whichever process made it; the keys of one claim may be held by many
   * clients. One answer per key, in order; retry a key that is 'locked'. Null where a lease is that of a whole claim
   * (`Timetable.extend`).
   */
  readonly extendKeys: ExtendKeys | null
  audit(): Promise<TopicAudit[]>
  /** Returns how far loading hints is behind the clock. Null if this process does not load the topic. */
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

/** Identifies a claim among those of all processes. */
export interface ClaimToken {
  readonly session: number
  readonly req: string
  readonly stamp: number
}

/**
 * Calls `work` in a transaction and commits if it returns true; otherwise nothing was written. Returns whether it
 * committed. `held` are the handler's tasks. If `signal` aborts while the call waits for a connection, `work` is not called.
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
  /** True if errors are thrown synchronously, not rejected. */
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

/** The books of a topic, and whether they balance. */
export interface TopicAudit {
  readonly topic: string
  /** Counters, updated by every write. */
  readonly books: Books
  /** Rows, counted one by one. */
  readonly counted: Recount
  /** True if `scheduled` is the sum of the other counters, and the counters agree with the rows. */
  readonly balances: boolean
  /** Tasks that should have been in the timetable and were not; they were added. */
  readonly missing: number
  /** Entries of the timetable without a task; they were removed. */
  readonly orphaned: number
  /** Tasks that the sweeper had to put back since the start. 0 in a healthy run. */
  readonly rescued: number
}
