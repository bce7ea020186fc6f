/** In which order tasks start that have become due while their consumer could not claim them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { cellOf, cellsOfSlot } from '../../src/values/cell.ts'
import { quickTocsin } from './harness.ts'

const SLOTS = 16
const STEP_MS = 120

function keysOf(cell: number, count: number): string[] {
  const keys: string[] = []
  for (let n = 0; keys.length < count; n++) if (cellOf(`k${n}`, 'key') === cell) keys.push(`k${n}`)
  return keys
}

const keyOf = (cell: number): string => keysOf(cell, 1)[0] ?? ''

it.each([
  ['several slots', [5, 4, 3, 2, 1, 0]],
  ['one slot', cellsOfSlot(3, SLOTS).toReversed()],
])(
  'with concurrency 1, tasks of %s that are overdue together start in the order of their times',
  async (_, cells) => {
    await using toc = quickTocsin()
    const topic = toc.topic<number>('t', { slots: SLOTS })
    const started: number[] = []
    topic.consume(async ({ payload }) => void started.push(payload), { concurrency: 1 })
    for (const [n, cell] of cells.entries())
      await topic.schedule({ key: keyOf(cell), delay: (n + 1) * STEP_MS, payload: n })
    await toc.advance(1)
    // The clock of record is ahead of the timers, as after a stall of the machine: the first claim finds all due.
    toc.stepClock(cells.length * STEP_MS)
    await toc.advance(STEP_MS)
    expect(started).toEqual([...cells.keys()])
  },
)

it('a task of low priority that waits long does not put the other tasks of its cell before those of other cells', async () => {
  await using toc = quickTocsin()
  const topic = toc.topic<string>('t', { slots: 1 })
  const started: string[] = []
  const handler = async ({ payload }: { payload: string }) => {
    started.push(payload)
    // A pass over the cells ends before this handler does, so that every task begins a pass.
    await sleep(5)
  }
  topic.consume(handler, { concurrency: 1 })
  const [low = '', ...high] = keysOf(7, 4)
  await topic.schedule({ key: low, delay: STEP_MS, payload: 'low', priority: 'low' })
  await topic.schedule({ key: keyOf(8), delay: 2 * STEP_MS, payload: 'other cell' })
  for (const key of high) await topic.schedule({ key, delay: 3 * STEP_MS, payload: 'high', priority: 'high' })
  await toc.advance(1)
  toc.stepClock(4 * STEP_MS)
  await toc.advance(STEP_MS)
  expect(started).toEqual(['high', 'other cell', 'high', 'high', 'low'])
})
