import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'

/**
 * A clock for a table of this process whose time of day is the ledger's: the ledger's clock decides what is due, because
 * many processes share it. Waits are measured by this process's monotonic clock.
 */
export function ledgerClock(ledger: Ledger, own: Clock): Clock {
  return {
    now: () => ledger.clockMs(),
    monotonicNow: () => own.monotonicNow(),
    after: (delayMs, ring, isBackground) => own.after(delayMs, ring, isBackground),
    turn: () => own.turn(),
  }
}
