import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, sql, startPostgres } from '../../real-servers/postgres-server.ts'
import { startProgram } from '../program.ts'
import { liveRows } from './tables.ts'

const TOPIC = 'first'
const PROCESSES = 4
const ROUNDS = 3

let postgres: PostgresServer
let folder: string
beforeAll(async () => {
  postgres = await startPostgres()
  folder = mkdtempSync(join(tmpdir(), 'tocsin-gate-'))
}, 60_000)
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await postgres.stop()
})

test.each(Array.from({ length: ROUNDS }, (_, i) => [i + 1, i === 1 ? 8 : 1]))(
  `${PROCESSES} processes open an empty database at one moment, time %i, with %i partitions`,
  { timeout: 60_000 },
  async (round, partitions) => {
    const url = await postgres.createDatabase()
    const gate = join(folder, `gate-${round}`)
    const ledger = partitions === 1 ? url : `${url}?partitions=${partitions}`
    const names = Array.from({ length: PROCESSES }, (_, i) => `from-${i}`)
    const programs = await Promise.all(
      names.map((name) => startProgram('postgres/opener', { open: { ledger }, topic: TOPIC, gate, name })),
    )
    try {
      await Promise.all(programs.map((program) => program.untilCount('ready', 1)))
      writeFileSync(gate, '')
      await Promise.all(programs.map((program) => program.untilCount('outcome', 1)))
      const outcomes = programs.flatMap((program) => program.of('outcome'))
      expect(outcomes.map(({ outcome, message }) => message ?? outcome)).toEqual(names.map(() => 'created'))
      expect([...(await liveRows(url, TOPIC)).keys()].toSorted()).toEqual(names)
      expect(await sql(url, 'SELECT name FROM tocsin.topic')).toEqual([{ name: TOPIC }])
      const facts = await sql<{ name: string; value: string }>(url, 'SELECT name, value FROM tocsin.meta')
      expect(facts.filter(({ name }) => name === 'id').length).toBe(1)
      expect(facts).toContainEqual({ name: 'partitions', value: String(partitions) })
      const parts = await sql(url, "SELECT FROM pg_inherits WHERE inhparent = 'tocsin.live'::regclass")
      expect(parts.length).toBe(partitions === 1 ? 0 : partitions)
      await Promise.all(programs.map((program) => program.close()))
      expect(programs.flatMap((program) => program.of('unhandled'))).toEqual([])
    } finally {
      await Promise.all(programs.map((program) => program.stop()))
    }
  },
)
