import { afterAll, beforeAll } from 'vitest'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { boardContract } from './board.ts'
import { openPostgresBoard } from './postgres-board-harness.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)

boardContract('PostgreSQL', () => openPostgresBoard(server))
