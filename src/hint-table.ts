/**
 * PORT. A hint table is a timetable that serves a ledger. It holds hints: when a key rings, without the task's body. The
 * ledger decides what a key that rings means. Its adapters are beside those of the timetable, in timetables/.
 */
import type { Priority } from './task.ts'
import type { Place, Timetable } from './timetable.ts'

/** All that a timetable has to know of a task whose truth is in a ledger. */
export interface Hint extends Place {
  readonly ringMs: number
  readonly failures: number
  readonly priority: Priority
  /** It lost two leases in a row: to be claimed alone. */
  readonly isSuspect: boolean
}

/** Where a reading of hints got to: they come in the order of ring times, and of places where these are the same. */
export interface Frontier extends Place {
  readonly ringMs: number
}

/** How far a timetable was filled from its ledger, by whichever process. */
export interface Filling {
  /** Another one as soon as something may have been lost: it was wiped, restarted, or failed over. */
  readonly epoch: string
  /** Null: nothing is known to be in it. */
  readonly frontier: Frontier | null
}

/** A timetable that serves a ledger: what it holds are hints, without bodies, and it decides nothing. */
export interface HintTable extends Pick<
  Timetable,
  'lookMs' | 'claim' | 'look' | 'extend' | 'settle' | 'find' | 'nowMs' | 'watch' | 'close'
> {
  /** Several processes fill it, and ring by it. */
  readonly isShared: boolean
  /** No more than so many of a topic are read ahead of their time; what follows is read as they ring. */
  readonly residentMax: number
  /**
   * 'set', after a write: takes the place of whatever is there, and fences its holder. 'lower', from a reading of the
   * ledger that may be outdated by now: only where there is nothing, or something that rings later; what is held
   * stays. Answers how many it changed.
   */
  put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number>
  /** Forgets those that wait. Of those that are held the holder is told; they stay until their claim is over. */
  cancel(topic: string, places: readonly Place[]): Promise<unknown>
  /** Forgets them all; a holder is fenced. */
  drop(topic: string, places: readonly Place[]): Promise<void>
  /** How many it holds, and when the first of those that wait rings. */
  extent(topic: string): Promise<{ readonly count: number; readonly headMs: number | null }>
  /** Of these, the ones that it holds, waiting or claimed. */
  has(topic: string, places: readonly Place[]): Promise<boolean[]>
  /**
   * Restricts a table of this process to the cells that the process pulls: waiting hints of other cells are dropped, and
   * `put` ignores them. A shared table ignores the call, because other processes pull the other cells from it.
   */
  keepOnly(topic: string, cells: readonly number[]): void
  filling(topic: string): Promise<Filling>
  /** All up to the frontier is in it. False: the epoch is another one by now, and nothing is known any more. */
  filledTo(topic: string, epoch: string, frontier: Frontier): Promise<boolean>
}
