import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'

/**
 * The ledger's clock for a timetable of this process: what is due when many processes share a ledger is not for this
 * one's clock to decide. How long to wait is.
 */
export function ledgerClock(ledger: Ledger, own: Clock): Clock {
  return {
    now: () => ledger.clockMs(),
    monotonicNow: () => own.monotonicNow(),
    after: (delayMs, ring, isBackground) => own.after(delayMs, ring, isBackground),
    turn: () => own.turn(),
  }
}
