/**
 * PORT. What the face and the runtime work with: a timetable alone, or a ledger with a timetable (store/). The runtime
 * never asks which.
 */
import type { Settings } from './config.ts'
import type { HeldPlace, Recount } from './ledger.ts'
import type { Tx } from './tx.ts'
import type {
  Books,
  CancelAnswer,
  NewEntry,
  Place,
  RescheduleAnswer,
  RingTime,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Timetable,
} from './timetable.ts'

export interface TaskStore extends Timetable {
  /** What only a ledger can do; undefined where there is none. */
  readonly ledger?: LedgerDoor | undefined
}

export interface LedgerDoor {
  /** By which settings a topic is loaded and swept. */
  govern(topic: string, settings: () => Settings): void
  /** The cells of a topic that this process pulls: others are other processes' business. */
  pulls(topic: string, cells: readonly number[]): void
  /** Writes in the caller's transaction. Refuses what is none. */
  within(tx: unknown): StoreTransaction
  /** A handler's writes and the outcomes of its tasks in one. Null: this ledger cannot wait for a handler in between. */
  readonly transact: Transact | null
  audit(): Promise<TopicAudit[]>
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
  schedule(topic: string, entries: readonly NewEntry[], quantumMs: number): Promise<ScheduleAnswer[]>
  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]>
  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    quantumMs: number,
  ): Promise<RescheduleAnswer[]>
  cancelBy(topic: string, cells: readonly number[], what: Selection): Promise<CancelAnswer[]>
  rescheduleBy(
    topic: string,
    cells: readonly number[],
    what: Selection,
    when: RingTime,
    quantumMs: number,
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
