import { afterAll, beforeAll } from 'vitest'
import { type PostgresServer, startPostgres } from '../servers/postgres-server.ts'
import { ledgerContract } from './ledger.ts'
import { openPostgresLedger } from './postgres-ledger-harness.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)

/** That the claims of a process end with it: a ledger of many processes cannot know. Their leases run out (sharing). */
const OF_ONE_PROCESS = [
  'reopening: what the former process held is free at once, and its loss is counted',
  'reopening: a suspect that took the process with it, alone, is poison',
  'reopening: a stamp of the former process means nothing',
  'reopening: what was cancelled in flight is not delivered again: it is cancelled',
  'reopening: what the former process held can be cancelled, moved or replaced, exactly',
  'reopening: every one of many sessions adds to the same books',
  // A purge and the janitor at the same time: one that is gone may count for both.
  'dead: what is purged in the same breath is not counted twice: no more are forgotten than too many',
]

ledgerContract('PostgreSQL', () => openPostgresLedger(server), OF_ONE_PROCESS)
ledgerContract(
  'PostgreSQL, 8 partitions',
  () => openPostgresLedger(server, { partitions: 8 }),
  OF_ONE_PROCESS,
)
ledgerContract('PostgreSQL, 2 databases', () => openPostgresLedger(server, { databases: 2 }), OF_ONE_PROCESS)
