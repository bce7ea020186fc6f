/**
 * PORT. A timetable knows what is due when, and who has it. Its adapters stand in timetables/.
 *
 * Each topic has 64 cells (cell.ts); every step below touches one cell at a time and is atomic there. A cell keeps
 *
 *   store     four lanes ordered by ring time: high, normal, low, suspects
 *   prepare   claimed tasks, each under the stamp of the claim call that took it
 *   dead      tasks whose attempts are used up, with their bodies, apart from the living
 *
 * What is due is decided by the timetable's own clock, never by the caller's: a call brings a delay or an instant,
 * and answers bring the moment (`nowMs`) by which they were decided. Instants are ms since 1970.
 *
 * When a reply is lost, `claim` (by its `req`), `settle` and `extend` (by the stamp) may be repeated: the second
 * call does nothing new. `schedule`, `cancel`, `reschedule` and `replay` must not be: in between, another caller may
 * have acted on the first.
 */
import type { ListPosition } from './values/list-position.ts'
import type { RingTime } from './values/ring-time.ts'
import type { DeadCause, OnConflict, Priority, State } from './task.ts'

/** The task of `key`; the caller knows how the topic places keys (cell.ts). */
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
  /** Of the task that is live now: the new one, or the one kept. */
  readonly dueMs: number
  /** A claim holds the older task of this key. */
  readonly inFlight: boolean
}

export type CancelAnswer = 'cancelled' | 'in-flight' | 'not-found'

export interface RescheduleAnswer {
  readonly outcome: 'rescheduled' | 'in-flight' | 'not-found'
  readonly dueMs: number | null
}

export interface ClaimRequest {
  /** Names this call. Repeating it, after a lost reply, returns what it still holds and claims nothing more. */
  readonly req: string
  /** 0 only rescues what expired claims left behind. */
  readonly limit: number
  readonly leaseMs: number
  /** `suspects`: one task that lost two leases in a row, alone, so that it can take nobody down with it. */
  readonly from: 'lanes' | 'suspects'
  /** Leave a prefix that the limit would cut to the next claim, whole. */
  readonly wholePrefixes: boolean
}

export interface Claim {
  /** The fencing token of all its tasks. Greater than that of any earlier claim of the cell that took any. */
  readonly stamp: number
  readonly tasks: readonly ClaimedTask[]
  readonly nowMs: number
  /** When the next task of the ordinary lanes rings; null when there is none. */
  readonly nextRingMs: number | null
  /** When the first suspect rings. */
  readonly nextSuspectMs: number | null
  /** When the first lease of the cell ends, so that somebody looks then; in ms from now. */
  readonly nextLeaseEndInMs: number | null
  /** What rescues found: tasks put back just now, and keys that turned out to be poison since the last claim. */
  readonly rescued: number
  readonly poisoned: readonly string[]
}

export interface ClaimedTask {
  readonly id: string
  readonly key: string
  readonly body: string
  /** When it was to fire first. */
  readonly dueMs: number
  /** When it was to fire this time: due, or where a retry or a snooze put it. */
  readonly ringMs: number
  readonly failures: number
  /** Claims that reached somebody, this one included. */
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
}

/** When a cell wants to be looked at, if nothing comes before. Null: there is nothing. */
export interface Look {
  /** The next ring of any lane, suspects included. May be too near, never too far. */
  readonly ringInMs: number | null
  readonly leaseEndInMs: number | null
}

/** How a claim of one task ends. Held: the task is still under `stamp`. Otherwise 'stale', and nothing changes. */
export interface Settlement {
  readonly key: string
  readonly stamp: number
  readonly outcome: SettleOutcome
}

export type SettleOutcome =
  | { readonly kind: 'done' }
  | { readonly kind: 'obsolete' }
  /** A failure: counted, rings again after the delay. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly error: string }
  /** No failure: rings again after the delay. */
  | { readonly kind: 'snooze'; readonly delayMs: number }
  | { readonly kind: 'dead'; readonly cause: DeadCause; readonly error: string; readonly failed: boolean }
  /** It was never started: back to where it was, as if it had not been claimed. */
  | { readonly kind: 'return' }

export type SettleAnswer = 'settled' | 'stale'

/** A task as an onlooker sees it. Live and dead ones; those that ended otherwise only a ledger has. */
export interface EntryView {
  readonly key: string
  readonly id: string | null
  readonly body: string
  readonly state: State
  readonly dueMs: number
  /** Of one that ended: when it did. */
  readonly ringMs: number
  readonly failures: number
  readonly deliveries: number
  readonly tags: readonly string[]
  readonly priority: Priority
  readonly createdMs: number
  readonly updatedMs: number
  readonly lastError: string | null
  readonly deadCause: DeadCause | null
  /** Of one that ended, in a ledger: what tells tasks of one key apart. */
  readonly generation?: number
}

/** Everything with a tag, everything with a prefix, or everything. */
export type Selection = { readonly tag: string } | { readonly prefix: string } | { readonly all: true }

export interface ListQuery {
  /** Null: pending and claimed. */
  readonly state: State | null
  readonly tag: string | null
  readonly prefix: string | null
  readonly dueFromMs: number
  readonly dueToMs: number
  readonly limit: number
  /** Where the last page ended. */
  readonly after: ListPosition | null
}

export interface Counts {
  /** Waiting in a lane, due or not. */
  readonly pending: number
  /** Of these, the ones whose time has come. */
  readonly due: number
  readonly claimed: number
  readonly dead: number
}

/** The books: scheduled = pending + claimed + dead + done + cancelled + obsolete + purged, at every moment. */
export interface Books extends Omit<Counts, 'due'> {
  readonly scheduled: number
  readonly done: number
  readonly cancelled: number
  readonly obsolete: number
  readonly purged: number
}

export interface Watcher {
  /**
   * The cell's next ring came nearer than the last claim told: it is at `ringMs`, `inMs` from now. May be lost;
   * pullers also look by themselves.
   */
  wake(cell: number, inMs: number, ringMs: number): void
  /** A claimed task was cancelled or replaced: what its handler does no longer matters. May be lost. */
  fence(cell: number, key: string, stamp: number, cause: 'cancelled' | 'replaced'): void
  /**
   * The lease of this one task of a claim could not be extended with the others': it ends at `endMs` of the monotonic
   * clock. Null lifts the limit: the lease was extended after all. Only a store with a ledger calls this.
   */
  limit(cell: number, key: string, stamp: number, endMs: number | null): void
  /** Wakes and fences may have been lost until now: what is held and not started may be somebody else's, or nobody's. */
  missed(): void
}

/** What onlookers ask, of a timetable as of a ledger. */
export interface Looks {
  get(topic: string, place: Place): Promise<EntryView | null>
  list(topic: string, query: ListQuery): Promise<EntryView[]>
  /** Keys of one cell, page by page: at least all that were there all the time; a cursor of null ends it. */
  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }>
  counts(topic: string): Promise<Counts>
  /** How many pending tasks ring in each of the steps of [fromMs, toMs). What is overdue counts as due now. */
  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]>
  books(topic: string): Promise<Books>
}

export interface Timetable extends Looks {
  /** The longest a puller may sleep without looking, for adapters whose wake can be lost or whose clock can step. */
  readonly lookMs: number

  /** Rings are rounded up to a multiple of `mergeMs` (0: not at all). One answer per entry, in order. */
  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]>
  /** A claimed task is marked: this attempt ends as it ends, and none follows. */
  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]>
  /** Forgets failures. A claimed task stays as it is. */
  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]>

  /** Rescues expired claims first, then takes what is due, lane by lane. */
  claim(at: CellAddress, request: ClaimRequest): Promise<Claim>
  /** What a claim of nothing would tell of the times to come, without its work: for cells where nothing happens. */
  look(at: CellAddress): Promise<Look>
  /** Records that the handler of a suspect is about to start. False: the claim is not held any more. */
  begin(at: CellAddress, key: string, stamp: number): Promise<boolean>
  /** The whole claim call `req` is trusted for another `leaseMs` from now. Its stamp stays. */
  extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'>
  settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]>

  /** A dead task lives again under its id, due now, without its failures; 'live': its key has a live task, which stays. */
  replay(topic: string, places: readonly Place[]): Promise<('replayed' | 'live' | 'not-found')[]>
  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]>

  /** The clock of record. */
  nowMs(): Promise<number>
  watch(topic: string, watcher: Watcher): () => void
  close(): Promise<void>
}
