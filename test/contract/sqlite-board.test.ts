/** The contract, and what is particular to settings in a file. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { MIGRATIONS } from '../../src/ledgers/sqlite/migrations.ts'
import { openSqlite } from '../../src/ledgers/sqlite/open.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { boardContract } from './board.ts'
import { card, change, changed, token } from './board/helpers.ts'
import { START_MS } from './memory-harness.ts'

function temporaryFile(): { path: string } & Disposable {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-board-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  return { path: join(folder, 'tocsin.db'), [Symbol.dispose]: remove }
}

boardContract('SQLite', async () => {
  const file = temporaryFile()
  const clock = new VirtualClock(START_MS)
  const ledger = openSqlite({ path: file.path, callTimeoutMs: 5_000 }, clock)
  return {
    board: ledger.board,
    // One process has the file: there are no others.
    another: async () => ledger.board,
    advance: async (ms) => clock.moveTo(clock.monotonicNow() + ms),
    async close() {
      await ledger.close()
      file[Symbol.dispose]()
    },
  }
})

test('settings and tokens outlive the process, cards do not', async () => {
  using file = temporaryFile()
  const open = () => openSqlite({ path: file.path, callTimeoutMs: 5_000 }, systemClock)
  const first = open()
  await first.board.beat(card('a'))
  const created = await first.board.create('plain', 4, 'prefix')
  await first.board.create('changed', 16, 'key')
  const ours = change({ declared: { batchSize: 7 }, live: { lease: '7s' }, isPaused: true })
  const record = await changed(first.board, 'changed', 0, ours)
  const { revision } = await first.board.beat(card('a'))
  await first.board.putToken(token('kept'))
  await first.board.putToken(token('dropped'))
  await first.board.dropToken('dropped')
  await first.close()
  const second = open()
  expect(record).toMatchObject({ declared: { batchSize: 7 } })
  expect(await second.board.records()).toEqual([record, created])
  expect(await second.board.tokens()).toEqual([token('kept')])
  expect(await second.board.history('changed', 10)).toMatchObject([{ version: 1, patch: ours.patch }])
  expect(await second.board.change('changed', 0, ours)).toEqual({ isOurs: true, record })
  expect(await second.board.cards()).toEqual([])
  expect((await second.board.beat(card('b'))).revision).toBe(revision)
  await second.close()
})

/** As a version left it that knew so many steps. */
function fileOf(path: string, format: number, rows = ''): void {
  const database = new Database(path)
  database.exec(`CREATE TABLE tocsin_meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO tocsin_meta VALUES ('format', ${format})`)
  for (const { sql } of MIGRATIONS.slice(0, format)) database.exec(sql)
  database.exec(rows)
  database.close()
}

test('a file of before gets what is missing', async () => {
  using file = temporaryFile()
  fileOf(file.path, 1)
  const ledger = openSqlite({ path: file.path, callTimeoutMs: 5_000 }, systemClock)
  expect(await ledger.board.create('t', 16, 'key')).toMatchObject({ version: 0 })
  await ledger.board.putToken(token('a'))
  expect(await ledger.board.tokens()).toEqual([token('a')])
  await ledger.close()
})

test('a record of before is there: nothing was declared', async () => {
  using file = temporaryFile()
  const row = `INSERT INTO tocsin_config VALUES ('t', 3, 8, 'prefix', '{"lease":"9s"}', 1)`
  fileOf(file.path, 2, row)
  const ledger = openSqlite({ path: file.path, callTimeoutMs: 5_000 }, systemClock)
  const before = { topic: 't', version: 3, slots: 8, slotBy: 'prefix', live: { lease: '9s' }, isPaused: true }
  expect(await ledger.board.records()).toEqual([{ ...before, declared: {} }])
  await changed(ledger.board, 't', 3, change({ declared: { batchSize: 5 } }))
  expect(await ledger.board.records()).toMatchObject([{ version: 4, declared: { batchSize: 5 } }])
  await ledger.close()
})

test("while somebody's transaction is open, what is read is there, and what is written waits for its end", async () => {
  using file = temporaryFile()
  const database = new Database(file.path)
  const ledger = openSqlite({ path: file.path, callTimeoutMs: 5_000, database }, systemClock)
  const { board } = ledger
  const before = await board.create('before', 16, 'key')
  database.exec('BEGIN IMMEDIATE')
  let isOver = false
  const creating = board.create('t', 16, 'key')
  const changing = board.change('before', 0, change({ live: { lease: '3s' } }))
  void Promise.all([creating, changing]).then(() => (isOver = true))
  // Real time: neither write may finish while the transaction is open.
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(isOver).toBe(false)
  expect(await board.records()).toEqual([before])
  await board.beat(card('a'))
  database.exec('COMMIT')
  expect(await creating).toMatchObject({ topic: 't', version: 0 })
  expect(await changing).toMatchObject({ isOurs: true, record: { version: 1, live: { lease: '3s' } } })
  // They see it, too.
  expect(database.prepare('SELECT topic FROM tocsin_config ORDER BY topic').pluck().all()).toEqual([
    'before',
    't',
  ])
  await ledger.close()
  database.close()
})

test("somebody's transaction that does not end: nothing was written, and it says so", async () => {
  using file = temporaryFile()
  const database = new Database(file.path)
  const ledger = openSqlite({ path: file.path, callTimeoutMs: 200, database }, systemClock)
  database.exec('BEGIN IMMEDIATE')
  await expect(ledger.board.create('t', 16, 'key')).rejects.toMatchObject({ code: 'ledger-unavailable' })
  database.exec('ROLLBACK')
  expect(await ledger.board.records()).toEqual([])
  expect(await ledger.board.create('t', 8, 'key')).toMatchObject({ slots: 8 })
  await ledger.close()
  database.close()
})

test('on a slow disk, by the thread that writes there', async () => {
  using file = temporaryFile()
  // Every disk is slow.
  const ledger = openSqlite({ path: file.path, callTimeoutMs: 5_000, slowCommitMs: 0 }, systemClock)
  const { board } = ledger
  await board.create('t', 16, 'key')
  for (let version = 0; version < 5; version++) await changed(board, 't', version)
  expect(await board.records()).toMatchObject([{ topic: 't', version: 5 }])
  expect(await board.change('t', 2, change())).toMatchObject({ isOurs: false, record: { version: 5 } })
  await board.putToken(token('a'))
  await board.putToken(token('b'))
  expect(await board.dropToken('a')).toBe(true)
  expect(await board.dropToken('a')).toBe(false)
  expect(await board.tokens()).toEqual([token('b')])
  await ledger.close()
})
