/**
 * PORT. A hint table is a timetable that serves a ledger. It holds hints: when a key rings, without the task's body. When
 * a key rings, the ledger decides whether its task is delivered. Its adapters are beside those of the timetable, in
 * timetables/.
 */
import type { Priority } from './task.ts'
import type { Place, Timetable } from './timetable.ts'

/** What the table stores of a task; the ledger has the rest. */
export interface Hint extends Place {
  readonly ringMs: number
  readonly failures: number
  readonly priority: Priority
  /** True if the task lost two leases in a row, and has to be claimed alone. */
  readonly isSuspect: boolean
}

/** The position that a read of hints has reached. Hints are ordered by ring time, then by cell and key. */
export interface Frontier extends Place {
  readonly ringMs: number
}

/** How far any process has filled the table from its ledger. */
export interface Filling {
  /** Changes whenever the table may have lost hints: it was wiped, restarted, or failed over. */
  readonly epoch: string
  /** Null if the table may be empty. */
  readonly frontier: Frontier | null
}

export interface HintTable extends Pick<
  Timetable,
  'lookMs' | 'claim' | 'look' | 'extend' | 'settle' | 'find' | 'nowMs' | 'watch' | 'close'
> {
  /** True if several processes fill the table and claim from it. */
  readonly isShared: boolean
  /** The most hints of a topic that are loaded ahead of time. The next ones are loaded as these ring. */
  readonly residentMax: number
  /**
   * Returns how many hints it changed. 'set', after a write: replaces the hint of the key, and fences its holder.
   * 'lower', after a read of the ledger that may be outdated: adds a hint only if the key has none, or one that rings
   * later; a claimed hint stays.
   */
  put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number>
  /** Removes waiting hints. Claimed ones stay until their claim ends, and their holder is fenced. */
  cancel(topic: string, places: readonly Place[]): Promise<unknown>
  /** Removes hints, waiting or claimed, and fences their holders. */
  drop(topic: string, places: readonly Place[]): Promise<void>
  /** Returns the number of hints, and when the first waiting one rings. */
  extent(topic: string): Promise<{ readonly count: number; readonly headMs: number | null }>
  /** Returns for each place whether the table has a hint of it, waiting or claimed. */
  has(topic: string, places: readonly Place[]): Promise<boolean[]>
  /**
   * Restricts a table of this process to the cells that the process pulls: waiting hints of other cells are dropped, and
   * `put` ignores them. A shared table ignores the call, because other processes pull the other cells from it.
   */
  keepOnly(topic: string, cells: readonly number[]): void
  filling(topic: string): Promise<Filling>
  /** Records that every hint up to the frontier is in the table. Returns false, and records nothing, if the epoch has changed. */
  filledTo(topic: string, epoch: string, frontier: Frontier): Promise<boolean>
}
