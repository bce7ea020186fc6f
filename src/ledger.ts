/**
 * PORT. A ledger is the source of truth: it stores every task and its outcome, durably. Its adapters are in ledgers/.
 *
 * With a ledger, the timetable only has hints (hint-table.ts). *The timetable rings, the ledger decides*: a key that rings
 * is claimed in the ledger, under one condition, or it is not delivered. So a hint that is lost, late, duplicated or
 * outdated does no harm: at worst the key rings and the claim is refused.
 *
 * A claim may take a task that
 *   waits, and is due by the clock of the hint table, or
 *   is claimed, and whose lease has ended by the ledger's clock, or
 *   is claimed under the same token: the answer was lost, and the call was retried.
 *
 * Every write is durable when its promise resolves. When a reply is lost, `claim`, `begin`, `extend` and `settle` may
 * be retried: the token identifies the call, and the second one changes nothing.
 */
import type { SlotBy } from './values/cell.ts'
import type { Tx } from './values/tx.ts'
import type {
  Books,
  CancelAnswer,
  ClaimedTask,
  Looks,
  NewEntry,
  Place,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleOutcome,
} from './timetable.ts'
import type { RingTime } from './values/ring-time.ts'
import type { Frontier, Hint } from './hint-table.ts'

export interface Loaded {
  readonly hints: readonly Hint[]
  /** Sort key of each hint. For a claimed task it differs from `ringMs`, which is the end of its lease. */
  readonly orderMs: readonly number[]
  /** Where the next page begins. Null if this was the last page. */
  readonly frontier: Frontier | null
}

export interface LedgerScheduled extends ScheduleAnswer {
  /** Null if the older task was kept, and nothing changed. */
  readonly hint: Hint | null
}

export interface LedgerRescheduled extends RescheduleAnswer {
  readonly hint: Hint | null
}

export interface LedgerReplayed {
  readonly outcome: 'replayed' | 'live' | 'not-found'
  readonly hint: Hint | null
}

export interface LedgerClaimRequest {
  /** The token of a claim is the stamp, the cell, and the session that the ledger gave this process. */
  readonly stamp: number
  readonly leaseMs: number
  /** The time of the hint table's clock when the keys rang. */
  readonly nowMs: number
  /** True if the task is claimed alone, as a suspect. */
  readonly alone: boolean
}

/** The ledger's answer for one key that rang. */
export type ClaimVerdict =
  | { readonly kind: 'ours'; readonly task: ClaimedTask }
  /** The key has no live task. */
  | { readonly kind: 'gone' }
  /** The task waits, and rings later. */
  | { readonly kind: 'later'; readonly hint: Hint }
  /** Another claim holds the task, for at least this long. */
  | { readonly kind: 'held'; readonly leaseEndInMs: number }
  /** The task has lost two leases in a row: it may only be claimed alone. */
  | { readonly kind: 'suspect'; readonly hint: Hint }
  /** The task has lost three leases in a row, the last one alone: it is dead now. */
  | { readonly kind: 'poison'; readonly error: string }
  /** The stored row is corrupt: the task is dead now, and is not delivered. */
  | { readonly kind: 'damaged'; readonly error: string }

export interface LedgerSettlement extends Place {
  readonly stamp: number
  readonly outcome: SettleOutcome | Lost
}

/** The lease ended before the task was settled. It rings again after a delay of some seconds, times `spread` (0 to 1). */
export interface Lost {
  readonly kind: 'lost'
  readonly spread: number
}

export interface LedgerSettled {
  readonly answer: 'settled' | 'stale'
  /** When the task rings again. Null if it ended, or nothing changed. */
  readonly hint: Hint | null
  /** Why the task is dead, if it lost its third lease in a row, the last one alone. */
  readonly poison?: string
}

/** 'locked': the claim is still held, but an open transaction has locked the row, so the lease was not extended. */
export type ExtendAnswer = 'extended' | 'stale' | 'locked'

export interface Retention {
  /** Done, cancelled and obsolete tasks that ended before this are deleted. */
  readonly endedBeforeMs: number
  readonly deadBeforeMs: number
  readonly deadMax: number
  /** The most tasks that one call deletes. */
  readonly limit: number
}

/** Rows, counted one by one. The books are counters, updated by the writes. They must agree. */
export interface Recount {
  readonly pending: number
  readonly claimed: number
  readonly dead: number
  readonly done: number
  readonly cancelled: number
  readonly obsolete: number
}

/** How a program places the keys of a topic and rounds its times. */
export interface Placing {
  readonly slotBy: SlotBy
  readonly mergeMs: number
}

/** The writes of callers, in a transaction of the ledger or in their own. */
export interface LedgerWrites {
  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<LedgerScheduled[]>
  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]>
  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]>
}

/** The same writes in the caller's transaction: they take effect if it commits. */
export interface LedgerTransaction extends LedgerWrites {
  /** All live tasks of the selection, as the transaction sees them. */
  cancelBy(
    topic: string,
    cells: readonly number[],
    what: Selection,
  ): Promise<{ places: Place[]; answers: CancelAnswer[] }>
  rescheduleBy(
    topic: string,
    cells: readonly number[],
    what: Selection,
    when: RingTime,
    mergeMs: number,
  ): Promise<{ places: Place[]; answers: LedgerRescheduled[] }>
  /**
   * Resolves when the transaction has ended, by commit or by rollback, or as soon as `isPointless` returns true. Null if
   * the ledger reports the writes of committed transactions itself, in `committedWrites`.
   */
  readonly ended: ((isPointless: () => boolean) => Promise<void>) | null
  /**
   * True if the caller does not await its writes (better-sqlite3): an error has to be thrown synchronously, or the caller
   * commits without seeing it.
   */
  readonly isSynchronous: boolean
}

/** A task and the stamp under which it is held. */
export type HeldPlace = Place & { readonly stamp: number }

/** A transaction of the ledger in which a handler writes. */
export interface HandlerTransaction {
  readonly tx: Tx
  readonly settle: (topic: string, settlements: readonly LedgerSettlement[]) => Promise<LedgerSettled[]>
  /** Locks these tasks until the transaction ends. Returns false if not all of them are held under their stamps. */
  readonly hold: (topic: string, held: readonly HeldPlace[]) => Promise<boolean>
}

/**
 * Runs `work` in a transaction and commits if it returns true; otherwise nothing was written. Returns whether it
 * committed. If `signal` aborts while the call waits for a connection, `work` is not called.
 */
export type TransactHandler = (
  work: (transaction: HandlerTransaction) => Promise<boolean>,
  signal: AbortSignal,
) => Promise<boolean>

/** `get` returns the live task of a key, or else the one that ended last. */
export interface Ledger extends LedgerWrites, Looks {
  /** True if other processes may write to the same ledger: their writes are found by `load`, `listen` and `committedWrites`. */
  readonly isShared: boolean
  /**
   * Registers how this process places the keys of a topic. A shared ledger stores the placing with the first task of the
   * topic, or when the topic is loaded, for processes that write to it in other ways (SQL functions), and rejects a
   * process whose `slotBy` differs from the stored one. A ledger that is not shared ignores the call.
   */
  configure(topic: string, placing: () => Placing): void
  /** Throws 'bad-tx' if `tx` is not an open transaction of the ledger's database. */
  within(tx: unknown): LedgerTransaction

  /** One verdict per place, in order. */
  claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]>
  /** Records that the handler of a suspect is about to start. Returns false if the claim is no longer held. */
  begin(topic: string, place: Place, stamp: number): Promise<boolean>
  /** Returns the session of this process for a cell: part of the token of its claims. */
  sessionOf(cell: number): number
  /**
   * Extends the leases of the places that are still held under the stamp to `leaseMs` from now. One answer per place, in
   * order. `session` is that of the process that claimed them, by default this one: any process that has the token may
   * extend and settle a claim.
   */
  extend(
    topic: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    session?: number,
  ): Promise<ExtendAnswer[]>
  settle(topic: string, settlements: readonly LedgerSettlement[], session?: number): Promise<LedgerSettled[]>
  /** Null if the ledger cannot keep a transaction open while a handler runs. */
  readonly transact: TransactHandler | null

  /** Returns the hints after `after` up to `untilMs`, in order. The hint of a claimed task rings when its lease ends. */
  load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded>
  /** Returns the current hint of each place. Null if the key has no live task, or one that was cancelled in flight. */
  hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]>

  replay(topic: string, places: readonly Place[]): Promise<LedgerReplayed[]>
  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]>

  /** Returns every topic that ever had a task, or is consumed. */
  topics(): Promise<string[]>
  /** Deletes old tasks that ended. Returns how many: at most `limit`, dead ones included. */
  forget(topic: string, retention: Retention): Promise<{ ended: number; dead: number }>
  /** Returns both as of the same moment. */
  recount(topic: string): Promise<{ books: Books; counted: Recount }>

  nowMs(): Promise<number>
  /** Estimates the ledger's clock without a call. May lag a little, never leads. */
  clockMs(): number
  /**
   * Calls `onNear` with a topic when any process wrote a task that rings soon, and with null if that may have happened in
   * any topic. Notifications may be lost. Returns a function that stops listening. A ledger that is not shared never calls.
   */
  listen(onNear: (topic: string | null) => void): () => void
  /**
   * Takes some of the places that callers wrote in transactions of their own and that are committed by now; each place is
   * returned once, to one process. Always [] where transactions are followed to their end (`LedgerTransaction.ended`).
   */
  committedWrites(topic: string): Promise<Place[]>
  close(): Promise<void>
}
