/**
 * PORT. A hint table is a timetable that serves a ledger. It stores hints. A hint has a key and its ring time, but not
 * the task's body. When a key rings (its ring time is reached), the ledger decides whether its task is delivered. The
 * adapters of this port are in timetables/, beside the adapters of the timetable.
 */
import type { Priority } from './task.ts'
import type { Place, Timetable } from './timetable.ts'

/** The part of a task that the hint table stores. The ledger stores the whole task. */
export interface Hint extends Place {
  readonly ringMs: number
  readonly failures: number
  readonly priority: Priority
  /** True if the task lost two leases in a row. It must be claimed alone. */
  readonly isSuspect: boolean
}

/** A position in the order of hints: by ring time, then by cell, then by key. All hints up to here have been read. */
export interface Frontier extends Place {
  readonly ringMs: number
}

/** How far the processes have filled the table from its ledger. */
export interface Filling {
  /** Changes whenever the table may have lost hints: after it was wiped, restarted, or failed over to a replica. */
  readonly epoch: string
  /** The table has all hints up to here. Null if no process has filled the table in this epoch. */
  readonly frontier: Frontier | null
}

export interface HintTable extends Pick<
  Timetable,
  'lookMs' | 'claim' | 'look' | 'extend' | 'settle' | 'find' | 'nowMs' | 'watch' | 'close'
> {
  /** True if several processes fill the table and claim from it. */
  readonly isShared: boolean
  /** The loader stops when the table has this many hints of a topic, and continues when some of them have rung. */
  readonly residentMax: number
  /**
   * Puts hints into the table. Returns the number of changed hints. Mode 'set' is for use after a write: it replaces
   * the hint of the key, and fences the lease holder (`Watcher.fence`). Mode 'lower' is for use after a read of the
   * ledger, which may be outdated: it adds a hint if the key has no hint, replaces a waiting hint that rings later, and
   * does not change a claimed hint.
   */
  put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number>
  /** Removes waiting hints. A claimed hint stays until its claim ends, and its lease holder is fenced. */
  cancel(topic: string, places: readonly Place[]): Promise<unknown>
  /** Removes hints, waiting or claimed. Fences the lease holders of claimed hints. */
  drop(topic: string, places: readonly Place[]): Promise<void>
  /** Returns the number of hints, and when the first waiting hint rings (`headMs`, null if no hint waits). */
  extent(topic: string): Promise<{ readonly count: number; readonly headMs: number | null }>
  /** Returns for each place whether the table has a hint of its key, waiting or claimed. */
  has(topic: string, places: readonly Place[]): Promise<boolean[]>
  /**
   * Restricts a table of this process to the cells that the process pulls: drops the waiting hints of other cells, and
   * makes `put` ignore new hints of other cells. A shared table ignores this call, because other processes pull the
   * other cells from it.
   */
  keepOnly(topic: string, cells: readonly number[]): void
  filling(topic: string): Promise<Filling>
  /**
   * Records that the table has all hints up to the frontier, and returns true. If the epoch has changed, does nothing
   * and returns false.
   */
  filledTo(topic: string, epoch: string, frontier: Frontier): Promise<boolean>
}
