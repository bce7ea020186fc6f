import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Ledger } from '../../src/ledger.ts'
import { openSqlite } from '../../src/ledgers/sqlite/open.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { LedgerHarness } from './ledger.ts'
import { START_MS } from './memory-harness.ts'

/** A SQLite ledger in a temporary folder, on a clock that stands still until it is told to move. */
export async function openSqliteLedger(plant = (sound: Ledger): Ledger => sound): Promise<LedgerHarness> {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-ledger-'))
  let clock = new VirtualClock(START_MS)
  const open = () => openSqlite({ path: join(folder, 'tocsin.db'), callTimeoutMs: 5_000 }, clock)
  let sound = open()
  let ledger = plant(sound)
  return {
    get ledger() {
      return ledger
    },
    topic: 'contract',
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
    },
    async reopen() {
      await sound.close()
      // A new process: its steady clock begins anew, and means nothing to the former one's leases.
      clock = new VirtualClock(clock.now())
      sound = open()
      ledger = plant(sound)
    },
    async close() {
      await sound.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
