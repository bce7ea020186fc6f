/**
 * What the truth knows of a key, as the recorded effects say: a second, slower and simpler telling of task.ts's drawing.
 * States are never changed, so that every step can keep the one before it.
 *
 * An expired lease leaves a doubt: any process may find it and put the task back, and no event records that.
 * From then on two states are possible: as it was, and lapsed. An event is wrong only if it fits neither. Going on with
 * the first while it fits loses nothing, because the second can be reached from there at any later time.
 */
import { LOSSES_OF_A_SUSPECT } from '../../../src/values/rescue.ts'
import type { DeadCause } from '../../../src/task.ts'
import type { ClaimEvent, Composition, SettleEvent, StartEvent } from '../history.ts'

/** One task given to one claim call. Unlike states it is filled in as events come. */
export interface ClaimRecord {
  readonly event: ClaimEvent
  /** As the truth had it when it was claimed; null: it must not have been. */
  readonly task: LiveTask | null
  leaseEndTrueMs: number
  /** Whether it was extended, or until when, is not recorded exactly: it may or may not have expired. */
  isDoubtful: boolean
  /** A crash of the ledger has undone it: its holder does not know, and the truth does not know of its holder. */
  isForgotten: boolean
  /** The one that counted. */
  settled: SettleEvent | null
  readonly starts: StartEvent[]
  /** Taken before under the same token, until that lease was over: what was started then may be settled now. */
  readonly earlier: ClaimRecord | null
}

export interface Holder {
  readonly claim: ClaimRecord
  /** Its start is on record. */
  readonly begun: boolean
}

export interface LiveTask {
  readonly version: string
  /** By the storage's clock; null if it is not recorded. */
  readonly dueMs: number | null
  readonly ringMs: number | null
  /** Where only a delay is known: when that is over, by the simulation's clock. */
  readonly ringTrueMs: number | null
  readonly failures: number
  /** Leases lost in a row. */
  readonly lost: number
  /** Cancelled while it was held: no further attempt. */
  readonly marked: boolean
  readonly holder: Holder | null
}

export type EndedState = 'done' | 'cancelled' | 'obsolete'

/** What ended, newest first. */
export interface Ended {
  readonly version: string
  readonly state: EndedState
  readonly trueMs: number
  readonly before: Ended | null
}

export interface Grave {
  readonly version: string
  readonly cause: DeadCause
  readonly failures: number
  readonly trueMs: number
  /** The key was scheduled again since. */
  readonly isSuperseded: boolean
}

/** What the books must say of the key, besides the living and the dead. */
export type Tally = Readonly<Record<'scheduled' | 'purged' | EndedState, number>>

export interface KeyState {
  readonly live: LiveTask | null
  readonly grave: Grave | null
  readonly ended: Ended | null
  /** Deaths that follow from the events, and that no 'buried' has told of yet. */
  readonly untold: number
  readonly tally: Tally
}

export const NOTHING: KeyState = {
  live: null,
  grave: null,
  ended: null,
  untold: 0,
  tally: { scheduled: 0, purged: 0, done: 0, cancelled: 0, obsolete: 0 },
}

/** edge: so near to its end that whole milliseconds and rounding decide. */
export type Lease = 'none' | 'valid' | 'edge' | 'over'

export function finished(state: KeyState, how: EndedState, trueMs: number): KeyState {
  if (state.live === null) return state
  const ended = { version: state.live.version, state: how, trueMs, before: state.ended }
  return { ...state, live: null, ended, tally: counted(state.tally, how) }
}

export function counted(tally: Tally, what: keyof Tally): Tally {
  return { ...tally, [what]: tally[what] + 1 }
}

export function buried(state: KeyState, cause: DeadCause, failures: number, trueMs: number): KeyState {
  if (state.live === null) return state
  // A second death of a key takes the place of the first.
  const tally = state.grave === null ? state.tally : counted(state.tally, 'purged')
  const grave = { version: state.live.version, cause, failures, trueMs, isSuperseded: false }
  return { ...state, live: null, grave, tally }
}

/** A start that was recorded, with nothing else running beside it, after two lost leases: the third convicts. */
export function isConvictable(live: LiveTask): boolean {
  if (live.holder === null || live.lost < LOSSES_OF_A_SUSPECT) return false
  return live.holder.claim.event.isAlone && live.holder.begun
}

/** Its lease expired and was found. `ringMs`: when it rings now, if that is known. */
export function lost(state: KeyState, trueMs: number, ringMs: number | null): KeyState {
  const { live } = state
  if (live === null) return state
  if (live.marked) return finished(state, 'cancelled', trueMs)
  if (isConvictable(live))
    return { ...buried(state, 'poison', live.failures, trueMs), untold: state.untold + 1 }
  return { ...state, live: { ...live, lost: live.lost + 1, ringMs, ringTrueMs: null, holder: null } }
}

/** The other possible state, where a lease is over and no event need tell what came of it; null: there is none. */
export function lapsed(
  state: KeyState,
  lease: Lease,
  composition: Composition,
  trueMs: number,
): KeyState | null {
  const { live } = state
  if (live === null || lease === 'none' || lease === 'valid') return null
  // A timetable rescues on the way, whatever it is asked.
  if (composition === 'redis') return lost(state, trueMs, null)
  // A ledger changes nothing before the key is claimed: the claim ends a cancelled task and frees a suspect, without an event.
  if (live.marked || (!isConvictable(live) && live.lost + 1 >= LOSSES_OF_A_SUSPECT))
    return lost(state, trueMs, live.ringMs)
  return null
}
