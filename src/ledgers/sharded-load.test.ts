import { expect, it } from 'vitest'
import type { Hint } from '../hint-table.ts'
import type { Ledger } from '../ledger.ts'
import { ShardedLedger } from './sharded.ts'

function hint(key: string, ringMs: number): Hint {
  return { key, cell: 0, ringMs, failures: 0, priority: 'normal', isSuspect: false }
}

function shard(hints: readonly Hint[], hasMore: boolean, nowMs: number): Ledger {
  const last = hints.at(-1)
  const frontier = hasMore && last !== undefined ? { ringMs: last.ringMs, cell: 0, key: last.key } : null
  const page = { hints, orderMs: hints.map(({ ringMs }) => ringMs), frontier }
  return { load: async () => page, nowMs: async () => nowMs } as unknown as Ledger
}

it('a page over several databases ends where the first of them has more to read', async () => {
  const ledger = new ShardedLedger([
    shard([hint('a', 1), hint('b', 2)], true, 50),
    shard([hint('c', 1), hint('d', 9)], false, 70),
  ])
  const { hints, frontier } = await ledger.load('t', null, 100, 10)
  expect(hints.map(({ key }) => key)).toEqual(['a', 'c', 'b'])
  expect(frontier).toEqual({ ringMs: 2, cell: 0, key: 'b' })
})

it('the time of several databases is that of the one behind: no task rings early by its own', async () => {
  expect(await new ShardedLedger([shard([], false, 50), shard([], false, 70)]).nowMs()).toBe(50)
})
