import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { TaskStore } from '../store.ts'
import type { CellAddress, Settlement } from '../timetable.ts'
import type { HeldTask } from './held.ts'
import { Settler } from './settler.ts'

const DONE = { kind: 'done' } as const

function held(cell: number, key: string, trustedUntilMs: number): HeldTask {
  const claim = { at: { topic: 't', cell }, stamp: 1, trustedUntilMs }
  return { claim, entry: { key } } as unknown as HeldTask
}

/** A settler whose calls for cell 1 fail. */
function settling() {
  const clock = new VirtualClock(0)
  const settled: string[] = []
  const store = {
    settle: async ({ cell }: CellAddress, settlements: readonly Settlement[]) => {
      if (cell === 1) throw new Error('cell 1 is unreachable')
      return settlements.map(() => 'settled' as const)
    },
  } as unknown as TaskStore
  const settler = new Settler(
    store,
    clock,
    (task, _, answer) => settled.push(`${task.entry.key} ${answer}`),
    () => {},
  )
  return { clock, settler, settled }
}

it('outcomes that are given up leave the backlog: a full one would stop the consumer', async () => {
  const { settler, settled } = settling()
  settler.add(held(1, 'a', 0), DONE)
  await expect.poll(() => settled).toEqual(['a stale'])
  expect(settler.backlog).toBe(0)
})

it('a cell that cannot be reached holds up no outcome of another cell', async () => {
  const { clock, settler, settled } = settling()
  for (let round = 0; round < 6; round++) {
    settler.add(held(1, `lost ${round}`, 60_000), DONE)
    await clock.turn()
    await clock.turn()
  }
  settler.add(held(2, 'a', 60_000), DONE)
  await expect.poll(() => settled, { timeout: 2_000 }).toEqual(['a settled'])
})
