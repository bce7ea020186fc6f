import { describe, expect, it } from 'vitest'
import { systemClock } from '../../clock.ts'
import { Batcher } from '../../lib/batcher.ts'
import type { NewEntry } from '../../timetable.ts'
import { PostgresLedger, type PostgresParts } from './ledger.ts'

const lockTimeout = () =>
  Object.assign(new Error('canceling statement due to lock timeout'), { code: '55P03' })

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

/** A ledger whose statements are `schedule`. */
function ledgerOf(schedule: (keys: readonly string[]) => Promise<void>): PostgresLedger {
  const written = (key: string) => ({ outcome: 'created', dueMs: 0, inFlight: false, hint: null, key })
  const parts = {
    id: 'x',
    clock: systemClock,
    batcher: new Batcher(systemClock, 5_000),
    database: { runner: () => ({}), where: 'the database' },
    topics: { placed: async (name: string) => ({ id: 1, name }) },
    writes: {
      session: 1,
      schedule: async (_: unknown, __: unknown, entries: readonly NewEntry[]) => {
        const keys = entries.map(({ key }) => key)
        await schedule(keys)
        return keys.map(written)
      },
    },
  }
  return new PostgresLedger(parts as unknown as PostgresParts)
}

describe('a batch that a locked row has split', () => {
  it('and of which one half fails: the tasks of the other half are written, and said to be', async () => {
    const ledger = ledgerOf(async (keys) => {
      if (keys.length > 1) throw lockTimeout()
      if (keys[0] === 'b') throw new Error('the connection was lost')
    })
    const [a, b] = await Promise.allSettled([
      ledger.schedule('t', [entry('a')], 0),
      ledger.schedule('t', [entry('b')], 0),
    ])
    expect(a).toMatchObject({ status: 'fulfilled', value: [{ outcome: 'created' }] })
    expect(b).toMatchObject({ status: 'rejected' })
  })

  it('is one call: it says how many of its tasks were written', async () => {
    const ledger = ledgerOf(async (keys) => {
      if (keys.length > 2) throw lockTimeout()
      if (keys.includes('c')) throw new Error('the connection was lost')
    })
    await expect(ledger.schedule('t', ['a', 'b', 'c', 'd'].map(entry), 0)).rejects.toMatchObject({
      code: 'interrupted',
      details: { accepted: 2, inAll: 2 },
    })
  })
})

it('a settle that meets a lock a second time, and a third, is answered when that one is gone', async () => {
  const answers = [
    async () => [null],
    () => Promise.reject(lockTimeout()),
    async () => [{ answer: 'settled', hint: null }],
  ]
  const writes = {
    session: 1,
    as: () => writes,
    settle: () => Promise.reject(lockTimeout()),
    settleUnlocked: () => answers.shift()?.(),
  }
  const parts = {
    id: 'x',
    clock: systemClock,
    batcher: new Batcher(systemClock, 5_000),
    database: { runner: () => ({}), where: 'the database' },
    topics: { seen: async () => 1 },
    writes,
  }
  const ledger = new PostgresLedger(parts as unknown as PostgresParts)
  const settlement = { key: 'a', cell: 0, stamp: 1, outcome: { kind: 'done' } } as const
  expect(await ledger.settle('t', [settlement])).toEqual([{ answer: 'settled', hint: null }])
})

it("PostgreSQL's clock is read again when the last reading is old", () => {
  const asked: string[] = []
  const database = {
    recordClock: { ageMs: () => 10_000, now: () => 7, heard() {} },
    ask: async (doing: string) => {
      asked.push(doing)
      return [[8]]
    },
  }
  const ledger = new PostgresLedger({ id: 'x', clock: systemClock, database } as unknown as PostgresParts)
  expect(ledger.clockMs()).toBe(7)
  expect(asked).toEqual(['time'])
})
