import { describe, expect, it } from 'vitest'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'
import type { Ledger, Loaded } from '../ledger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { isNear, Loader } from './loader.ts'

const HOUR_MS = 3_600_000

function hintAt(ringMs: number): Hint {
  return { key: 'a', cell: 0, ringMs, failures: 0, priority: 'normal', isSuspect: false }
}

/** A loader over a ledger and a table that only answer; `world` says what. */
function loading() {
  const clock = new VirtualClock(0)
  const world = { count: 0, isFilled: true, loads: 0, page: null as Promise<Loaded> | null }
  const ledger = {
    clockMs: () => clock.now(),
    load: () => {
      world.loads++
      return world.page ?? Promise.resolve({ hints: [], orderMs: [], frontier: null })
    },
  } as unknown as Ledger
  const table = {
    isShared: false,
    residentMax: 1,
    filling: async () => ({ epoch: 'e', frontier: null as Frontier | null }),
    extent: async () => ({ count: world.count, headMs: null }),
    put: async () => 0,
    filledTo: async () => world.isFilled,
  } as unknown as HintTable
  const onError = (error: unknown) => {
    throw error
  }
  const loader = new Loader('t', ledger, table, clock, () => HOUR_MS, onError)
  return { clock, world, loader }
}

describe('a loader', () => {
  it('loads again when a quarter of its window is used up, long before the table is empty', async () => {
    const { clock, world, loader } = loading()
    await loader.catchUp()
    clock.moveTo(HOUR_MS / 5)
    await loader.catchUp()
    expect(world.loads).toBe(1)
    clock.moveTo(HOUR_MS / 3)
    await loader.catchUp()
    expect(world.loads).toBe(2)
  })

  it('takes what is written while it reads for its own, because its read may have passed that place', async () => {
    const { clock, world, loader } = loading()
    await loader.catchUp()
    clock.moveTo(HOUR_MS / 2)
    const written = hintAt(HOUR_MS + HOUR_MS / 4)
    expect(loader.includes(written)).toBe(false)
    let answer: (page: Loaded) => void = () => {}
    world.page = new Promise((resolve) => {
      answer = resolve
    })
    const second = loader.catchUp()
    await expect.poll(() => world.loads).toBe(2)
    expect(loader.includes(written)).toBe(true)
    answer({ hints: [], orderMs: [], frontier: null })
    await second
    expect(loader.includes(written)).toBe(true)
  })

  it('of a table that was full goes on as soon as it is nudged', async () => {
    const { world, loader } = loading()
    world.count = 1
    await loader.catchUp()
    expect(world.loads).toBe(0)
    world.count = 0
    loader.nudge()
    await expect.poll(() => world.loads).toBe(1)
  })

  it('does not call a table filled that lost its hints meanwhile', async () => {
    const { world, loader } = loading()
    world.isFilled = false
    await expect(loader.reconcile()).rejects.toMatchObject({ code: 'timetable-unavailable' })
  })
})

it('writers put hints half a minute beyond the window: another process may have loaded up to there', () => {
  expect(isNear(hintAt(HOUR_MS + 29_000), 0, HOUR_MS)).toBe(true)
  expect(isNear(hintAt(HOUR_MS + 31_000), 0, HOUR_MS)).toBe(false)
})
