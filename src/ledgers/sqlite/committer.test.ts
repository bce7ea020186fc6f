import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { systemClock } from '../../clock.ts'
import type { NewEntry } from '../../timetable.ts'
import { Committer } from './committer.ts'
import { migrate } from './migrations.ts'
import { Transitions } from './transitions.ts'

const TIME = { nowMs: 1_000, steadyMs: 0 }

function entry(key: string): NewEntry {
  const when = { kind: 'delay', ms: 0 } as const
  return { key, cell: 0, body: '1', when, priority: 'normal', tags: null, onConflict: 'replace' }
}

it('of calls that are carried out as one, only the one that fails is rejected', async () => {
  const database = new Database(':memory:')
  migrate(database, 'the file')
  const committer = new Committer(database, new Transitions(database, 1), systemClock, 1_000, 'the file')
  const keys = Array.from({ length: 40 }, (_, n) => `k${n}`)
  const run = (name: 'schedule' | 'cancel', ...args: unknown[]) =>
    committer.run({ name, args: ['t', ...args, TIME] })
  await run('schedule', keys.map(entry), 0)
  database.exec(`CREATE TRIGGER bad BEFORE DELETE ON tocsin_live WHEN old.key = 'k7'
    BEGIN SELECT RAISE(ABORT, 'this one fails'); END`)
  const calls = keys.map((key) => run('cancel', [{ key, cell: 0 }], true))
  const answers = await Promise.allSettled([...calls, run('cancel', [{ key: 'none', cell: 0 }], true)])
  const failed = answers.flatMap(({ status }, n) => (status === 'rejected' ? [n] : []))
  expect(failed).toEqual([7])
  expect(answers[8]).toMatchObject({ value: ['cancelled'] })
  expect(answers.at(-1)).toMatchObject({ value: ['not-found'] })
  expect(database.prepare('SELECT key FROM tocsin_live').pluck().all()).toEqual(['k7'])
  expect(database.prepare('SELECT cancelled FROM tocsin_topic').pluck().get()).toBe(39)
})
