/** What a read may return for a key. */
import type { DeadCause } from '../../../src/task.ts'
import type { FinalState } from '../history.ts'
import type { KeyState } from './key-state.ts'
import type { Truth } from './truth.ts'

export interface Seen {
  readonly state: FinalState['state']
  readonly version: string | null
  readonly deadCause: DeadCause | null
  /** Null: not told. */
  readonly failures: number | null
  readonly dueMs: number | null
}

/** What ended within so many ms of each other was ended in the same one, or nearly: either may count as the last. */
const SAME_END_MS = 1

const NONE: Seen = { state: 'none', version: null, deadCause: null, failures: null, dueMs: null }

/** All states that a read of the key may return in this state, at this moment. */
export function seenOf(truth: Truth, state: KeyState, at: { seq: number; trueMs: number }): Seen[] {
  const { live } = state
  if (live === null) return seenOfEnded(truth, state)
  const { version, dueMs, failures } = live
  const seen = { version, dueMs, failures, deadCause: null }
  const lease = truth.leaseOf(live, at)
  if (lease === 'none') return [{ ...seen, state: 'pending' }]
  const claimed: Seen = { ...seen, state: 'claimed' }
  return lease === 'valid' ? [claimed] : [claimed, { ...seen, state: 'pending' }]
}

function seenOfEnded({ history }: Truth, { grave, ended }: KeyState): Seen[] {
  const dead: Seen[] =
    grave === null
      ? []
      : [{ ...NONE, state: 'dead', version: grave.version, deadCause: grave.cause, failures: grave.failures }]
  // Without a ledger only the living and the dead are known.
  if (history.composition === 'redis') return dead.length > 0 ? dead : [NONE]
  const lastMs = Math.max(grave?.trueMs ?? -1, ended?.trueMs ?? -1)
  // By its own clock the ledger says which one was the last; one that was set back says it wrongly.
  const sinceMs = hasClockFaults(history.events) ? 0 : lastMs - SAME_END_MS
  const seen = grave !== null && grave.trueMs >= sinceMs ? dead : []
  for (let one = ended; one !== null && one.trueMs >= sinceMs; one = one.before)
    seen.push({ ...NONE, state: one.state, version: one.version })
  return seen.length > 0 ? seen : [NONE]
}

const known = new WeakMap<object, boolean>()

function hasClockFaults(events: Truth['history']['events']): boolean {
  const cached = known.get(events)
  if (cached !== undefined) return cached
  const has = events.some((event) => event.kind === 'fault' && /clock|step/i.test(event.fault))
  known.set(events, has)
  return has
}
