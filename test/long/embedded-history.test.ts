/** Ten million ended tasks in a file: what reading and deleting them takes. */
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { fingerprintsOf } from '../../src/ledgers/sqlite/fingerprints.ts'
import { openSqlite } from '../../src/ledgers/sqlite/open.ts'
import { checksumOf } from '../../src/ledgers/sqlite/rows.ts'
import { systemClock } from '../../src/clock.ts'
import { CELLS } from '../../src/values/cell.ts'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { isLong } from '../generated.ts'

const TASKS = Number(process.env['TOCSIN_HISTORY'] ?? 10_000_000)
const PER_BATCH = 32
const TOPIC = 't'
const DONE = 1
const SEPARATOR = '\u001e'
const FIRST_MS = 1_700_000_000_000
const RARE = TASKS >> 1

/** One task in a million has another prefix. */
const keyOf = (n: number): string => (n % 1_000_000 === RARE % 1_000_000 ? `rare:${n}` : `order:${n}`)
const cellOfBatch = (batch: number): number => batch % CELLS

/** Writes the batches as the ledger does, without the tasks before they ended. */
function write(path: string): void {
  const database = new Database(path)
  database.pragma('synchronous = OFF')
  database
    .prepare('INSERT INTO tocsin_topic (id, name, scheduled, done) VALUES (1, ?, ?, ?)')
    .run(TOPIC, TASKS, TASKS)
  const put =
    database.prepare(`INSERT INTO tocsin_batch (topic, cell, state, ended_ms, tasks, due_min_ms, due_max_ms,
    priority, deliveries, filter, keys, numbers, bodies) VALUES (1, ?, ${DONE}, ?, ${PER_BATCH}, ?, ?, 1, 1, ?, ?, ?, ?)`)
  database.transaction(() => {
    for (let batch = 0; batch * PER_BATCH < TASKS; batch++) {
      // The cells of one transaction share their time.
      const ms = FIRST_MS + Math.floor(batch / CELLS) * 10
      const from = batch * PER_BATCH
      const keys = Array.from({ length: PER_BATCH }, (_, i) => keyOf(from + i))
      const bodies = keys.map((key) => `{"key":"${key}","amount":100}`)
      const numbers = keys.map((key, i) => `${from + i},${ms},${ms},${checksumOf(key, bodies[i] as string)}`)
      const joined = [keys, numbers, bodies].map((texts) => texts.join(SEPARATOR))
      put.run(cellOfBatch(batch), ms, ms, ms, fingerprintsOf(keys), ...joined)
    }
  })()
  database.close()
}

describe.skipIf(!isLong)('long rounds (npm run test:long)', () => {
  it('ten million ended tasks are read and deleted in milliseconds', { timeout: 1_200_000 }, async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 't.db')
    const open = () => openSqlite({ path, callTimeoutMs: 60_000 }, systemClock)
    await open().close()
    write(path)
    const ledger = open()
    const took: Record<string, number> = {}
    const timed = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
      const startMs = performance.now()
      const result = await work()
      took[name] = Math.round((performance.now() - startMs) * 10) / 10
      return result
    }
    const all = { tag: null, prefix: null, dueFromMs: 0, dueToMs: Infinity, limit: 100, after: null }
    const done = { ...all, state: 'done' } as const
    const get = (n: number) =>
      ledger.get(TOPIC, { key: keyOf(n), cell: cellOfBatch(Math.floor(n / PER_BATCH)) })
    for (const [name, n] of [
      ['get the oldest, first read', 0],
      ['get the oldest', 1],
      ['get one of the middle', RARE],
      ['get the newest', TASKS - 1],
    ] as const)
      expect(await timed(name, () => get(n))).toMatchObject({ key: keyOf(n), state: 'done' })
    const none = { key: 'order:none', cell: 5 }
    expect(await timed('get a key that is not there', () => ledger.get(TOPIC, none))).toBeNull()
    const first = await timed('list, first page', () => ledger.list(TOPIC, done))
    expect(first).toHaveLength(100)
    const last = first.at(-1)
    const after = {
      ringMs: last?.updatedMs as number,
      failures: last?.generation as number,
      key: last?.key as string,
    }
    expect(await timed('list, second page', () => ledger.list(TOPIC, { ...done, after }))).toHaveLength(100)
    const rare = { ...done, prefix: 'rare' }
    expect((await timed('list of a rare prefix', () => ledger.list(TOPIC, rare))).length).toBe(
      TASKS / 1_000_000,
    )
    const common = { ...done, prefix: 'order' }
    expect(await timed('list of a common prefix', () => ledger.list(TOPIC, common))).toHaveLength(100)
    const dead = { ...all, state: 'dead' } as const
    expect(await timed('list of the dead', () => ledger.list(TOPIC, dead))).toEqual([])
    const retention = { endedBeforeMs: FIRST_MS * 2, deadBeforeMs: 0, deadMax: 1_000, limit: 1_000 }
    expect(await timed('forget 1,000', () => ledger.forget(TOPIC, retention))).toEqual({
      ended: 1_000,
      dead: 0,
    })
    const { counted } = await timed('recount', () => ledger.recount(TOPIC))
    expect(counted.done).toBe(TASKS)
    console.log(`embedded, ${TASKS} ended tasks, ms:`, JSON.stringify(took))
    await ledger.close()
  })
})
