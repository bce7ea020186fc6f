import { systemClock } from '../../src/clock.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { systemRandom } from '../../src/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'

/** Opens a ledger by the real clock, without a Tocsin around it. */
export function openLedger(url: string, options: { connections?: number } = {}): Promise<Ledger> {
  return openPostgres(
    checkPostgresOptions({ url, ...options }),
    { callTimeoutMs: 10_000, notifyWithinMs: 0, shard: '1 of 1' },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )
}
