import { describe, expect, it } from 'vitest'
import type { Ledger } from '../ledger.ts'
import { ALL_CELLS } from '../values/cell.ts'
import { ShardedLedger } from './sharded.ts'

/** A ledger over databases that answer every cancel with their own number. */
function shardedOver(count: number): ShardedLedger {
  return new ShardedLedger(
    Array.from({ length: count }, (_, number) => {
      return {
        cancel: async (_topic: string, places: unknown[]) => places.map(() => number),
      } as unknown as Ledger
    }),
  )
}

/** The database of each cell: the first cell of each, and their number of cells. */
async function rangesOf(count: number): Promise<[first: number, cells: number][]> {
  const databases = (await shardedOver(count).cancel(
    't',
    ALL_CELLS.map((cell) => ({ key: `k${cell}`, cell })),
  )) as unknown as number[]
  return Array.from({ length: count }, (_, number) => [
    databases.indexOf(number),
    databases.filter((one) => one === number).length,
  ])
}

describe('the database of a cell', () => {
  // Stored tasks are found by these ranges: others would lose them.
  it.each<[number, [number, number][]]>([
    [1, [[0, 64]]],
    [
      2,
      [
        [0, 32],
        [32, 32],
      ],
    ],
    [
      3,
      [
        [0, 22],
        [22, 21],
        [43, 21],
      ],
    ],
    [
      5,
      [
        [0, 13],
        [13, 13],
        [26, 13],
        [39, 13],
        [52, 12],
      ],
    ],
  ])('is one of %d, in these ranges', async (count, ranges) => {
    expect(await rangesOf(count)).toEqual(ranges)
  })

  it('is another for each cell with 64 databases', async () => {
    expect(await rangesOf(64)).toEqual(ALL_CELLS.map((cell) => [cell, 1]))
  })
})

it('answers in the order of the call, whichever database answers', async () => {
  const cells = [63, 0, 40, 1, 33]
  const places = cells.map((cell) => ({ key: `k${cell}`, cell }))
  expect(await shardedOver(2).cancel('t', places)).toEqual([1, 0, 1, 0, 1])
  expect(await shardedOver(2).cancel('t', [])).toEqual([])
})
