import { describe, expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { effectiveConfig, settingsOf, type TopicConfig } from '../values/config.ts'
import { Gatherer } from './gatherer.ts'
import { HeldClaim, type HeldTask } from './held.ts'

const LEASE_MS = 30_000

function gathering(config: TopicConfig = {}) {
  const clock = new VirtualClock(0)
  const settings = {
    ...settingsOf(effectiveConfig({ linger: '100ms', batchSize: 5, ...config }, {}), 'topic'),
  }
  const batches: { atMs: number; keys: string[] }[] = []
  const world = { mayBring: (_atMs: number) => true, settings, clock, batches }
  const gatherer = new Gatherer({
    clock,
    settings: () => settings,
    mayBring: ({ atMs }) => world.mayBring(atMs),
    onTime: () => start(),
  })
  /** Starts what is ready, as a consumer with enough permits does. */
  const start = () => {
    for (let batch = gatherer.next(); batch !== null; batch = gatherer.next())
      batches.push({ atMs: clock.monotonicNow(), keys: batch.map(({ entry }) => entry.key) })
  }
  const claim = (cell: number, ...keys: string[]) => {
    const held = heldClaim(clock.monotonicNow(), cell, keys)
    gatherer.add(held.tasks)
    start()
    return held
  }
  return Object.assign(world, { gatherer, claim, start })
}

function heldClaim(nowMs: number, cell: number, keys: readonly string[]): HeldClaim {
  const tasks = keys.map((key) => ({ key }) as HeldTask['entry'])
  const request = {
    req: `${cell}`,
    limit: 10,
    leaseMs: LEASE_MS,
    from: 'lanes',
    wholePrefixes: false,
  } as const
  const claim = { stamp: 1, nowMs, tasks } as unknown as ConstructorParameters<typeof HeldClaim>[0]['claim']
  return new HeldClaim({ at: { topic: 't', cell }, request, sentMs: nowMs, claim }, nowMs)
}

describe('a batch', () => {
  it('waits after the linger for claims that bring what rang within it, and for nothing else', () => {
    const world = gathering()
    const { claim, clock, batches, start } = world
    const asked: number[] = []
    world.mayBring = (atMs) => asked.push(atMs) > 0 && clock.monotonicNow() < 130
    claim(1, 'a')
    clock.moveTo(110)
    claim(2, 'b')
    expect(batches).toEqual([])
    clock.moveTo(130)
    claim(3, 'c')
    expect(batches).toEqual([{ atMs: 130, keys: ['a', 'b', 'c'] }])
    // The linger of the first task: later ones do not extend it.
    expect(new Set(asked)).toEqual(new Set([100]))
    start()
    expect(batches.length).toBe(1)
  })

  it('starts at the end of the linger if nothing that rang is missing', () => {
    const world = gathering()
    const { claim, clock, batches } = world
    world.mayBring = (atMs) => clock.monotonicNow() < atMs
    claim(1, 'a')
    clock.moveTo(60)
    claim(2, 'b')
    clock.moveTo(99)
    expect(batches).toEqual([])
    clock.moveTo(100)
    expect(batches).toEqual([{ atMs: 100, keys: ['a', 'b'] }])
  })

  it('starts at once when it is full, and the rest begins a linger of its own', () => {
    const world = gathering({ batchSize: 3 })
    const { claim, clock, batches } = world
    world.mayBring = (atMs) => clock.monotonicNow() < atMs
    clock.moveTo(10)
    claim(1, 'a', 'b')
    clock.moveTo(30)
    claim(2, 'c', 'd')
    expect(batches).toEqual([{ atMs: 30, keys: ['a', 'b', 'c'] }])
    clock.moveTo(129)
    expect(batches.length).toBe(1)
    clock.moveTo(130)
    expect(batches.slice(1)).toEqual([{ atMs: 130, keys: ['d'] }])
  })

  it('is made of several claims where it is larger than any claim', () => {
    const { claim, batches } = gathering({ batchSize: 2_000 })
    for (let cell = 0; cell < 5; cell++)
      claim(cell, ...Array.from({ length: 1_000 }, (_, i) => `${cell}-${i}`))
    expect(batches.map(({ keys }) => keys.length)).toEqual([2_000, 2_000])
  })

  it('does not wait if no claim can bring more', () => {
    const world = gathering()
    world.mayBring = () => false
    world.claim(1, 'a')
    expect(world.batches).toEqual([{ atMs: 0, keys: ['a'] }])
  })

  it('does not wait without a linger, even if more is due', () => {
    const { claim, batches } = gathering({ linger: 0 })
    claim(1, 'a')
    claim(2, 'b')
    expect(batches.map(({ keys }) => keys)).toEqual([['a'], ['b']])
  })

  it('goes by live settings', () => {
    const { claim, clock, settings, batches, start } = gathering()
    claim(1, 'a')
    clock.moveTo(50)
    Object.assign(settings, { lingerMs: 0 })
    start()
    expect(batches).toEqual([{ atMs: 50, keys: ['a'] }])
  })

  it('waits for a store that does not answer only for so long, counted from the last tasks that came', () => {
    const { claim, clock, batches } = gathering()
    claim(1, 'a')
    clock.moveTo(300)
    claim(2, 'b')
    clock.moveTo(1_299)
    expect(batches).toEqual([])
    clock.moveTo(1_300)
    expect(batches).toEqual([{ atMs: 1_300, keys: ['a', 'b'] }])
  })

  it('splits no prefix that fits into a batch', () => {
    const { claim, batches } = gathering({ merge: '1s', batchSize: 4 })
    claim(1, 'ann:1', 'ann:2', 'ann:3', 'bob:1', 'bob:2', 'bob:3', 'eve:1', 'eve:2')
    expect(batches.map(({ keys }) => keys)).toEqual([
      ['ann:1', 'ann:2', 'ann:3'],
      ['bob:1', 'bob:2', 'bob:3'],
    ])
  })
})

describe('a lease', () => {
  it('that is extended does not end the linger', () => {
    const world = gathering({ linger: '1m' })
    const { claim, clock, batches } = world
    world.mayBring = (atMs) => clock.monotonicNow() < atMs
    const held = claim(1, 'a')
    for (let ms = 10_000; ms < 60_000; ms += 10_000) {
      held.trustedUntilMs = ms - 10_000 + LEASE_MS
      clock.moveTo(ms)
    }
    expect(batches).toEqual([])
    clock.moveTo(60_000)
    expect(batches).toEqual([{ atMs: 60_000, keys: ['a'] }])
  })

  it('that is not extended ends the linger while a third of it is left, whichever task it is of', () => {
    const { claim, clock, batches } = gathering({ linger: '1m' })
    claim(1, 'a')
    clock.moveTo(1_000)
    const [second] = claim(2, 'b').tasks
    // The store tells of one task whose lease could not be extended.
    second!.trustedUntilMs = 16_000
    clock.moveTo(5_999)
    claim(3, 'c')
    expect(batches).toEqual([])
    clock.moveTo(6_000)
    expect(batches).toEqual([{ atMs: 6_000, keys: ['a', 'b', 'c'] }])
  })
})

it('all tasks are taken out at once, and no timer is left', () => {
  const { claim, clock, gatherer, batches } = gathering()
  claim(1, 'a', 'b')
  claim(2, 'c')
  expect(gatherer.count).toBe(3)
  expect(gatherer.takeAll().map(({ entry }) => entry.key)).toEqual(['a', 'b', 'c'])
  expect([gatherer.count, clock.timerCount]).toEqual([0, 0])
  clock.moveTo(10_000)
  expect(batches).toEqual([])
})
