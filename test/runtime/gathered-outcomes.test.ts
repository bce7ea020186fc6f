import { expect, it } from 'vitest'
import { idleNets } from '../idle-nets.ts'
import { faultyTocsin, gate, wrapped } from './harness.ts'

/** A Tocsin whose outcomes are gathered, and the outcomes of each call: the keys, in the order of the handlers' ends. */
function gathering() {
  const calls: string[][] = []
  const toc = faultyTocsin(
    (timetable) =>
      wrapped(timetable, {
        isSettleCostly: true,
        settle: async (at, settlements) => {
          calls.push(settlements.map(({ key }) => key))
          return timetable.settle(at, settlements)
        },
      }),
    idleNets(),
  )
  // One prefix, so that all tasks are in one cell.
  return { toc, calls, topic: toc.topic<null>('t', { slotBy: 'prefix' }) }
}

function tasksAfter(delaysMs: readonly number[]) {
  return delaysMs.map((delay, i) => ({ key: `a:${i}`, delay, payload: null }))
}

it('the outcomes of 10 ms are one call, and no handler waits for it', async () => {
  const { toc, calls, topic } = gathering()
  await using _ = toc
  const startedMs: number[] = []
  topic.consume(async () => void startedMs.push(toc.now().getTime()), { concurrency: 3 })
  const zeroMs = toc.now().getTime()
  await topic.scheduleMany(tasksAfter([20, 22, 24, 26]))
  for (let ms = 0; ms < 26; ms++) await toc.advance(1)
  expect(startedMs.map((ms) => ms - zeroMs)).toEqual([20, 22, 24, 26])
  expect(await topic.counts()).toMatchObject({ pending: 0, claimed: expect.toSatisfy((n: number) => n > 0) })
  await toc.advance(10)
  expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0 })
  expect(calls.flat()).toHaveLength(4)
  expect(calls.length).toBeLessThan(4)
})

it.each(['consumer.stop', 'toc.close'] as const)('%s records the outcomes that wait', async (how) => {
  const { toc, calls, topic } = gathering()
  const consumer = topic.consume(async () => {})
  await topic.scheduleMany(tasksAfter([20, 21, 22]))
  for (let ms = 0; ms < 22; ms++) await toc.advance(1)
  const recordedCount = calls.flat().length
  expect(recordedCount).toBeLessThan(3)
  const atMs = toc.now().getTime()
  if (how === 'consumer.stop') {
    expect(await consumer.stop()).toMatchObject({ released: 0 })
    expect(toc.now().getTime()).toBe(atMs)
    expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0 })
  }
  await toc.close()
  expect(calls.flat().toSorted()).toEqual(['a:0', 'a:1', 'a:2'])
})

it('a handler that ends while the consumer stops is recorded at once', async () => {
  const { toc, calls, topic } = gathering()
  await using _ = toc
  const end = gate()
  const consumer = topic.consume(({ key }) => (key === 'a:2' ? end.opened : Promise.resolve()))
  await topic.scheduleMany(tasksAfter([20, 21, 22]))
  for (let ms = 0; ms < 22; ms++) await toc.advance(1)
  const atMs = toc.now().getTime()
  const stopped = consumer.stop()
  end.open()
  expect(await stopped).toMatchObject({ finished: expect.any(Number), released: 0 })
  expect(toc.now().getTime()).toBe(atMs)
  expect(calls.flat().toSorted()).toEqual(['a:0', 'a:1', 'a:2'])
})
