/**
 * What every ledger promises, as cases: written once, run against each adapter, and by planted/ledger.test.ts against
 * broken ones, to see that they see. After each case the books must balance, whatever it was about.
 */
import { describe, it } from 'vitest'
import { bearing } from './ledger/bearing.ts'
import { bookkeeping } from './ledger/bookkeeping.ts'
import { changing } from './ledger/changing.ts'
import { claiming } from './ledger/claiming.ts'
import { dead } from './ledger/dead.ts'
import { expectBalance, type LedgerCase, type LedgerHarness } from './ledger/helpers.ts'
import { loading } from './ledger/loading.ts'
import { looking } from './ledger/looking.ts'
import { reopening } from './ledger/reopening.ts'
import { scheduling } from './ledger/scheduling.ts'
import { settling } from './ledger/settling.ts'
import { together } from './ledger/together.ts'

export type { LedgerCase, LedgerHarness } from './ledger/helpers.ts'

export const ledgerCases: readonly LedgerCase[] = [
  ...scheduling,
  ...claiming,
  ...settling,
  ...bearing,
  ...changing,
  ...loading,
  ...looking,
  ...dead,
  ...together,
  ...bookkeeping,
  ...reopening,
]

const SLOW_TIMEOUT_MS = 120_000

/** Declares one test per case, each with a harness of its own. */
export function ledgerContract(
  name: string,
  open: (one: LedgerCase) => Promise<LedgerHarness>,
  /** Names of the cases that do not apply, or run elsewhere. */
  except: readonly string[] = [],
): void {
  describe(`the contract of a ledger: ${name}`, () => {
    for (const one of ledgerCases.filter((any) => !except.includes(any.name)))
      it(one.name, () => runLedgerCase(one, open), one.slow === true ? SLOW_TIMEOUT_MS : undefined)
  })
}

export async function runLedgerCase(
  one: LedgerCase,
  open: (one: LedgerCase) => Promise<LedgerHarness>,
): Promise<void> {
  const harness = await open(one)
  try {
    await one.run(harness)
    await expectBalance(harness)
  } finally {
    await harness.close()
  }
}
