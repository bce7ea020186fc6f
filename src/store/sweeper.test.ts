import { expect, it } from 'vitest'
import type { Hint, HintTable } from '../hint-table.ts'
import type { Ledger } from '../ledger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { Filler } from './loader.ts'
import { Sweeper } from './sweeper.ts'

const NOW_MS = 100_000

function hint(key: string, ringMs: number): Hint {
  return { key, cell: 0, ringMs, failures: 0, priority: 'normal', isSuspect: false }
}

/** Returns the keys that one step puts back, of a ledger that has these overdue tasks. */
async function sweep(overdue: readonly Hint[], loader: Partial<Filler>): Promise<string[]> {
  const keys: string[] = []
  const ledger = {
    clockMs: () => NOW_MS,
    load: async () => ({ hints: overdue, orderMs: [], frontier: null }),
  } as unknown as Ledger
  const table = {
    extent: async () => ({ count: 0, headMs: null }),
    put: async (_: string, hints: readonly Hint[]) => keys.push(...hints.map(({ key }) => key)),
  } as unknown as HintTable
  const noop = () => {}
  const sweeper = new Sweeper('t', ledger, table, new VirtualClock(0), loader as Filler, noop, noop)
  await sweeper.step()
  return keys
}

const fails = () => Promise.reject(new Error('the ledger is slow'))

it('puts back what the loader should have loaded, and nothing else', async () => {
  const includes = ({ key }: Hint) => key === 'a'
  expect(await sweep([hint('a', 1), hint('b', 1)], { catchUp: async () => {}, includes })).toEqual(['a'])
})

it('puts back everything while the loader fails: its frontier says nothing then', async () => {
  expect(await sweep([hint('a', 1)], { catchUp: fails, includes: () => false })).toEqual(['a'])
})

it('leaves a held task alone, whose hint rings at the end of its lease', async () => {
  const held = hint('a', NOW_MS + 5_000)
  expect(await sweep([held], { catchUp: async () => {}, includes: () => true })).toEqual([])
})
