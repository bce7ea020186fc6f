/** How claims of a task end, by the word of their holders. */
import type { Composition, SettleEvent } from '../history.ts'
import { buried, finished, type KeyState, type Lease, lost } from './key-state.ts'

export function isHeldUnder({ live }: KeyState, token: string): boolean {
  return live?.holder?.claim.event.token === token
}

/** Whether the answer is right for a key in this state. */
export function fitsSettle(
  state: KeyState,
  lease: Lease,
  { token, outcome, answer }: SettleEvent,
  composition: Composition,
): boolean {
  if (!isHeldUnder(state, token)) return answer === 'stale'
  // A file decides by the moment at which it was asked, and its process may have been stopped since.
  if (composition === 'embedded' && outcome.kind === 'lost' && lease === 'over') return true
  // No other process may report it as lost before its lease has expired. Its holder may settle it until another process finds it.
  if (outcome.kind !== 'lost' || lease === 'over') return answer === 'settled'
  return lease === 'edge' || answer === 'stale'
}

/** What it leaves behind. */
export function settled(state: KeyState, event: SettleEvent): KeyState {
  const { live } = state
  const { outcome, trueMs } = event
  if (live === null || event.answer === 'stale') return state
  switch (outcome.kind) {
    case 'done':
    case 'obsolete':
      return finished(state, outcome.kind, trueMs)
    case 'dead':
      return buried(state, outcome.cause, live.failures + (outcome.failed ? 1 : 0), trueMs)
    case 'lost':
      return lost(state, trueMs, event.ringMs)
    case 'return':
    case 'retry':
    case 'snooze':
      if (live.marked) return finished(state, 'cancelled', trueMs)
  }
  if (outcome.kind === 'return') return { ...state, live: { ...live, holder: null } }
  const failures = live.failures + (outcome.kind === 'retry' ? 1 : 0)
  const ringTrueMs = trueMs + outcome.delayMs
  return { ...state, live: { ...live, failures, lost: 0, ringMs: event.ringMs, ringTrueMs, holder: null } }
}
