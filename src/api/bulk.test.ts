import { describe, expect, test } from 'vitest'
import { BATCH_BYTES_MAX, BATCH_MAX, BULK_MAX } from '../lib/batch-max.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { systemClock } from '../clock.ts'
import { type Batch, batchesOf, batchesOfStream, limitByTime, pipelined } from './bulk.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)
const sizesOf = (batches: Iterable<Batch<unknown>>) => [...batches].map(({ items }) => items.length)

async function* slowly<T>(items: readonly T[]): AsyncGenerator<T> {
  for (const item of items) yield item
}

/** A clock whose turns are counted. */
function counted() {
  const clock = new VirtualClock(0)
  const turns = { count: 0 }
  const turn = () => {
    turns.count++
    return clock.turn()
  }
  return { turns, clock: Object.assign(Object.create(clock) as VirtualClock, { turn }) }
}

async function streamed(items: Iterable<number> | AsyncIterable<number>, max: number, bytes = 0) {
  const { clock, turns } = counted()
  const sizes: number[] = []
  const batches = batchesOfStream(
    clock,
    items,
    max,
    (n) => n,
    () => bytes,
  )
  for await (const batch of batches) sizes.push(batch.items.length)
  return { sizes, turns: turns.count }
}

describe('batches of an array', () => {
  test('have as many items as they may, or the item that reaches the size', () => {
    expect(sizesOf(batchesOf(numbers(25), 10))).toEqual([10, 10, 5])
    expect(sizesOf(batchesOf(numbers(20), 10))).toEqual([10, 10])
    expect(sizesOf(batchesOf([], 10))).toEqual([])
    expect(sizesOf(batchesOf(numbers(5), BULK_MAX, () => BATCH_BYTES_MAX / 2))).toEqual([2, 2, 1])
  })

  test('are as small as one of their items needs', () => {
    const limit = () => (n: number) => (n === 12 ? 3 : 10)
    expect(sizesOf(batchesOf(numbers(25), limit))).toEqual([10, 3, 10, 2])
  })
})

test('a batch with a task that is due soon is small, so that its tasks do not ring late', () => {
  const clock = { ...systemClock, now: () => 1_000_000 }
  const sizes = (kind: 'at' | 'delay', ms: number) =>
    sizesOf(
      batchesOf(
        numbers(3_000).map((n) => ({ when: { kind, ms: n === 10 ? ms : 9_000_000 } })),
        limitByTime(clock, BULK_MAX),
      ),
    )
  expect(sizes('at', 1_000_500)).toEqual([BATCH_MAX, 2_000])
  expect(sizes('delay', 500)).toEqual([BATCH_MAX, 2_000])
  expect(sizes('at', 1_060_000)).toEqual([3_000])
  expect(sizes('delay', 60_000)).toEqual([3_000])
})

describe('batches of a stream', () => {
  test('are as large as the store takes, and other code runs while a large one is made', async () => {
    const { sizes, turns } = await streamed(numbers(14_000 + BULK_MAX + 1).values(), BULK_MAX)
    // The first ones are smaller: the store begins its work while the next one is made.
    expect(sizes).toEqual([2_000, 4_000, 8_000, BULK_MAX, 1])
    expect(turns).toBe(14 + BULK_MAX / BATCH_MAX - 4)
  })

  test('of a store in this process need no pause within a batch: there is one after each', async () =>
    expect(await streamed(numbers(2_500).values(), BATCH_MAX)).toEqual({
      sizes: [BATCH_MAX, BATCH_MAX, 500],
      turns: 0,
    }))

  test('that may be slow wait for no more than a thousand', async () =>
    expect((await streamed(slowly(numbers(2_001)), BULK_MAX)).sizes).toEqual([BATCH_MAX, BATCH_MAX, 1]))

  test('end with the item that reaches the size', async () =>
    expect((await streamed(numbers(3).values(), BULK_MAX, BATCH_BYTES_MAX)).sizes).toEqual([1, 1, 1]))
})

describe('unanswered tasks', () => {
  test.each([BATCH_MAX, BULK_MAX])('are bounded, in batches of %i', async (max) => {
    const clock = new VirtualClock(0)
    let open = 0
    let most = 0
    const answers: (() => void)[] = []
    const send = (items: readonly number[]) => {
      most = Math.max(most, (open += items.length))
      return new Promise<number>((resolve) => {
        answers.push(() => {
          open -= items.length
          resolve(items.length)
        })
      })
    }
    let taken = 0
    const done = pipelined(clock, batchesOf(numbers(100_000), max), send, (count) => {
      taken += count
    })
    let isOver = false
    void done.then(() => {
      isOver = true
    })
    for (let turn = 1; !isOver; turn++) {
      await clock.turn()
      // The store is slower than the caller.
      if (turn % 50 === 0) answers.shift()?.()
    }
    expect(taken).toBe(100_000)
    expect(most).toBeGreaterThan(20_000)
    expect(most).toBeLessThan(32_000 + max)
  })
})
