import { afterAll, beforeAll } from 'vitest'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { ledgerContract } from './ledger.ts'
import { OF_ONE_PROCESS, openPostgresLedger } from './postgres-ledger-harness.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)

ledgerContract('PostgreSQL', () => openPostgresLedger(server), OF_ONE_PROCESS)
