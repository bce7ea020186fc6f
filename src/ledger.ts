/**
 * PORT. A ledger is the source of truth: it stores every task and its outcome on disk. The adapters are in ledgers/.
 *
 * With a ledger, the timetable only has hints (hint-table.ts). *The timetable rings, the ledger decides*: when a key
 * rings, its task is delivered only if the ledger grants the claim. So a hint that is late, duplicated or outdated does
 * no harm: at worst the key rings and the ledger refuses the claim. A hint that is lost is added again from the ledger.
 *
 * The ledger grants the claim of a task that
 *   waits, and is due by the clock of the hint table, or
 *   is claimed, but its lease has ended by the ledger's clock, or
 *   is claimed under the same token: the reply was lost, and this call is a retry.
 *
 * Every write is durable when its promise resolves, except a claim of a topic with `fastClaims`. When a reply is lost, `claim`,
 * `begin`, `extend` and `settle` may be retried: the token identifies the call, and the second call changes nothing.
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
  Replayable,
  ReplayAnswer,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleOutcome,
} from './timetable.ts'
import type { RingTime } from './values/ring-time.ts'
import type { Frontier, Hint } from './hint-table.ts'

export interface Loaded {
  readonly hints: readonly Hint[]
  /**
   * The time by which each hint is sorted: the ring time of its task. For a claimed task, `ringMs` of the hint is
   * another time, the end of the lease.
   */
  readonly orderMs: readonly number[]
  /** Where the next page begins. Null if this was the last page. */
  readonly frontier: Frontier | null
}

export interface LedgerScheduled extends ScheduleAnswer {
  /** The hint of the new task. Null if the older task was kept. */
  readonly hint: Hint | null
}

export interface LedgerRescheduled extends RescheduleAnswer {
  readonly hint: Hint | null
}

export interface LedgerReplayed {
  readonly outcome: ReplayAnswer
  readonly hint: Hint | null
}

export interface LedgerClaimRequest {
  /**
   * The number of this claim. The stamp, the cell, and the session that the ledger assigned to this process form the
   * token of the claim.
   */
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
  /**
   * The call was full before it came to this task: the payloads of earlier tasks had reached `BATCH_BYTES_MAX`. The
   * task is as it was. Calls that a ledger combines into one statement are full together.
   */
  | { readonly kind: 'full' }
  /** The key has no live task. */
  | { readonly kind: 'gone' }
  /** The task waits, and rings later. */
  | { readonly kind: 'later'; readonly hint: Hint }
  /** Another claim holds the task. The lease of that claim ends in `leaseEndInMs`, or later if it is extended. */
  | { readonly kind: 'held'; readonly leaseEndInMs: number }
  /** The task has lost two leases in a row. From now on it may only be claimed alone. */
  | { readonly kind: 'suspect'; readonly hint: Hint }
  /** The task has lost three leases in a row, the third while it ran alone. The task is dead now. */
  | { readonly kind: 'poison'; readonly error: string }
  /** The stored row is corrupt. The task is dead now, and is not delivered. */
  | { readonly kind: 'damaged'; readonly error: string }

export interface LedgerSettlement extends Place {
  readonly stamp: number
  readonly outcome: SettleOutcome | Lost
}

/**
 * The lease ended before the task was settled. The task rings again after a delay of up to some seconds. `spread`, from
 * 0 to 1, is the fraction of the longest delay. Each task gets another `spread`, so that they do not all ring together.
 */
export interface Lost {
  readonly kind: 'lost'
  readonly spread: number
}

export interface LedgerSettled {
  readonly answer: 'settled' | 'stale'
  /** The task's next hint. Null if the task ended, or if nothing changed. */
  readonly hint: Hint | null
  /** The error text of a task that is now dead as poison. Absent for all other tasks. */
  readonly poison?: string
}

/** 'locked' if the claim is still held, but an open transaction has locked the row. Then the lease was not extended. */
export type ExtendAnswer = 'extended' | 'stale' | 'locked'

export interface Retention {
  /** Done, cancelled and obsolete tasks that ended before this time are deleted. */
  readonly endedBeforeMs: number
  /** Tasks that died before this time are deleted. */
  readonly deadBeforeMs: number
  /** If a topic has more dead tasks than this, the oldest are deleted. */
  readonly deadMax: number
  /** The number of deleted tasks at which a call ends. */
  readonly limit: number
}

/** The numbers of rows, counted one by one. They must equal the books, which are counters that every write updates. */
export interface Recount {
  readonly pending: number
  readonly claimed: number
  readonly dead: number
  readonly done: number
  readonly cancelled: number
  readonly obsolete: number
}

/**
 * Waits while this process creates the topic on the board. During that time another node may create the topic with
 * another `slotBy`, so the ledger must not store the `slotBy` of this process yet. Returns null if there is nothing to
 * wait for. The promise never rejects: it also resolves if the topic could not be created.
 */
export type TopicCreated = () => Promise<void> | null

/** How a program assigns the keys of a topic to cells (`slotBy`), and rounds ring times (`mergeMs`, 0 for never). */
export interface Placing {
  readonly slotBy: SlotBy
  readonly mergeMs: number
}

/** What a ledger takes from the settings of a topic. The settings are live: they may change between two calls. */
export interface LedgerSettings extends Placing {
  /**
   * False if the topic's retention is 0. Then the ledger may drop a task when it ends (done, cancelled, obsolete): the
   * books count it as ended and deleted at once, and its key's dead task stays superseded. Dead tasks are always kept.
   */
  readonly keepsEnded: boolean
  /**
   * True if claims of the topic need not be durable when their promise resolves. Then a crash of the server may undo
   * the claims of its last moments, and only these. All other writes stay durable. A ledger may ignore it.
   */
  readonly fastClaims: boolean
}

/** The writes of callers. They run in a transaction of the ledger, or in a transaction of the caller. */
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

/** The writes in the caller's transaction. They take effect if the transaction commits. */
export interface LedgerTransaction extends LedgerWrites {
  /** Cancels all live tasks of the selection that the transaction sees. */
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
   * Waits for the end of the transaction, because only then may the store add hints of the written tasks. Resolves when
   * the transaction has committed or rolled back, or as soon as `isPointless` returns true (the store closes). Null if
   * the ledger reports the writes of committed transactions in `committedWrites` instead.
   */
  readonly ended: ((isPointless: () => boolean) => Promise<void>) | null
  /**
   * True if the caller does not await its writes (better-sqlite3). Then the ledger must throw an error synchronously,
   * because otherwise the caller would commit before the promise rejects.
   */
  readonly isSynchronous: boolean
}

/** A task and the stamp under which it is held. */
export type HeldPlace = Place & { readonly stamp: number }

/** A transaction of the ledger in which a handler writes. */
export interface HandlerTransaction {
  readonly tx: Tx
  readonly settle: (topic: string, settlements: readonly LedgerSettlement[]) => Promise<LedgerSettled[]>
  /** Locks these tasks until the transaction ends. Returns false if a task is no longer held under its stamp. */
  readonly hold: (topic: string, held: readonly HeldPlace[]) => Promise<boolean>
}

/**
 * Runs `work` in a transaction. Commits if `work` returns true, and rolls back otherwise. Returns whether the
 * transaction committed. If `signal` aborts while the call waits for a connection, `work` is not called.
 */
export type TransactHandler = (
  work: (transaction: HandlerTransaction) => Promise<boolean>,
  signal: AbortSignal,
) => Promise<boolean>

/** In a ledger, `get` returns the live task of a key. If the key has none, `get` returns the task that ended last. */
export interface Ledger extends LedgerWrites, Looks {
  /** True if other processes may write to the ledger. `load`, `listen` and `committedWrites` find their writes. */
  readonly isShared: boolean
  /**
   * Registers the settings of a topic. `settings` is called for each use, because they may change. A shared ledger stores
   * the placing with the topic's first task, or when the topic is loaded. SQL functions that write tasks use the stored
   * placing. A shared ledger rejects a process whose `slotBy` differs from the stored `slotBy`. A ledger that is not shared
   * ignores `slotBy`, `mergeMs` and `fastClaims`.
   */
  configure(topic: string, settings: () => LedgerSettings, created: TopicCreated): void
  /** Returns the writes in the caller's transaction. Throws 'bad-tx' if `tx` is no open transaction of the ledger. */
  within(tx: unknown): LedgerTransaction

  /** Claims the tasks of keys that rang. Returns one verdict per place, in order. */
  claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]>
  /** Records that the handler of a suspect is about to start. Returns false if the claim is no longer held. */
  begin(topic: string, place: Place, stamp: number): Promise<boolean>
  /** Returns the session of this process for a cell. The session is a part of the token of a claim. */
  sessionOf(cell: number): number
  /**
   * Extends the leases of the places that are still held under the stamp to `leaseMs` from now. Returns one answer per
   * place, in order. Any process that has the token may extend and settle a claim: `session` is the session of the
   * process that made the claim, by default this process.
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

  /** Returns the hints after `after` up to `untilMs`, in order. A claimed task's hint rings at the end of its lease. */
  load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded>
  /** Returns the current hint of each place. Null if the key has no live task, or its task was cancelled in flight. */
  hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]>

  /**
   * Makes dead tasks pending again, as a timetable does. A superseded task that is replayed by 'any' is the newest task of
   * its key from then on: if it dies again, it is not superseded.
   */
  replay(topic: string, places: readonly Place[], which?: Replayable): Promise<LedgerReplayed[]>
  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]>

  /** Returns every topic that ever had a task or that a process consumes. */
  topics(): Promise<string[]>
  /**
   * Deletes old tasks that have ended or are dead, until `limit` tasks are deleted. It may delete some more, because tasks
   * that ended together may be stored together. Returns the numbers of deleted tasks.
   */
  forget(topic: string, retention: Retention): Promise<{ ended: number; dead: number }>
  /** Returns the books and a count of the rows, both of the same moment. */
  recount(topic: string): Promise<{ books: Books; counted: Recount }>

  nowMs(): Promise<number>
  /** Estimates the time of the ledger's clock without a call. The estimate may be behind the clock, but never ahead. */
  clockMs(): number
  /**
   * Calls `onNear` with a topic when any process wrote a task of the topic that rings soon. Calls it with null if any
   * topic may have a new task. Notifications may be lost. Returns a function that stops listening. Only a shared ledger
   * calls `onNear`.
   */
  listen(onNear: (topic: string | null) => void): () => void
  /**
   * Takes some of the places that callers wrote in their own transactions, once the transactions have committed. Each
   * place is returned once, to one process. Always [] if the ledger offers `LedgerTransaction.ended` instead.
   */
  committedWrites(topic: string): Promise<Place[]>
  close(): Promise<void>
}
