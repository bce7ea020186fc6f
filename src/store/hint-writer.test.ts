import { expect, it } from 'vitest'
import type { Hint, HintTable } from '../hint-table.ts'
import type { Ledger } from '../ledger.ts'
import { HintWriter } from './hint-writer.ts'
import type { TopicFillers } from './topic-fillers.ts'

it('the hint of a committed transaction only lowers what is there: a claim made since the commit keeps its task', async () => {
  const hint: Hint = { key: 'a', cell: 0, ringMs: 1, failures: 0, priority: 'normal', isSuspect: false }
  const calls: unknown[] = []
  const table = {
    isShared: true,
    put: async (_: string, hints: readonly Hint[], mode: string) => calls.push([mode, hints.length]),
    cancel: async (_: string, places: readonly unknown[]) => calls.push(['cancel', places.length]),
  } as unknown as HintTable
  const writer = new HintWriter({
    ledger: { clockMs: () => 0, hints: async () => [hint, null] } as unknown as Ledger,
    table,
    topicFillers: { fillerOf: () => undefined } as unknown as TopicFillers,
    residentMs: () => 1_000,
    onError: (error) => {
      throw error
    },
  })
  await writer.catchUp('t', [hint, { key: 'b', cell: 0 }])
  expect(calls).toEqual([
    ['cancel', 1],
    ['lower', 1],
  ])
})

it('a key that one call has written twice, far away and then soon, keeps the hint of the second time', async () => {
  const written = (key: string, ringMs: number) => ({
    hint: { key, cell: 0, ringMs, failures: 0, priority: 'normal', isSuspect: false } as Hint,
    outcome: 'replaced',
  })
  const calls: unknown[] = []
  const keysOf = (places: readonly { readonly key: string }[]) => places.map(({ key }) => key)
  const table = {
    isShared: true,
    put: async (_: string, hints: readonly Hint[]) => calls.push(['put', ...keysOf(hints)]),
    drop: async (_: string, places: readonly Hint[]) => calls.push(['drop', ...keysOf(places)]),
  } as unknown as HintTable
  const writer = new HintWriter({
    ledger: { clockMs: () => 0 } as unknown as Ledger,
    table,
    topicFillers: { fillerOf: () => undefined } as unknown as TopicFillers,
    residentMs: () => 1_000,
    onError: (error) => {
      throw error
    },
  })
  const farMs = 1_000_000
  await writer.place('t', [written('a', farMs), written('a', 5), written('b', 5), written('b', farMs)])
  await writer.drained()
  expect(calls).toEqual([
    ['put', 'a'],
    ['drop', 'b'],
  ])
})
