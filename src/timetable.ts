/**
 * PORT. A timetable stores when each task is due and which claim holds it. Its adapters are in timetables/.
 *
 * Each topic has 64 cells (values/cell.ts). Every operation below is atomic within one cell. A cell has
 *
 *   store     four lanes ordered by ring time: high, normal, low, suspects
 *   prepare   claimed tasks, each under the stamp of the claim call that took it
 *   dead      tasks whose attempts are used up, with their bodies, separate from the live ones
 *
 * The timetable's own clock decides what is due, never the caller's: a call passes a delay or an instant, and an answer
 * has the time (`nowMs`) at which it was decided. Instants are ms since 1970.
 *
 * When a reply is lost, `claim` (identified by `req`), `settle` and `extend` (by the stamp) may be retried: the second
 * call changes nothing. `schedule`, `cancel`, `reschedule` and `replay` must not be retried: another caller may have
 * acted on the first call in between.
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
  /** When the task that is live now is due: the new task, or the older one that was kept. */
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
  /** Identifies this call. A retry with the same `req` returns the tasks that it still holds and claims no more. */
  readonly req: string
  /** 0 only rescues the tasks of expired claims. */
  readonly limit: number
  readonly leaseMs: number
  /** `suspects`: one task that lost two leases in a row, alone, so that a crash affects no other task. */
  readonly from: 'lanes' | 'suspects'
  /** Leave all tasks of a prefix to the next claim if the limit would split them. */
  readonly wholePrefixes: boolean
}

export interface Claim {
  /** The fencing token of all its tasks. Greater than that of every earlier claim of the cell that took a task. */
  readonly stamp: number
  readonly tasks: readonly ClaimedTask[]
  readonly nowMs: number
  /** When the next task of the ordinary lanes rings. Null if there is none. */
  readonly nextRingMs: number | null
  /** When the first suspect rings. Null if there is none. */
  readonly nextSuspectMs: number | null
  /** When the first lease of the cell ends, in ms from now: the puller looks again then. */
  readonly nextLeaseEndInMs: number | null
  /** Tasks of expired claims that this call put back. */
  readonly rescued: number
  /** Keys that became poison since the last claim. */
  readonly poisoned: readonly string[]
}

export interface ClaimedTask {
  readonly id: string
  readonly key: string
  readonly body: string
  /** When the task was first due. */
  readonly dueMs: number
  /** When this attempt was due: `dueMs`, or later after a retry or a snooze. */
  readonly ringMs: number
  readonly failures: number
  /** Claims that delivered the task, this one included. */
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
}

/** When a puller has to look at the cell next, unless it is woken before. Null if there is nothing to wait for. */
export interface Look {
  /** The next ring of any lane, suspects included. May be too early, never too late. */
  readonly ringInMs: number | null
  readonly leaseEndInMs: number | null
}

/** How a claim of one task ends. Takes effect if the task is still held under `stamp`; otherwise 'stale', and nothing changes. */
export interface Settlement {
  readonly key: string
  readonly stamp: number
  readonly outcome: SettleOutcome
}

export type SettleOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'obsolete' }
  /** A failure: it is counted, and the task rings again after the delay. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly error: string }
  /** Not a failure: the task rings again after the delay. */
  | { readonly kind: 'snooze'; readonly delayMs: number }
  | { readonly kind: 'dead'; readonly cause: DeadCause; readonly error: string; readonly failed: boolean }
  /** The task was never started: it waits again as if it had not been claimed. */
  | { readonly kind: 'return' }

export type SettleAnswer = 'settled' | 'stale'

/** A task as a read returns it: live or dead, and with a ledger also done, cancelled or obsolete. */
export interface EntryView {
  readonly key: string
  readonly id: string | null
  readonly body: string
  readonly state: State
  readonly dueMs: number
  /** When the task ended, if it has. */
  readonly ringMs: number
  readonly failures: number
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
  readonly createdMs: number
  readonly updatedMs: number
  readonly lastError: string | null
  readonly deadCause: DeadCause | null
  /** Distinguishes ended tasks of one key, in a ledger. */
  readonly generation?: number
}

/** All tasks with a tag, all with a prefix, or all. */
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
  /** Waiting in a lane, due or not. */
  readonly pending: number
  /** The pending tasks whose ring time has passed. */
  readonly due: number
  readonly claimed: number
  readonly dead: number
}

/** The books: scheduled = pending + claimed + dead + done + cancelled + obsolete + purged, always. */
export interface Books extends Omit<Counts, 'due'> {
  readonly scheduled: number
  readonly done: number
  readonly cancelled: number
  readonly obsolete: number
  readonly purged: number
}

export interface Watcher {
  /**
   * The cell's next ring is earlier than the last claim said: at `ringMs`, `inMs` from now. The call may be lost, so
   * pullers also poll.
   */
  wake(cell: number, inMs: number, ringMs: number): void
  /** A claimed task was cancelled or replaced: the outcome of its handler no longer counts. The call may be lost. */
  fence(cell: number, key: string, stamp: number, cause: 'cancelled' | 'replaced'): void
  /**
   * The lease of this one task of a claim could not be extended with the others': it ends at `endMs` of the monotonic
   * clock. Null lifts the limit: the lease was extended after all. Only a store with a ledger calls this.
   */
  limit(cell: number, key: string, stamp: number, endMs: number | null): void
  /** Wakes and fences may have been lost: tasks held but not started may be claimed by another consumer, or be gone. */
  missed(): void
}

/** Reads, which a timetable and a ledger both offer. */
export interface Looks {
  get(topic: string, place: Place): Promise<EntryView | null>
  list(topic: string, query: ListQuery): Promise<EntryView[]>
  /** Pages through the keys of one cell. Returns at least all keys that were there throughout; a null cursor ends it. */
  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }>
  counts(topic: string): Promise<Counts>
  /** Counts the pending tasks that ring in each step of [fromMs, toMs). Overdue tasks count as due now. */
  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]>
  books(topic: string): Promise<Books>
}

export interface Timetable extends Looks {
  /** The longest time between two looks of a puller, because a wake can be lost and a clock can step. */
  readonly lookMs: number

  /** Rounds ring times up to a multiple of `mergeMs` (0: no rounding). One answer per entry, in order. */
  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]>
  /** Marks a claimed task: its current attempt may finish, and no other attempt follows. */
  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]>
  /** Resets the failures. A claimed task is not changed. */
  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]>

  /** Rescues expired claims first, then claims due tasks, lane by lane. */
  claim(at: CellAddress, request: ClaimRequest): Promise<Claim>
  /** Returns the times that a claim with limit 0 would return, without rescuing: cheap, for idle cells. */
  look(at: CellAddress): Promise<Look>
  /** Records that the handler of a suspect is about to start. Returns false if the claim is no longer held. */
  begin(at: CellAddress, key: string, stamp: number): Promise<boolean>
  /** Extends the lease of all tasks of the claim `req` to `leaseMs` from now. The stamp stays the same. */
  extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'>
  settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]>

  /** Makes a dead task pending again: same id, due now, no failures. 'live' if its key has a live task, which stays. */
  replay(topic: string, places: readonly Place[]): Promise<('replayed' | 'live' | 'not-found')[]>
  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]>

  /** Returns the time of the clock of record. */
  nowMs(): Promise<number>
  watch(topic: string, watcher: Watcher): () => void
  close(): Promise<void>
}
