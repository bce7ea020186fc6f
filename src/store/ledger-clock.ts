import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'

/**
 * Returns a clock for a hint table of this process. Its `now()` is the time of the ledger's clock, which decides what
 * is due, because many processes share the ledger. The monotonic clock of this process measures waits.
 */
export function ledgerClock(ledger: Ledger, own: Clock): Clock {
  return {
    now: () => ledger.clockMs(),
    monotonicNow: () => own.monotonicNow(),
    after: (delayMs, ring, isBackground) => own.after(delayMs, ring, isBackground),
    turn: () => own.turn(),
  }
}
