import type { LedgerFeatures, TaskStore } from '../store.ts'
import { needsLedger } from '../values/options.ts'

/** Returns what only a store with a ledger can do. Throws 'ledger-required', naming the call, if there is none. */
export function requireLedger({ ledger }: TaskStore, call: string): LedgerFeatures {
  if (ledger === undefined) throw needsLedger(call)
  return ledger
}
