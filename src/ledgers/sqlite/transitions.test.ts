import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import type { NewEntry } from '../../timetable.ts'
import { migrate } from './migrations.ts'
import { Transitions } from './transitions.ts'

const TIME = { nowMs: 1_000, steadyMs: 0 }

function entry(key: string): NewEntry {
  return {
    key,
    cell: 0,
    body: 'null',
    when: { kind: 'delay', ms: 0 },
    priority: 'normal',
    tags: null,
    onConflict: 'replace',
  }
}

/** A file in which one connection has rolled back a task, and has told its transitions so. */
function afterRollback() {
  const database = new Database(':memory:')
  migrate(database, 'the file')
  const transitions = new Transitions(database, 1)
  const write = (keys: readonly string[], by: Transitions, end: 'COMMIT' | 'ROLLBACK') => {
    database.exec('BEGIN')
    by.schedule('t', keys.map(entry), 0, TIME)
    if (end === 'COMMIT') by.writeBooks()
    database.exec(end)
    if (end === 'ROLLBACK') by.undone()
  }
  write(['undone'], transitions, 'ROLLBACK')
  return { database, transitions, write }
}

it('generations of a transaction that was rolled back are not used beside those of another connection', () => {
  const { database, transitions, write } = afterRollback()
  const other = new Transitions(database, 2)
  write(['a'], transitions, 'COMMIT')
  write(['b', 'c', 'd'], other, 'COMMIT')
  write(['e'], transitions, 'COMMIT')
  const generations = database.prepare('SELECT generation FROM tocsin_live').pluck().all()
  expect(new Set(generations).size).toBe(5)
})

it('counts of a transaction that was rolled back are not written with the next', () => {
  const { database, transitions, write } = afterRollback()
  write(['a'], transitions, 'COMMIT')
  expect(database.prepare('SELECT scheduled FROM tocsin_topic').pluck().get()).toBe(1)
})
