import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import type { EntryView, ListQuery, NewEntry } from '../../timetable.ts'
import { compareKeys } from '../../values/list-position.ts'
import { BATCH_MIN } from './batch-writer.ts'
import { fingerprintOf, fingerprintsOf } from './fingerprints.ts'
import { migrate } from './migrations.ts'
import { Readings } from './readings.ts'
import { Transitions } from './transitions.ts'

const TIME = { nowMs: 1_000, steadyMs: 0 }
const CANCELLED: ListQuery = {
  state: 'cancelled',
  tag: null,
  prefix: null,
  dueFromMs: 0,
  dueToMs: Infinity,
  limit: 1_000,
  after: null,
}

function entry(key: string, body: string): NewEntry {
  const when = { kind: 'delay', ms: 0 } as const
  return { key, cell: 0, body, when, priority: 'normal', tags: null, onConflict: 'replace' }
}

/** A file with tasks of one cell that were cancelled together. */
function fileOf(keys: readonly string[], bodyOf = (key: string): string => `body of ${key}`) {
  const database = new Database(':memory:')
  migrate(database, 'the file')
  const transitions = new Transitions(database, 1)
  transitions.schedule(
    't',
    keys.map((key) => entry(key, bodyOf(key))),
    0,
    TIME,
  )
  transitions.cancel(
    't',
    keys.map((key) => ({ key, cell: 0 })),
    true,
    TIME,
  )
  transitions.writeBooks()
  const readings = new Readings(database, 1)
  const batches = () => database.prepare('SELECT tasks FROM tocsin_batch ORDER BY id').pluck().all()
  const rows = () => database.prepare('SELECT count(*) FROM tocsin_ended').pluck().get()
  const list = (): EntryView[] => readings.list('t', CANCELLED, TIME)
  const get = (key: string) => readings.get('t', { key, cell: 0 })
  return { database, transitions, readings, batches, rows, list, get }
}

const keysOf = (count: number) => Array.from({ length: count }, (_, n) => `k:${1_000 + n}`)

it('tasks that end together are one row, unless they are few', () => {
  expect(fileOf(keysOf(BATCH_MIN)).batches()).toEqual([BATCH_MIN])
  const few = fileOf(keysOf(BATCH_MIN - 1))
  expect([few.batches(), few.rows()]).toEqual([[], BATCH_MIN - 1])
  // No list is longer than its statement takes.
  expect(fileOf(keysOf(300)).batches()).toEqual([100, 100, 100])
})

it('a task whose body has the separator, or is long, is a row of its own', () => {
  const bodyOf = (key: string) =>
    key === 'k:1000' ? '"a\u001eb"' : key === 'k:1001' ? 'b'.repeat(5_000) : '1'
  const file = fileOf(keysOf(50), bodyOf)
  expect([file.batches(), file.rows()]).toEqual([[48], 2])
  for (const { key, body } of file.list()) expect(body).toBe(bodyOf(key))
})

it('in a damaged batch, the tasks that are as they were written are shown, and the others are not', () => {
  const file = fileOf(keysOf(50))
  file.database.exec(`UPDATE tocsin_batch SET bodies = replace(bodies, 'k:1007', 'k:1_07')`)
  expect(() => file.get('k:1007')).toThrow(/damaged/)
  expect(file.get('k:1008')).toMatchObject({ body: 'body of k:1008' })
  const damaged = file.list().filter(({ lastError }) => lastError !== null)
  expect(damaged.map(({ key, body }) => [key, body])).toEqual([['k:1007', 'null']])
})

it('a batch that lost its numbers or its bodies breaks no list, and no other task', () => {
  for (const column of ['numbers', 'bodies']) {
    const file = fileOf(keysOf(50))
    file.transitions.schedule('t', [entry('other', '1')], 0, TIME)
    file.transitions.cancel('t', [{ key: 'other', cell: 0 }], true, TIME)
    file.database.exec(`UPDATE tocsin_batch SET ${column} = substr(${column}, 1, 30)`)
    const listed = file.list()
    expect(listed).toHaveLength(51)
    expect(listed.filter(({ lastError }) => lastError === null).length).toBeGreaterThan(0)
    expect(file.get('other')).toMatchObject({ body: '1' })
    expect(() => file.get('k:1040')).toThrow(/damaged/)
  }
})

it('keys are ordered by their bytes, as SQLite orders them', () => {
  const keys = ['', 'a', 'a:', 'a:b', 'aa', 'z', 'ä', '\uffee', '😀', '😁x']
  const database = new Database(':memory:')
  const ordered = database
    .prepare('SELECT value FROM json_each(?) ORDER BY value')
    .pluck()
    .all(JSON.stringify(keys.toReversed()))
  expect(keys.toReversed().toSorted(compareKeys)).toEqual(ordered)
  expect(ordered).toEqual(keys)
})

it('the fingerprints of a batch have each of its keys and prefixes, and rarely another one', () => {
  const keys = Array.from({ length: 128 }, (_, n) => `order${n % 3}:${n}`)
  const filter = fingerprintsOf(keys)
  expect(filter).toHaveLength(3 * (128 + 3))
  for (const text of [...keys, 'order0', 'order2']) expect(filter.includes(fingerprintOf(text))).toBe(true)
  const others = Array.from({ length: 10_000 }, (_, n) => `other:${n}`)
  expect(others.filter((text) => filter.includes(fingerprintOf(text))).length).toBeLessThan(5)
})
