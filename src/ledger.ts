/**
 * PORT. A ledger is the truth: it knows what each task is and what became of it, and it outlives processes. Its
 * adapters stand in ledgers/.
 *
 * With a ledger, what a timetable has are hints. *The timetable rings, the ledger decides*: a key that rings is
 * claimed here, by one condition, or it is not delivered. So a hint that is lost, late, double or outdated does no
 * harm; at worst it rings in vain.
 *
 * A claim may take a task that
 *   waits, and whose time has come by the clock that rang, or
 *   is claimed, and whose lease is over by the ledger's clock, or
 *   is claimed under the very same token: the answer was lost, and the call repeated.
 *
 * Every write is durable when its promise resolves. When a reply is lost, `claim`, `begin`, `extend` and `settle` may
 * be repeated: by their token the second call does nothing new.
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
  /** By which each of them lies in its place: of a claimed task that is not when its hint rings. */
  readonly orderMs: readonly number[]
  /** Where it got to; null: to the end of what was asked for. */
  readonly frontier: Frontier | null
}

export interface LedgerScheduled extends ScheduleAnswer {
  /** Null: the older task was kept, and nothing changed. */
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
  /** With the session that the ledger gave this process, and the cell, this is the token. */
  readonly stamp: number
  readonly leaseMs: number
  /** The moment of the clock that rang. */
  readonly nowMs: number
  /** The only task of its claim, taken from the suspects. */
  readonly alone: boolean
}

/** What the ledger says to a key that rang. */
export type ClaimVerdict =
  | { readonly kind: 'ours'; readonly task: ClaimedTask }
  /** There is no such live task. */
  | { readonly kind: 'gone' }
  /** It waits, and rings then. */
  | { readonly kind: 'later'; readonly hint: Hint }
  /** Somebody has it, for so long at least. */
  | { readonly kind: 'held'; readonly leaseEndInMs: number }
  /** It lost its second lease just now, or before: it may only be claimed alone. */
  | { readonly kind: 'suspect'; readonly hint: Hint }
  /** The third lease in a row was lost, the last one alone: it is dead from now on. */
  | { readonly kind: 'poison'; readonly error: string }
  /** It is not what was written: it is dead from now on, and nobody gets it. */
  | { readonly kind: 'damaged'; readonly error: string }

export interface LedgerSettlement extends Place {
  readonly stamp: number
  readonly outcome: SettleOutcome | Lost
}

/** Nobody settled it before its lease was over. It comes back spread over seconds, by a fraction of 0 to 1. */
export interface Lost {
  readonly kind: 'lost'
  readonly spread: number
}

export interface LedgerSettled {
  readonly answer: 'settled' | 'stale'
  /** Where it waits again; null when that was its end, or nothing changed. */
  readonly hint: Hint | null
  /** Its third lease in a row was lost, the last one alone: it is dead, for this reason. */
  readonly poison?: string
}

/** 'locked': the claim is still held, but an open transaction has locked the row, so the lease was not extended. */
export type ExtendAnswer = 'extended' | 'stale' | 'locked'

export interface Retention {
  /** Done, cancelled and obsolete tasks that ended before this are forgotten. */
  readonly endedBeforeMs: number
  readonly deadBeforeMs: number
  readonly deadMax: number
  /** One call forgets at most so many. */
  readonly limit: number
}

/** Rows, counted one by one; the books are counters that moved with the writes. They must agree. */
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

/** What callers write: in a transaction of the ledger, or in their own. */
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

/** The same writes in the caller's transaction, which alone decides whether they happened. */
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

/** A task that somebody holds. */
export type HeldPlace = Place & { readonly stamp: number }

/** A transaction of the ledger's own in which a handler writes. */
export interface HandlerTransaction {
  readonly tx: Tx
  readonly settle: (topic: string, settlements: readonly LedgerSettlement[]) => Promise<LedgerSettled[]>
  /** Whether all of these are held under their stamps. They are locked then until the end. */
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

/** Its `get` answers a live task, or else the last one of the key that ended. */
export interface Ledger extends LedgerWrites, Looks {
  /** True if other processes may write to the same ledger: their writes are found by `load`, `listen` and `committedWrites`. */
  readonly isShared: boolean
  /**
   * Registers how this process places the keys of a topic. A shared ledger stores the placing with the first task of the
   * topic, or when the topic is loaded, for processes that write to it in other ways (SQL functions), and rejects a
   * process whose `slotBy` differs from the stored one. A ledger that is not shared ignores the call.
   */
  configure(topic: string, placing: () => Placing): void
  /** Refuses what is no open transaction of the ledger's database. */
  within(tx: unknown): LedgerTransaction

  /** One verdict per place, in order. */
  claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]>
  /** Records that the handler of a suspect is about to start. False: the claim is not held any more. */
  begin(topic: string, place: Place, stamp: number): Promise<boolean>
  /** Under which the claims of this process in that cell are held: with the stamp, it is the token. */
  sessionOf(cell: number): number
  /**
   * What of these is still held under the stamp is trusted for another `leaseMs`. One answer per place, in order.
   * `session` is the one that claimed them: its own unless told otherwise. Whoever has the token may speak for a claim.
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

  /** Hints after `after`, up to `untilMs`, in order. Of a claimed task: when its lease is over. */
  load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded>
  /** The hints of these, as they are now; null where there is no live task, or one that was cancelled in flight. */
  hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]>

  replay(topic: string, places: readonly Place[]): Promise<LedgerReplayed[]>
  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]>

  /** Every topic that ever had a task, and what is consumed. */
  topics(): Promise<string[]>
  /** Answers how many tasks it forgot: at most `limit`, the dead included. */
  forget(topic: string, retention: Retention): Promise<{ ended: number; dead: number }>
  /** Both at one moment. */
  recount(topic: string): Promise<{ books: Books; counted: Recount }>

  nowMs(): Promise<number>
  /** What its clock says, as far as is known without asking. May lag a little; never leads. */
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
