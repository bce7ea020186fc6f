/**
 * PORT. A timetable stores when each task is due and which claim holds it. The adapters are in timetables/.
 *
 * Each topic has 64 cells (values/cell.ts). Every operation below is atomic within one cell. A cell has
 *
 *   waiting tasks   in four lanes ordered by ring time: high, normal, low, suspects
 *   claimed tasks   each under the stamp of the claim call that took it
 *   dead tasks      with their bodies, separate from the live tasks
 *
 * The timetable's own clock decides what is due, never the caller's clock. A caller passes a delay or an instant. The
 * answer to a claim has the time (`nowMs`) of the timetable's clock. Instants are ms since 1970.
 *
 * When a reply is lost, `claim`, `extend` (both identified by `req`) and `settle` (by the stamp) may be retried: the
 * second call changes nothing. `schedule`, `cancel`, `reschedule` and `replay` must not be retried: between the two
 * calls, another caller may have acted on the result of the first.
 */
import type { ListPosition } from './values/list-position.ts'
import type { RingTime } from './values/ring-time.ts'
import type { DeadCause, OnConflict, Priority, State } from './task.ts'

/** A key and its cell. The caller computes the cell from the key and the topic's `slotBy` (values/cell.ts). */
export interface Place {
  readonly key: string
  readonly cell: number
}

export interface CellAddress {
  readonly topic: string
  readonly cell: number
}

export interface NewEntry extends Place {
  readonly body: string
  readonly when: RingTime
  readonly priority: Priority
  readonly tags: readonly string[] | null
  readonly onConflict: OnConflict
}

export interface ScheduleAnswer {
  readonly outcome: 'created' | 'replaced' | 'kept'
  /** When the live task of the key is due. This is the new task, or the older task if it was kept. */
  readonly dueMs: number
  /** True if a claim holds the older task of this key. */
  readonly inFlight: boolean
}

export type CancelAnswer = 'cancelled' | 'in-flight' | 'not-found'

export interface RescheduleAnswer {
  readonly outcome: 'rescheduled' | 'in-flight' | 'not-found'
  readonly dueMs: number | null
}

export interface ClaimRequest {
  /** Identifies the call. A retry with the same `req` claims nothing new: it returns the tasks that are still held. */
  readonly req: string
  /**
   * The maximum number of tasks. A claim with limit 0 only rescues the tasks of expired claims. A claim also ends with
   * the task whose payload reaches `BATCH_BYTES_MAX` bytes in all; claims that a store combines share this limit. The
   * other due tasks are left to the next claim: `nextRingMs` of the answer is not after its `nowMs`.
   */
  readonly limit: number
  readonly leaseMs: number
  /** `suspects` claims one suspect alone, so that a crash of the process affects no other task. */
  readonly from: 'lanes' | 'suspects'
  /**
   * If true, tasks with the same key prefix and ring time form a group that is claimed as a whole. If a limit would
   * split a group, the whole group is left to the next claim. Only a group that exceeds the limit by itself is split.
   */
  readonly wholePrefixes: boolean
}

export interface Claim {
  /** The fencing token of the tasks. Greater than the stamp of every earlier claim in the cell that took tasks. */
  readonly stamp: number
  readonly tasks: readonly ClaimedTask[]
  readonly nowMs: number
  /** When the next task of the lanes high, normal and low rings. Null if these lanes are empty. */
  readonly nextRingMs: number | null
  /** When the first suspect rings. Null if the cell has no waiting suspect. */
  readonly nextSuspectMs: number | null
  /** The time until the first lease of the cell ends. The puller looks at the cell again then. Null without a lease. */
  readonly nextLeaseEndInMs: number | null
  /** The number of tasks of expired claims that this call put back. */
  readonly rescued: number
  /** The keys of tasks that became poison since the last claim. */
  readonly poisoned: readonly string[]
}

export interface ClaimedTask {
  readonly id: string
  readonly key: string
  readonly body: string
  /** When the task was first due. */
  readonly dueMs: number
  /** When this attempt was due. This is `dueMs`, or a later time after a retry or a snooze. */
  readonly ringMs: number
  readonly failures: number
  /** The number of claims that delivered the task, including this claim. */
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
}

/** When a puller has to look at the cell next, unless a wake comes before. Null if there is nothing to wait for. */
export interface Look {
  /** When the next task of any lane rings, suspects included. This time may be too early, but never too late. */
  readonly ringInMs: number | null
  readonly leaseEndInMs: number | null
}

/** How the claim of one task ends. If `stamp` no longer holds the task, nothing changes and the answer is 'stale'. */
export interface Settlement {
  readonly key: string
  readonly stamp: number
  readonly outcome: SettleOutcome
}

export type SettleOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'obsolete' }
  /** The attempt failed. The failure is counted, and the task rings again after the delay. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly error: string }
  /** The task rings again after the delay. No failure is counted. */
  | { readonly kind: 'snooze'; readonly delayMs: number }
  | { readonly kind: 'dead'; readonly cause: DeadCause; readonly error: string; readonly failed: boolean }
  /** No handler was started for the task. The task waits again, and this claim does not count as a delivery. */
  | { readonly kind: 'return' }

export type SettleAnswer = 'settled' | 'stale'

/** Which dead tasks to replay: any of them, or only those that are not superseded by a newer task of their key. */
export type Replayable = 'any' | 'newest'

/**
 * 'live' if the key has a live task, which stays as it is. 'superseded' if only the newest are replayed, and the key was
 * scheduled again since.
 */
export type ReplayAnswer = 'replayed' | 'live' | 'superseded' | 'not-found'

/** A task as a read returns it. The task is live or dead; with a ledger, it may also be done, cancelled or obsolete. */
export interface EntryView {
  readonly key: string
  readonly id: string | null
  readonly body: string
  readonly state: State
  readonly dueMs: number
  /** When the task rings. For a task that has ended, the time when it ended. */
  readonly ringMs: number
  readonly failures: number
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
  readonly createdMs: number
  readonly updatedMs: number
  readonly lastError: string | null
  readonly deadCause: DeadCause | null
  /** Only of a dead task: true if its key was scheduled again after the task died, however the newer task ended. */
  readonly superseded?: boolean
  /** Only in a ledger: distinguishes several ended tasks of one key. */
  readonly generation?: number
}

/** Selects all tasks with a tag, all tasks whose key has a prefix, or all tasks. */
export type Selection = { readonly tag: string } | { readonly prefix: string } | { readonly all: true }

export interface ListQuery {
  /** Null lists pending and claimed tasks. */
  readonly state: State | null
  readonly tag: string | null
  readonly prefix: string | null
  readonly dueFromMs: number
  readonly dueToMs: number
  readonly limit: number
  /** The position at which the last page ended. Null for the first page. */
  readonly after: ListPosition | null
}

export interface Counts {
  /** The number of tasks that wait in a lane, due or not. */
  readonly pending: number
  /** The number of pending tasks whose ring time has passed. */
  readonly due: number
  readonly claimed: number
  readonly dead: number
}

/** The books. Always, scheduled = pending + claimed + dead + done + cancelled + obsolete + purged. */
export interface Books extends Omit<Counts, 'due'> {
  readonly scheduled: number
  readonly done: number
  readonly cancelled: number
  readonly obsolete: number
  readonly purged: number
}

export interface Watcher {
  /**
   * Called when the cell's next ring moves to an earlier time: to `ringMs`, that is, `inMs` from now. The call may be
   * lost, so pullers also look at every cell at least once per `lookMs`.
   */
  wake(cell: number, inMs: number, ringMs: number): void
  /**
   * Tells the lease holder of a task that its handler should stop. The cause is 'cancelled' if the task was cancelled:
   * no retry follows. The cause is 'replaced' if the task was replaced, or its lease may have ended: the outcome of the
   * handler is probably 'stale'. The call may be lost.
   */
  fence(cell: number, key: string, stamp: number, cause: 'cancelled' | 'replaced'): void
  /**
   * Called when the lease of a claim was extended, but not for this task: the task's lease still ends at `endMs`, by
   * the monotonic clock. Called with null when the task's lease was extended after all. Only a store with a ledger
   * calls `limit`.
   */
  limit(cell: number, key: string, stamp: number, endMs: number | null): void
  /** Called when wakes and fences may have been lost. A held task may be gone, or claimed by another consumer. */
  missed(): void
}

/** The reads that both a timetable and a ledger offer. */
export interface Looks {
  get(topic: string, place: Place): Promise<EntryView | null>
  list(topic: string, query: ListQuery): Promise<EntryView[]>
  /**
   * Returns one page of a cell's keys. The last page has a null cursor. Keys that are added or removed while the pages
   * are read may be left out.
   */
  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }>
  counts(topic: string): Promise<Counts>
  /** Counts the pending tasks that ring in each step of [fromMs, toMs). An overdue task is counted as ringing now. */
  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]>
  books(topic: string): Promise<Books>
}

export interface Timetable extends Looks {
  /** The maximum time between two looks of a puller. It is bounded because a wake can be lost and a clock can step. */
  readonly lookMs: number
  /**
   * True if a call of `settle` costs much more than an outcome, because it is a round trip or a commit. Then a caller
   * gathers outcomes for some milliseconds.
   */
  readonly isSettleCostly: boolean
  /** The maximum number of tasks that a bulk call passes to the store at once: `BULK_MAX` or `BATCH_MAX`. */
  readonly bulkMax: number

  /** Rounds ring times up to a multiple of `mergeMs`, unless it is 0. Returns one answer per entry, in order. */
  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]>
  /** Cancels pending tasks. Marks a claimed task: its current attempt may finish, and no other attempt follows. */
  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]>
  /** Sets a new ring time and resets the failures. Does not change a claimed task. */
  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]>

  /** First puts back the tasks of expired claims, then claims due tasks, lane by lane. */
  claim(at: CellAddress, request: ClaimRequest): Promise<Claim>
  /** Returns the times that a claim with limit 0 would return, but rescues no task. A cheap call for idle cells. */
  look(at: CellAddress): Promise<Look>
  /** Records that the handler of a suspect is about to start. Returns false if the claim is no longer held. */
  begin(at: CellAddress, key: string, stamp: number): Promise<boolean>
  /** Extends the lease of all tasks of the claim `req` to `leaseMs` from now. Does not change the stamp. */
  extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'>
  settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]>

  /** Makes dead tasks pending again: same id, due now, no failures. `which` is 'any' by default. */
  replay(topic: string, places: readonly Place[], which?: Replayable): Promise<ReplayAnswer[]>
  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]>

  /** Returns the time of the timetable's clock. */
  nowMs(): Promise<number>
  watch(topic: string, watcher: Watcher): () => void
  close(): Promise<void>
}
