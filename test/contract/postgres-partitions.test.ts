import { afterAll, beforeAll } from 'vitest'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { ledgerContract } from './ledger.ts'
import { MORE_OF_THE_SAME, OF_ONE_PROCESS, openPostgresLedger } from './postgres-ledger-harness.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)

ledgerContract('PostgreSQL, 8 partitions', () => openPostgresLedger(server, { partitions: 8 }), [
  ...OF_ONE_PROCESS,
  ...MORE_OF_THE_SAME,
])
