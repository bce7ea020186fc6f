/** Every statement of the ledger finds its rows by an index: asserted on SQLite's own plans. */
import Database from 'better-sqlite3'
import { afterAll, expect, test } from 'vitest'
import type { ListQuery } from '../../timetable.ts'
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import { migrate } from './migrations.ts'
import { Readings } from './readings.ts'
import { Transitions } from './transitions.ts'

const database = new Database(':memory:')
migrate(database, 'a test')
afterAll(() => database.close())

const prepared = new Set<string>()
const watched = new Proxy(database, {
  get: (target, name) => {
    if (name === 'prepare')
      return (sql: string) => {
        prepared.add(sql)
        return target.prepare(sql)
      }
    const value: unknown = Reflect.get(target, name, target)
    return typeof value === 'function' ? (value.bind(target) as unknown) : value
  },
})

const LIST: ListQuery = {
  state: null,
  tag: null,
  prefix: null,
  dueFromMs: 0,
  dueToMs: LAST_INSTANT_MS,
  limit: 100,
  after: null,
}
const AFTER = { ringMs: 5, failures: 0, key: 'k' }
const LISTS: readonly Partial<ListQuery>[] = [
  { tag: 't' },
  { prefix: 'p' },
  { dueFromMs: 5 },
  { after: AFTER },
  { state: 'claimed' },
  { state: 'dead' },
  { state: 'dead', after: AFTER },
  { state: 'done' },
]

void new Transitions(watched, 1)
const readings = new Readings(watched, 1)
for (const some of LISTS) readings.list('t', { ...LIST, ...some }, { nowMs: 1, steadyMs: 1 })

/** They count all tasks of a topic, on purpose. */
const COUNTING =
  /^SELECT (state, )?(count\(\*\)|sum\(tasks\))( AS tasks)? FROM tocsin_(live|ended|batch INDEXED BY tocsin_batch_time)\s+WHERE topic = \?( AND session = \?| GROUP BY state)?$/

function planOf(sql: string): string[] {
  // Values for the parameters are not needed to explain a statement, but have to be bound.
  const named = Object.fromEntries([...sql.matchAll(/@(\w+)/g)].map(([, name]) => [name, null]))
  const places = (sql.match(/\?/g) ?? []).map(() => null)
  const statement = database.prepare(`EXPLAIN QUERY PLAN ${sql}`)
  const rows = Object.keys(named).length > 0 ? statement.all(named) : statement.all(...places)
  return (rows as { detail: string }[]).map(({ detail }) => detail)
}

/** A page of a topic in the order of an index, without another condition. */
function isPage(sql: string, plan: readonly string[]): boolean {
  return sql.includes('LIMIT') && !sql.includes('@prefix') && !plan.includes('USE TEMP B-TREE FOR ORDER BY')
}

test.each([...prepared].filter((sql) => !COUNTING.test(sql)))('%s', (sql) => {
  const plan = planOf(sql)
  if (isPage(sql, plan)) return
  for (const line of plan) {
    if (!/^(SCAN|SEARCH) (tocsin_live|tocsin_ended|tocsin_tag|tocsin_batch|[delns])\b/.test(line)) continue
    // The topic alone, or the topic and a state, may be all rows that there are.
    expect(line).toMatch(/\(topic=\? AND (?!state=\?\))|PRIMARY KEY \(rowid=\?\)$/)
  }
})

test.each([...prepared].filter((sql) => sql.includes('key IN (?')))('by its list of keys: %s', (sql) => {
  for (const length of [16, 128]) {
    const list = new Array(length).fill('?').join(',')
    const plan = planOf(sql.replace(/key IN \([?,]+\)/, `key IN (${list})`))
    expect(plan[0]).toMatch(/^SEARCH (tocsin_live|l) USING PRIMARY KEY \(topic=\? AND cell=\? AND key=\?\)$/)
  }
})

test('a forecast reads only what rings within it', () => {
  const [forecast = ''] = [...prepared].filter((sql) => sql.includes('@step'))
  expect(planOf(forecast)).toContain(
    'SEARCH tocsin_live USING INDEX tocsin_live_ring (topic=? AND ring_ms>? AND ring_ms<?)',
  )
})
