/**
 * PORT. What the face and the runtime work with: a timetable alone, or a ledger with a timetable (store/). The runtime
 * never asks which.
 */
import type { Settings } from './values/config.ts'
import type { Extended, HeldPlace, Recount } from './ledger.ts'
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
  /** What only a ledger can do; undefined where there is none. */
  readonly ledger?: LedgerFeatures | undefined
}

export interface LedgerFeatures {
  /** By which settings a topic is loaded and swept. */
  configure(topic: string, settings: () => Settings): void
  /** The cells of a topic that this process pulls: others are other processes' business. */
  pulls(topic: string, cells: readonly number[]): void
  /** Writes in the caller's transaction. Refuses what is none. */
  within(tx: unknown): StoreTransaction
  /** A handler's writes and the outcomes of its tasks in one. Null: this ledger cannot wait for a handler in between. */
  readonly transact: Transact | null
  /** Under which the claims of this process in that cell are held: for their tokens. */
  sessionOf(cell: number): number
  /**
   * Somebody outside bears these of a claim from now on, who may speak through any process. Their request must not be
   * repeated after this: it was answered.
   */
  handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void>
  /** As `settle`, for whoever has the token of a claim, whichever process made it. */
  settleFor(session: number, at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]>
  /**
   * As `extend`, for whoever has the token of a claim, whichever process made it; and only of these keys, which may have
   * many bearers. One answer per key, in order; 'locked': to be asked for again.
   */
  extendFor(token: ClaimToken, at: CellAddress, keys: readonly string[], leaseMs: number): Promise<Extended[]>
  audit(): Promise<TopicAudit[]>
  /** How far the loading of what rings soon is behind the clock; null: it is not loaded here. */
  loaderLagMs(topic: string): number | null
}

/** Names a claim among those of all processes. */
export interface ClaimToken {
  readonly session: number
  readonly req: string
  readonly stamp: number
}

/**
 * Commits when `work` answers true; otherwise nothing was done. `held` are the handler's tasks. Aborted while it waits for
 * a connection, `work` is not called any more.
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
  /** What goes wrong is thrown, not rejected. */
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

/** The books of a topic, and whether they are true. */
export interface TopicAudit {
  readonly topic: string
  /** Counters, moved with every write. */
  readonly books: Books
  /** Rows, counted one by one. */
  readonly counted: Recount
  /** Scheduled is the sum of the others, and the counters agree with the rows. */
  readonly balances: boolean
  /** Tasks that should have been in the timetable and were not, and entries of the timetable without a task. Mended. */
  readonly missing: number
  readonly orphaned: number
  /** Tasks that the sweeper had to put back, since the start. In a healthy run: none. */
  readonly rescued: number
}
