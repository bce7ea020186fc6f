import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { TaskStore } from '../store.ts'
import type { CellAddress, SettleOutcome, Settlement } from '../timetable.ts'
import type { HeldTask } from './held.ts'
import { Settler } from './settler.ts'

const DONE = { kind: 'done' } as const
const LEASED_UNTIL_MS = 60_000

function held(cell: number, key: string, trustedUntilMs: number): HeldTask {
  const claim = { at: { topic: 't', cell }, stamp: 1, trustedUntilMs, from: 'lanes' }
  return { claim, entry: { key }, trustedUntilMs: Number.POSITIVE_INFINITY } as unknown as HeldTask
}

/** A settler whose calls for cell 1 fail. `waitingMax` is the number of outcomes that stop the claims. */
function settling({ isSettleCostly = true, waitingMax = 500 } = {}) {
  const clock = new VirtualClock(0)
  const settled: string[] = []
  const store = {
    isSettleCostly,
    settle: async ({ cell }: CellAddress, settlements: readonly Settlement[]) => {
      if (cell === 1) throw new Error('cell 1 is unreachable')
      return settlements.map(() => 'settled' as const)
    },
  } as unknown as TaskStore
  const settler = new Settler(
    store,
    clock,
    () => waitingMax,
    (task, _, answer) => settled.push(`${task.entry.key} ${answer}`),
    () => {},
  )
  /** Adds an outcome and lets every call end that does not wait for the clock. */
  const add = async (key: string, outcome: SettleOutcome = DONE, untilMs = LEASED_UNTIL_MS) => {
    settler.add(held(2, key, untilMs), outcome)
    for (let turns = 0; turns < 3; turns++) await clock.turn()
  }
  const moveTo = async (atMs: number) => {
    clock.moveTo(atMs)
    for (let turns = 0; turns < 3; turns++) await clock.turn()
  }
  return { clock, settler, settled, add, moveTo }
}

it('outcomes that are given up leave the backlog: a full one would stop the consumer', async () => {
  const { settler, settled } = settling()
  settler.add(held(1, 'a', 0), DONE)
  await expect.poll(() => settled).toEqual(['a stale'])
  expect(settler.backlog).toBe(0)
})

it('a cell that cannot be reached holds up no outcome of another cell', async () => {
  const { settler, settled, add, moveTo } = settling()
  for (let round = 0; round < 6; round++) {
    settler.add(held(1, `lost ${round}`, LEASED_UNTIL_MS), DONE)
    await moveTo(20 * (round + 1))
  }
  await moveTo(200)
  await add('a')
  expect(settled).toEqual(['a settled'])
})

it('a rare outcome is recorded at once, and the next ones 10 ms later, together', async () => {
  const { settled, add, moveTo } = settling()
  await add('a')
  expect(settled).toEqual(['a settled'])
  await moveTo(2)
  await add('b')
  await moveTo(9)
  await add('c')
  expect(settled).toEqual(['a settled'])
  await moveTo(10)
  expect(settled).toEqual(['a settled', 'b settled', 'c settled'])
  await moveTo(30)
  await add('d')
  expect(settled.at(-1)).toBe('d settled')
})

it('outcomes do not wait if a call costs no more than an outcome', async () => {
  const { settled, add } = settling({ isSettleCostly: false })
  await add('a')
  await add('b')
  expect(settled).toEqual(['a settled', 'b settled'])
})

it('a hundred outcomes do not wait', async () => {
  const { settled, add } = settling()
  await add('first')
  for (let n = 0; n < 99; n++) await add(`waits ${n}`)
  expect(settled).toEqual(['first settled'])
  await add('last')
  expect(settled).toHaveLength(101)
})

it('outcomes do not wait if that would stop the claims: one task after another takes no 10 ms each', async () => {
  const { settled, add } = settling({ waitingMax: 2 })
  await add('a')
  await add('b')
  expect(settled).toHaveLength(1)
  await add('c')
  expect(settled).toHaveLength(3)
})

it.each([
  ['retry', { kind: 'retry', delayMs: 5, error: 'x' }],
  ['snooze', { kind: 'snooze', delayMs: 5 }],
  ['return', { kind: 'return' }],
] as const)('a %s does not wait, because its task rings again', async (_, outcome) => {
  const { settled, add } = settling()
  await add('a')
  await add('b')
  await add('c', outcome)
  expect(settled).toEqual(['a settled', 'b settled', 'c settled'])
})

it('an outcome does not wait if its lease, or the lease of its claim, ends soon', async () => {
  const { clock, settler, settled, add } = settling()
  await add('a')
  await add('b', DONE, 900)
  expect(settled).toEqual(['a settled', 'b settled'])
  const limited = held(2, 'c', LEASED_UNTIL_MS)
  limited.trustedUntilMs = 900
  settler.add(limited, DONE)
  await expect.poll(() => settled.at(-1)).toBe('c settled')
  expect(clock.monotonicNow()).toBe(0)
})

it('the outcome of a suspect does not wait: a crash by the next task would be blamed on the suspect', async () => {
  const { clock, settler, settled, add } = settling()
  await add('a')
  const suspect = held(2, 'b', LEASED_UNTIL_MS)
  Object.assign(suspect.claim, { from: 'suspects' })
  settler.add(suspect, DONE)
  await expect.poll(() => settled.at(-1)).toBe('b settled')
  expect(clock.monotonicNow()).toBe(0)
})

it('a stop records the outcomes that wait, without a wait', async () => {
  const { clock, settler, settled, add } = settling()
  await add('a')
  await add('b')
  await settler.drained()
  expect(settled).toEqual(['a settled', 'b settled'])
  await add('c')
  expect(settled.at(-1)).toBe('c settled')
  expect(clock.monotonicNow()).toBe(0)
  expect(clock.timerCount).toBe(0)
})
