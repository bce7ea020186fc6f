import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { migrate, MIGRATIONS } from './migrations.ts'
import { Readings } from './readings.ts'
import { checksumOf } from './rows.ts'

/** The number of steps of the format before the ended tasks were indexed by cell. */
const BY_KEY = MIGRATIONS.findIndex(({ name }) => name === '005_ended_by_cell')

/** A file of the earlier format with ended tasks: [key, cell, state, generation], ended in this order. */
function earlierFile(ended: readonly [string, number, number, number][]) {
  const database = new Database(':memory:')
  database.exec('CREATE TABLE tocsin_meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID')
  for (const { sql } of MIGRATIONS.slice(0, BY_KEY)) database.exec(sql)
  database.prepare("INSERT INTO tocsin_meta (name, value) VALUES ('format', ?)").run(BY_KEY)
  database.exec("INSERT INTO tocsin_topic (id, name) VALUES (1, 't')")
  const insert = database.prepare(`INSERT INTO tocsin_ended
    (topic, state, ended_ms, key, generation, cell, due_ms, priority, failures, deliveries, created_ms, checksum, body)
    VALUES (1, ?, ?, ?, ?, ?, 1, 1, 0, 1, 0, ?, ?)`)
  for (const [i, [key, cell, state, generation]] of ended.entries())
    insert.run(state, 100 + i, key, generation, cell, checksumOf(key, `${generation}`), `${generation}`)
  return database
}

const [DONE, CANCELLED, DEAD] = [1, 2, 4]

it('finds the ended tasks of a file whose index had no cells', () => {
  const database = earlierFile([
    ['a', 3, DEAD, 1],
    ['a', 3, CANCELLED, 2],
    ['b', 3, DEAD, 3],
    ['a', 7, DONE, 4],
  ])
  expect(migrate(database, 'the file')).toContain('005_ended_by_cell')
  expect(migrate(database, 'the file')).toEqual([])
  const readings = new Readings(database, 1)
  // The newest of its key and cell.
  expect(readings.get('t', { key: 'a', cell: 3 })).toMatchObject({ state: 'cancelled', body: '2' })
  expect(readings.get('t', { key: 'a', cell: 7 })).toMatchObject({ state: 'done', body: '4' })
  expect(readings.get('t', { key: 'b', cell: 3 })).toMatchObject({ state: 'dead', superseded: false })
  expect(readings.get('t', { key: 'b', cell: 7 })).toBeNull()
  const dead = readings.list(
    't',
    { state: 'dead', tag: null, prefix: null, dueFromMs: 0, dueToMs: Infinity, limit: 10, after: null },
    { nowMs: 0, steadyMs: 0 },
  )
  expect(dead.map(({ key, superseded }) => [key, superseded])).toEqual([
    ['a', true],
    ['b', false],
  ])
})
