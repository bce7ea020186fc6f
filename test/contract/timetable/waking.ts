import { expect } from 'vitest'
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import {
  cancel,
  claim,
  DONE,
  during,
  entry,
  expectBetween,
  FAR_MS,
  hold,
  holdWhenDue,
  keysOfOneCell,
  kill,
  leaseEnds,
  list,
  LONG_LEASE_MS,
  only,
  place,
  replay,
  RESCUE_SPREAD_MS,
  reschedule,
  rescue,
  RETURN,
  retryIn,
  schedule,
  settle,
  SHORT_LEASE_MS,
  snoozeFor,
  type TimetableHarness,
  theme,
  view,
} from './helpers.ts'
import { becomeSuspect } from './rescue.ts'

interface Wake {
  readonly cell: number
  readonly inMs: number
  readonly ringMs: number
}
interface Fence {
  readonly cell: number
  readonly key: string
  readonly stamp: number
  readonly cause: 'cancelled' | 'replaced'
}

/** Where a signal takes its time, it comes within this, on the busiest machine; the wait ends when it is there. */
const SIGNAL_MS_MAX = 10_000
const LOOK_EVERY_MS = 5
/** A second lost lease puts a task off by up to this much. */
const SUSPECT_RINGS_MS = 4 * RESCUE_SPREAD_MS

/** A task of a cell of its own, ever nearer and never near: its wake is the last word of what was said before. */
const LAST_WORD = 'last word'
let lastWordMs = LAST_INSTANT_MS

class Ears {
  wakes: Wake[] = []
  fences: Fence[] = []
  readonly #harness: TimetableHarness
  readonly #key: string
  readonly stop: () => void
  #heardLastWordMs = LAST_INSTANT_MS

  constructor(harness: TimetableHarness, key: string) {
    this.#harness = harness
    this.#key = key
    this.stop = harness.timetable.watch(harness.topic, {
      wake: (cell, inMs, ringMs) => this.#hear({ cell, inMs, ringMs }),
      fence: (cell, key, stamp, cause) => this.fences.push({ cell, key, stamp, cause }),
      limit: () => {},
      missed: () => {},
    })
  }

  #hear(wake: Wake): void {
    if (wake.cell === place(LAST_WORD).cell) this.#heardLastWordMs = wake.ringMs
    else this.wakes.push(wake)
  }

  /** What is said is heard in order: whoever hears this has heard all that came before. */
  async allHeard(): Promise<void> {
    // As a puller does: what is told is told to those who asked before when the next ring is.
    await rescue(this.#harness, LAST_WORD)
    const atMs = --lastWordMs
    await schedule(this.#harness, LAST_WORD, { atMs })
    await this.#until(() => this.#heardLastWordMs === atMs)
    expect(this.#heardLastWordMs, 'a watcher hears of a nearer task').toBe(atMs)
  }

  async #quiet(): Promise<void> {
    await this.allHeard()
    this.forget()
  }

  forget(): void {
    this.wakes = []
    this.fences = []
  }

  /** Runs `change`: exactly one wake must follow, for `delayMs` after it. */
  async expectWake(delayMs: number, change: () => Promise<unknown>): Promise<void> {
    await this.#quiet()
    const { fromMs, toMs } = await during(this.#harness, change)
    await this.allHeard()
    const { cell, inMs, ringMs } = only(this.wakes)
    expect(cell).toBe(place(this.#key).cell)
    expect(ringMs).toBe(
      Math.min(...(await list(this.#harness, { state: 'pending' })).map((one) => one.ringMs)),
    )
    // What rings at once may be told as a ring of the past.
    expectBetween(inMs, delayMs - (toMs - fromMs) - (delayMs === 0 ? FAR_MS : 0), delayMs)
  }

  /** As `expectWake`, where something else rings before it. */
  async expectNearer(delayMs: number, change: () => Promise<unknown>): Promise<void> {
    await this.#quiet()
    const { fromMs, toMs } = await during(this.#harness, async () => {
      await change()
      await this.#until(() => this.wakes.length > 0)
    })
    expectBetween(only(this.wakes).ringMs, fromMs + delayMs, toMs + delayMs)
  }

  async expectFence(fence: Omit<Fence, 'cell'>, change: () => Promise<unknown>): Promise<void> {
    await this.#quiet()
    await change()
    await this.allHeard()
    expect(only(this.fences)).toEqual({ ...fence, cell: place(fence.key).cell })
  }

  async expectSilence(change: () => Promise<unknown>): Promise<void> {
    await this.#quiet()
    await change()
    await this.allHeard()
    expect(this.wakes).toEqual([])
    expect(this.fences).toEqual([])
  }

  /** A watcher may need a moment until it hears: call until it does, and leave nothing behind. */
  async open(): Promise<this> {
    for (let n = 0; this.wakes.length === 0 && n < SIGNAL_MS_MAX / LOOK_EVERY_MS; n++) {
      await rescue(this.#harness, this.#key)
      await schedule(this.#harness, this.#key, { delayMs: 100 * FAR_MS - n })
      if (this.wakes.length === 0) await this.#harness.advance(LOOK_EVERY_MS)
    }
    expect(this.wakes.length, 'a watcher hears of a new task').toBeGreaterThan(0)
    await cancel(this.#harness, this.#key)
    await this.#quiet()
    return this
  }

  async #until(heard: () => boolean): Promise<void> {
    for (let waitedMs = 0; !heard() && waitedMs < SIGNAL_MS_MAX; waitedMs += LOOK_EVERY_MS)
      await this.#harness.advance(LOOK_EVERY_MS)
  }
}

async function listen(harness: TimetableHarness, key: string): Promise<Ears> {
  return new Ears(harness, key).open()
}

export const waking = theme('waking', [
  {
    name: 'of several held tasks that one call cancels, each holder is told',
    async run(harness) {
      const keys = keysOfOneCell(3)
      const [key = ''] = keys
      const { timetable, topic } = harness
      const ears = await listen(harness, key)
      await timetable.schedule(
        topic,
        keys.map((one) => entry(one)),
        0,
      )
      const { stamp } = await claim(harness, key)
      await ears.allHeard()
      await timetable.cancel(
        topic,
        keys.map((one) => place(one)),
      )
      await ears.allHeard()
      expect(ears.fences.map((fence) => fence.key).toSorted()).toEqual(keys)
      expect(ears.fences.every((fence) => fence.stamp === stamp && fence.cause === 'cancelled')).toBe(true)
      ears.stop()
    },
  },
  {
    name: 'a new task wakes when it is the next of its cell, and not when it is later',
    async run(harness) {
      const [a = '', b = '', c = '', d = ''] = keysOfOneCell(4)
      const ears = await listen(harness, a)
      await ears.expectWake(FAR_MS, () => schedule(harness, a, { delayMs: FAR_MS }))
      await ears.expectSilence(() => schedule(harness, b, { delayMs: 2 * FAR_MS }))
      await ears.expectWake(5_000, () => schedule(harness, c, { delayMs: 5_000, priority: 'low' }))
      await ears.expectSilence(() => schedule(harness, d, { delayMs: 10_000, priority: 'high' }))
      await ears.expectWake(0, () => schedule(harness, d))
      ears.stop()
    },
  },
  {
    name: 'a replaced task wakes when it comes nearer, and not when it is put off',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await schedule(harness, 'a', { delayMs: FAR_MS })
      await ears.expectWake(5_000, () => schedule(harness, 'a', { delayMs: 5_000 }))
      await ears.expectSilence(() => schedule(harness, 'a', { delayMs: FAR_MS }))
      await ears.expectSilence(() => schedule(harness, 'a', { onConflict: 'keep' }))
      ears.stop()
    },
  },
  {
    name: 'a rescheduled task wakes when it comes nearer, and not when it is put off',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await schedule(harness, 'a', { delayMs: 2 * FAR_MS })
      await ears.expectWake(FAR_MS, () => reschedule(harness, 'a', { kind: 'delay', ms: FAR_MS }))
      await ears.expectSilence(() => reschedule(harness, 'a', { kind: 'shift', ms: FAR_MS }))
      ears.stop()
    },
  },
  {
    name: 'a retry, a snooze and a return wake when they are next, and not when they are later',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      const ears = await listen(harness, a)
      await schedule(harness, a)
      const retried = await hold(harness, a)
      await ears.expectWake(FAR_MS, () => settle(harness, a, retried.stamp, retryIn(FAR_MS)))
      await schedule(harness, b)
      const later = await hold(harness, b)
      await ears.expectSilence(() => settle(harness, b, later.stamp, retryIn(2 * FAR_MS)))
      await schedule(harness, b)
      const snoozed = await hold(harness, b)
      await ears.expectWake(5_000, () => settle(harness, b, snoozed.stamp, snoozeFor(5_000)))
      await schedule(harness, b)
      const returned = await hold(harness, b)
      await ears.expectWake(0, () => settle(harness, b, returned.stamp, RETURN))
      ears.stop()
    },
  },
  {
    name: 'a suspect that is given back wakes',
    slow: true,
    async run(harness) {
      const ears = await listen(harness, 'a')
      await becomeSuspect(harness, 'a')
      const { stamp } = await holdWhenDue(harness, 'a', { from: 'suspects' })
      await ears.expectWake(0, () => settle(harness, 'a', stamp, RETURN))
      ears.stop()
    },
  },
  {
    name: 'a call with several tasks wakes once, for the first of them',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      const ears = await listen(harness, a)
      const delays = { [a]: 2 * FAR_MS, [b]: FAR_MS, [c]: 3 * FAR_MS }
      await ears.expectWake(FAR_MS, () =>
        harness.timetable.schedule(
          harness.topic,
          Object.entries(delays).map(([key, delayMs]) => entry(key, { delayMs })),
          0,
        ),
      )
      ears.stop()
    },
  },
  {
    name: 'what a rescue puts back wakes, whoever came by',
    async run(harness) {
      const [a = '', other = ''] = keysOfOneCell(2)
      const ears = await listen(harness, a)
      const comingBy = [
        () => rescue(harness, other),
        () => cancel(harness, other),
        () => reschedule(harness, other, { kind: 'delay', ms: 0 }),
      ]
      for (const comeBy of comingBy) {
        await schedule(harness, a)
        await hold(harness, a, { leaseMs: SHORT_LEASE_MS })
        await leaseEnds(harness)
        await ears.allHeard()
        ears.forget()
        await comeBy()
        await ears.allHeard()
        expect(only(ears.wakes)).toMatchObject({
          cell: place(a).cell,
          ringMs: (await view(harness, a)).ringMs,
        })
      }
      ears.stop()
    },
  },
  {
    name: 'what ends wakes nobody',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await ears.expectSilence(() => settle(harness, 'a', stamp, DONE))
      await schedule(harness, 'a')
      await ears.expectSilence(() => cancel(harness, 'a'))
      ears.stop()
    },
  },
  {
    name: 'a replay wakes',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await kill(harness, 'a')
      await ears.expectWake(0, () => replay(harness, 'a'))
      await ears.expectSilence(() => replay(harness, 'a'))
      ears.stop()
    },
  },
  {
    name: 'one call that changes several cells wakes each of them',
    async run(harness) {
      const keys = ['a', 'b', 'c'].filter((key, n, all) =>
        all.every((other, m) => m >= n || place(other).cell !== place(key).cell),
      )
      expect(keys).toHaveLength(3)
      const ears: Ears[] = []
      for (const key of keys) ears.push(await listen(harness, key))
      for (const one of ears) await one.allHeard()
      for (const one of ears) one.forget()
      const at = (key: string) => ({
        ...place(key),
        body: key,
        when: { kind: 'delay', ms: FAR_MS } as const,
        priority: 'normal' as const,
        tags: null,
        onConflict: 'replace' as const,
      })
      await harness.timetable.schedule(harness.topic, keys.map(at), 0)
      for (const one of ears) {
        await one.allHeard()
        const cells = new Set(one.wakes.map(({ cell }) => cell))
        expect(cells).toEqual(new Set(keys.map((key) => place(key).cell)))
        one.stop()
      }
    },
  },
  {
    name: 'a held task that is cancelled is told to its holder, with its stamp',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await ears.expectFence({ key: 'a', stamp, cause: 'cancelled' }, () => cancel(harness, 'a'))
      ears.stop()
    },
  },
  {
    name: 'a held task that is replaced is told to its holder, with its stamp',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await ears.expectFence({ key: 'a', stamp, cause: 'replaced' }, () => schedule(harness, 'a'))
      ears.stop()
    },
  },
  {
    name: 'nobody is fenced off who holds nothing, or whose task stays',
    async run(harness) {
      const ears = await listen(harness, 'a')
      await schedule(harness, 'a', { delayMs: FAR_MS })
      await ears.expectSilence(() => schedule(harness, 'a', { delayMs: 2 * FAR_MS }))
      await ears.expectSilence(() => cancel(harness, 'a'))
      await schedule(harness, 'a')
      await hold(harness, 'a')
      await ears.expectSilence(() => schedule(harness, 'a', { onConflict: 'keep' }))
      await ears.expectSilence(() => reschedule(harness, 'a', { kind: 'delay', ms: 0 }))
      ears.stop()
    },
  },
  {
    name: 'a watcher that stopped hears nothing, and the others go on hearing',
    async run(harness) {
      const stopped = await listen(harness, 'a')
      const ears = await listen(harness, 'a')
      stopped.stop()
      stopped.stop()
      stopped.forget()
      await ears.expectWake(0, () => schedule(harness, 'a'))
      const { stamp } = await hold(harness, 'a')
      await ears.expectFence({ key: 'a', stamp, cause: 'cancelled' }, () => cancel(harness, 'a'))
      expect(stopped.wakes).toEqual([])
      expect(stopped.fences).toEqual([])
      ears.stop()
    },
  },
  {
    name: 'a watcher hears of its own topic only',
    async run(harness) {
      const ears = await listen(harness, 'a')
      const other = { ...harness, topic: `${harness.topic}-other` }
      await ears.expectSilence(async () => {
        await schedule(other, 'a')
        const { stamp } = await hold(other, 'a')
        await settle(other, 'a', stamp, retryIn(0))
        await claim(other, 'a', { leaseMs: LONG_LEASE_MS })
        await cancel(other, 'a')
      })
      ears.stop()
    },
  },
  {
    name: 'a suspect that waits past its time keeps no other ring from being told',
    slow: true,
    async run(harness) {
      const [suspect = '', other = ''] = keysOfOneCell(2)
      const ears = await listen(harness, other)
      await schedule(harness, suspect)
      await becomeSuspect(harness, suspect)
      await harness.advance(SUSPECT_RINGS_MS)
      await rescue(harness, suspect)
      await ears.expectNearer(FAR_MS, () => schedule(harness, other, { delayMs: FAR_MS }))
      ears.stop()
    },
  },
])
