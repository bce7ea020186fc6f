/**
 * A claim of several tasks, one of which is locked by an open transaction: the leases of the others are extended, and its
 * own is not. Its holder is fenced before that lease ends, and no other holder is.
 */
import { describe, expect, it } from 'vitest'
import type { Ledger } from '../../src/ledger.ts'
import { keysOf, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { LEASE_MS, Lives, TOPIC } from './ledger-life.ts'

const [LOCKED = '', FREE = ''] = keysOfOneCell(2)
const AT = { topic: TOPIC, cell: place(LOCKED).cell }
const REQ = 'both'
/** The last tenth of a lease is for the handler that is fenced to end. */
const TOLD_MS = LEASE_MS * 0.9

interface Fence {
  readonly key: string
  readonly stamp: number
  /** Since the claim. */
  readonly afterMs: number
}

/** Two tasks in one claim, and a watcher that records which of them is fenced. */
class Pair implements AsyncDisposable {
  readonly lives: Lives
  readonly stamp: number
  readonly fences: Fence[] = []
  readonly locked = new Set<string>()
  readonly unwatch: () => void
  readonly #claimedMs: number

  private constructor(lives: Lives, stamp: number, claimedMs: number) {
    this.lives = lives
    this.stamp = stamp
    this.#claimedMs = claimedMs
    this.unwatch = lives.store.watch(TOPIC, {
      wake() {},
      limit() {},
      missed() {},
      fence: (cell, key, of, cause) => {
        expect({ cell, cause }).toEqual({ cell: AT.cell, cause: 'replaced' })
        this.fences.push({ key, stamp: of, afterMs: lives.clock.monotonicNow() - claimedMs })
      },
    })
    lives.faults.ledger = { extend: (...args) => this.extendUnlocked(...args) }
  }

  static async claimed(): Promise<Pair> {
    const lives = await Lives.begin()
    for (const key of [LOCKED, FREE]) await lives.schedule(key)
    const claimedMs = lives.clock.monotonicNow()
    const { tasks, stamp } = await lives.claim(LOCKED, { req: REQ })
    expect(keysOf(tasks).toSorted()).toEqual([LOCKED, FREE].toSorted())
    return new Pair(lives, stamp, claimedMs)
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.unwatch()
    return this.lives[Symbol.asyncDispose]()
  }

  /** As a shared ledger does: a locked task is left as it is. */
  readonly extendUnlocked: Ledger['extend'] = async (topic, places, stamp, leaseMs) => {
    const answers = await this.lives.ledger.extend(
      topic,
      places.filter(({ key }) => !this.locked.has(key)),
      stamp,
      leaseMs,
    )
    return places.map(({ key }) => (this.locked.has(key) ? 'locked' : (answers.shift() ?? 'stale')))
  }

  extend(leaseMs = LEASE_MS): Promise<'extended' | 'stale'> {
    return this.lives.store.extend(AT, REQ, leaseMs)
  }

  /** Moves on to so long after the claim; on the way its lease is extended every ten seconds. */
  async until(afterMs: number): Promise<void> {
    const { clock } = this.lives
    for (;;) {
      const passedMs = clock.monotonicNow() - this.#claimedMs
      const nextMs = Math.min(afterMs, (Math.floor(passedMs / 10_000) + 1) * 10_000)
      await this.lives.advance(nextMs - passedMs)
      if (nextMs % 10_000 === 0) await this.extend()
      if (nextMs === afterMs) return
    }
  }
}

describe('locked while the lease of its claim is extended', () => {
  it('its holder is fenced before its own lease is over, and not before the last tenth of it', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.until(TOLD_MS - 1)
    expect(pair.fences).toEqual([])
    await pair.until(TOLD_MS)
    expect(pair.fences).toEqual([{ key: LOCKED, stamp: pair.stamp, afterMs: TOLD_MS }])
    // Once, however long it stays locked; the other task is not fenced.
    await pair.until(5 * LEASE_MS)
    expect(pair.fences).toHaveLength(1)
    expect(await pair.lives.settle(FREE, pair.stamp)).toBe('settled')
  })

  it('the other one keeps its lease: no other claim gets it', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.until(2 * LEASE_MS)
    const { ledger, clock } = pair.lives
    const request = { stamp: pair.stamp + 1, leaseMs: LEASE_MS, nowMs: clock.now(), alone: false }
    expect(await ledger.claim(TOPIC, request, [place(FREE)])).toMatchObject([{ kind: 'held' }])
    // The lease of the locked one was over long ago, as its holder was fenced.
    expect(await ledger.claim(TOPIC, request, [place(LOCKED)])).toMatchObject([{ kind: 'ours' }])
  })

  it('a watcher that stopped watching is not called', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.until(20_000)
    pair.unwatch()
    await pair.until(2 * LEASE_MS)
    expect(pair.fences).toEqual([])
  })

  it('both locked at once: the call fails and is repeated; the first that goes on leaves the other behind', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED).add(FREE)
    await pair.lives.advance(10_000)
    await expect(pair.extend()).rejects.toMatchObject({ code: 'ledger-unavailable', retryable: true })
    await pair.lives.advance(5_000)
    pair.locked.delete(FREE)
    expect(await pair.extend()).toBe('extended')
    await pair.until(TOLD_MS - 1)
    expect(pair.fences).toEqual([])
    await pair.until(TOLD_MS)
    expect(pair.fences).toMatchObject([{ key: LOCKED, afterMs: TOLD_MS }])
  })

  it('found so in the last tenth of its lease: its holder is fenced at once', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.lives.advance(TOLD_MS + 1_000)
    expect(await pair.extend()).toBe('extended')
    // Before a handler could start it.
    expect(pair.fences).toMatchObject([{ key: LOCKED, afterMs: TOLD_MS + 1_000 }])
  })
})

describe('its lease counts from before the ledger was asked', () => {
  /** The ledger has done it, and its answer is on its way until it is let go. */
  class Road {
    letGo = () => {}
    readonly #end = new Promise<void>((resolve) => {
      this.letGo = resolve
    })
    onIt = () => {}
    readonly done = new Promise<void>((resolve) => {
      this.onIt = resolve
    })

    async bring<T>(answering: Promise<T>): Promise<T> {
      const answer = await answering
      this.onIt()
      await this.#end
      return answer
    }
  }

  it('for the claim', async () => {
    await using lives = await Lives.begin()
    for (const key of [LOCKED, FREE]) await lives.schedule(key)
    const { ledger, clock } = lives
    const fencedMs: number[] = []
    lives.store.watch(TOPIC, {
      wake() {},
      limit() {},
      missed() {},
      fence: () => fencedMs.push(clock.monotonicNow()),
    })
    const askedMs = clock.monotonicNow()
    const road = new Road()
    lives.faults.ledger = {
      claim: (...args) => road.bring(ledger.claim(...args)),
      extend: async (_, places) => places.map(({ key }) => (key === LOCKED ? 'locked' : 'extended')),
    }
    const claiming = lives.claim(LOCKED, { req: REQ })
    await road.done
    await lives.advance(5_000)
    road.letGo()
    await claiming
    expect(await lives.store.extend(AT, REQ, LEASE_MS)).toBe('extended')
    await lives.advance(LEASE_MS)
    expect(fencedMs).toEqual([askedMs + TOLD_MS])
  })

  it('for each time that it was extended', async () => {
    await using pair = await Pair.claimed()
    const { lives, extendUnlocked, locked } = pair
    const road = new Road()
    lives.faults.ledger = { extend: (...args) => road.bring(extendUnlocked(...args)) }
    await lives.advance(10_000)
    const extending = pair.extend()
    await road.done
    await lives.advance(5_000)
    road.letGo()
    expect(await extending).toBe('extended')
    lives.faults.ledger = { extend: extendUnlocked }
    locked.add(LOCKED)
    await pair.until(10_000 + TOLD_MS + 5_000)
    expect(pair.fences).toMatchObject([{ key: LOCKED, afterMs: 10_000 + TOLD_MS }])
  })
})

describe('no holder is fenced', () => {
  it('when it was extended after all, before its lease was over', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.until(15_000)
    pair.locked.clear()
    await pair.until(5 * LEASE_MS)
    expect(pair.fences).toEqual([])
    expect(await pair.lives.settle(LOCKED, pair.stamp)).toBe('settled')
  })

  it('before the lease is over that it got last, when it is locked once more', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.until(15_000)
    pair.locked.clear()
    await pair.until(25_000)
    pair.locked.add(LOCKED)
    // Prolonged after 20 seconds.
    await pair.until(20_000 + TOLD_MS - 1)
    expect(pair.fences).toEqual([])
    await pair.until(20_000 + TOLD_MS)
    expect(pair.fences).toMatchObject([{ key: LOCKED, afterMs: 20_000 + TOLD_MS }])
  })

  it('when it was settled meanwhile', async () => {
    await using pair = await Pair.claimed()
    pair.locked.add(LOCKED)
    await pair.until(15_000)
    expect(await pair.lives.settle(LOCKED, pair.stamp)).toBe('settled')
    await pair.until(5 * LEASE_MS)
    expect(pair.fences).toEqual([])
  })

  it('when nothing was ever locked', async () => {
    await using pair = await Pair.claimed()
    await pair.until(5 * LEASE_MS)
    expect(pair.fences).toEqual([])
  })
})

it('the other one was settled, and it alone is left: its holder is fenced all the same', async () => {
  await using pair = await Pair.claimed()
  pair.locked.add(LOCKED)
  await pair.lives.advance(10_000)
  expect(await pair.extend()).toBe('extended')
  expect(await pair.lives.settle(FREE, pair.stamp)).toBe('settled')
  await pair.lives.advance(10_000)
  await expect(pair.extend()).rejects.toMatchObject({ code: 'ledger-unavailable' })
  await pair.lives.advance(TOLD_MS - 20_000)
  expect(pair.fences).toMatchObject([{ key: LOCKED, afterMs: TOLD_MS }])
})

it('all of a claim is lost: that is said, and nothing of one that is behind', async () => {
  await using pair = await Pair.claimed()
  pair.lives.faults.ledger = { extend: async (_, places) => places.map(() => 'stale') }
  expect(await pair.extend()).toBe('stale')
})

it('closed while one is behind: no timer is left, and no holder is fenced', async () => {
  await using pair = await Pair.claimed()
  pair.locked.add(LOCKED)
  await pair.until(10_000)
  const { clock } = pair.lives
  expect(clock.timerCount).toBeGreaterThan(0)
  await pair.lives.dieAndComeBack()
  expect(clock.timerCount).toBe(0)
  clock.moveTo(clock.monotonicNow() + LEASE_MS)
  expect(pair.fences).toEqual([])
})
