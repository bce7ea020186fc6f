import { setTimeout as wait } from 'node:timers/promises'
import { systemClock } from '../../src/clock.ts'
import type { PostgresLedger } from '../../src/ledgers/postgres/ledger.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions, type PostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import type { PostgresServer } from '../real-servers/postgres-server.ts'
import type { BoardHarness } from './board.ts'

/** Opens a board as a process does: with its ledger. */
export function openWithBoard(options: PostgresOptions): Promise<PostgresLedger> {
  return openPostgres(
    checkPostgresOptions(options),
    { callTimeoutMs: 10_000, notifyWithinMs: 0, shard: '1 of 1' },
    { clock: systemClock, random: systemRandom, logger: silentLogger },
  )
}

/** A board in a database of its own. */
export async function openPostgresBoard(server: PostgresServer): Promise<BoardHarness> {
  const url = await server.createDatabase()
  const open = () => openWithBoard({ url, connections: 4 })
  const ledgers = [await open()]
  return {
    board: ledgers[0]!.board,
    async another() {
      const ledger = await open()
      ledgers.push(ledger)
      return ledger.board
    },
    advance: (ms) => wait(ms),
    async close() {
      for (const ledger of ledgers) {
        await ledger.board.close()
        await ledger.close()
      }
      await server.dropDatabase(url)
    },
  }
}
