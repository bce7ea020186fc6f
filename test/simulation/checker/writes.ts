/** What a caller's write may answer, and what it changes. */
import type { Composition, WriteEvent } from '../history.ts'
import { counted, finished, type KeyState, type Lease } from './key-state.ts'

/** Whether the answer is right for a key in this state. */
export function fitsWrite(
  state: KeyState,
  lease: Lease,
  event: WriteEvent,
  composition: Composition,
): boolean {
  // What a transaction did not write it did not lock: by the time of its commit that answer may be outdated.
  if (event.tx !== null && (event.outcome === 'not-found' || event.outcome === 'kept')) return true
  switch (event.op) {
    case 'schedule':
      return fitsSchedule(state, lease, event)
    case 'cancel':
      if (event.outcome === 'cancelled') return state.live !== null && lease !== 'valid'
      return event.outcome === 'in-flight' ? isInFlight(lease, event, composition) : state.live === null
    case 'reschedule':
      return fitsReschedule(state, lease, event, composition)
    case 'replay':
      if (state.grave === null) return event.outcome === 'not-found'
      return event.outcome === (state.live === null ? 'replayed' : 'live')
    case 'replay-newest':
      if (state.grave === null) return event.outcome === 'not-found'
      if (state.live !== null) return event.outcome === 'live'
      return event.outcome === (state.grave.isSuperseded ? 'superseded' : 'replayed')
    case 'purge':
      return event.outcome === (state.grave === null ? 'not-found' : 'purged')
  }
}

function fitsSchedule({ live }: KeyState, lease: Lease, event: WriteEvent): boolean {
  if (live === null) return event.outcome === 'created' && !event.inFlight
  if (lease === 'valid' && !event.inFlight) return false
  if (lease === 'none' && event.inFlight) return false
  if (event.outcome === 'replaced') return true
  // A task that was cancelled in flight has no further attempt: there is nothing left to keep.
  if (event.outcome !== 'kept' || live.marked) return false
  return live.dueMs === null || event.dueMs === null || live.dueMs === event.dueMs
}

function fitsReschedule(
  { live }: KeyState,
  lease: Lease,
  event: WriteEvent,
  composition: Composition,
): boolean {
  if (event.outcome === 'in-flight') return isInFlight(lease, event, composition)
  if (event.outcome === 'not-found') return live === null || (live.marked && lease !== 'valid')
  return event.outcome === 'rescheduled' && live !== null && !live.marked && lease !== 'valid'
}

/**
 * In a transaction it was locked when it answered: its lease may have ended before the commit, and nothing else. A file
 * decides by the moment at which it was asked, and its process may have been stopped since.
 */
function isInFlight(lease: Lease, event: WriteEvent, composition: Composition): boolean {
  if (lease === 'valid' || lease === 'edge') return true
  return lease === 'over' && (event.tx !== null || composition === 'embedded')
}

/** What it leaves behind; also where it does not fit, so that one mistake is not told twice. */
export function written(state: KeyState, lease: Lease, event: WriteEvent): KeyState {
  const { live, grave } = state
  const fresh = {
    dueMs: event.dueMs,
    ringMs: event.dueMs,
    ringTrueMs: null,
    failures: 0,
    lost: 0,
    marked: false,
    holder: null,
  }
  switch (event.outcome) {
    case 'created':
    case 'replaced': {
      const tally = live === null ? counted(state.tally, 'scheduled') : state.tally
      const superseded = grave === null ? null : { ...grave, isSuperseded: true }
      return { ...state, live: { ...fresh, version: event.version ?? '' }, grave: superseded, tally }
    }
    case 'cancelled':
      return finished(state, 'cancelled', event.trueMs)
    case 'in-flight':
      return event.op === 'cancel' && live !== null ? { ...state, live: { ...live, marked: true } } : state
    case 'rescheduled':
      return live === null ? state : { ...state, live: { ...fresh, version: live.version } }
    case 'replayed':
      return grave === null ? state : { ...state, live: { ...fresh, version: grave.version }, grave: null }
    case 'purged':
      return grave === null ? state : { ...state, grave: null, tally: counted(state.tally, 'purged') }
    default: {
      // Its lease had expired, and it was cancelled while it was held: the next call on the key ends it.
      const ends = event.op === 'reschedule' && event.outcome === 'not-found' && live?.marked === true
      return ends && lease !== 'valid' ? finished(state, 'cancelled', event.trueMs) : state
    }
  }
}
