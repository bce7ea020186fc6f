import { SharedLedger } from '../simulation/shared-ledger/shared-ledger.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { ledgerContract, type LedgerHarness } from './ledger.ts'
import { START_MS } from './memory-harness.ts'
import { OF_ONE_PROCESS } from './postgres-ledger-harness.ts'

/** The shared ledger of the simulation, on a clock that stands still until it is told to move. */
async function openShared(): Promise<LedgerHarness> {
  const clock = new VirtualClock(START_MS)
  const server = new SharedLedger(clock)
  let ledger = server.connect()
  return {
    get ledger() {
      return ledger
    },
    topic: 'contract',
    isShared: true,
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
    },
    another: async () => server.connect(),
    async reopen() {
      ledger.crash()
      ledger = server.connect()
    },
    close: () => ledger.close(),
  }
}

// Nothing here is at the same time as something else: this one is kept.
const KEPT =
  'dead: what is purged in the same breath is not counted twice: no more are forgotten than too many'

ledgerContract(
  'shared, in memory',
  openShared,
  OF_ONE_PROCESS.filter((name) => name !== KEPT),
)
