import { expect } from 'vitest'
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import { DONE, FAR_MS, keysOfOneCell, only, place, RETURN } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  drop,
  hint,
  type HintHarness,
  hold,
  now,
  put,
  putAll,
  rescue,
  ringMs,
  settle,
  theme,
} from './helpers.ts'

/** Where a signal takes its time, it comes within this, on the busiest machine; the wait ends when it is there. */
const SIGNAL_MS_MAX = 10_000
/** So long until it is said again, by a watcher that may not have been listening. */
const SAY_AGAIN_MS = 20

/** A hint of a cell of its own, ever nearer and never near: its wake is the last word of what was said before. */
const LAST_WORD = 'last word'
let lastWordMs = LAST_INSTANT_MS

interface Heard {
  readonly wakes: { readonly cell: number; readonly inMs: number; readonly ringMs: number }[]
  readonly fences: { readonly cell: number; readonly key: string; stamp: number; cause: string }[]
}

export class Ears {
  readonly stop: () => void
  readonly #harness: HintHarness
  #heard: Heard = { wakes: [], fences: [] }
  #heardLastWordMs = LAST_INSTANT_MS

  private constructor(harness: HintHarness) {
    this.#harness = harness
    this.stop = harness.table.watch(harness.topic, {
      wake: (cell, inMs, atMs) => {
        if (cell === place(LAST_WORD).cell) this.#heardLastWordMs = atMs
        else this.#heard.wakes.push({ cell, inMs, ringMs: atMs })
      },
      fence: (cell, key, stamp, cause) => this.#heard.fences.push({ cell, key, stamp, cause }),
      limit: () => {},
      missed: () => {},
    })
  }

  /** A watcher may need a moment until it hears. */
  static async open(harness: HintHarness): Promise<Ears> {
    const ears = new Ears(harness)
    const untilMs = performance.now() + SIGNAL_MS_MAX
    while (!(await ears.#saysLastWord(SAY_AGAIN_MS)) && performance.now() < untilMs);
    return ears
  }

  /** What is heard because of `change`. */
  async during(change: () => Promise<unknown>): Promise<Heard> {
    await this.#allHeard()
    this.#heard = { wakes: [], fences: [] }
    await change()
    await this.#allHeard()
    return this.#heard
  }

  /** Exactly one wake, for this cell, and no fence. */
  async expectWake(key: string, inMs: number, change: () => Promise<unknown>): Promise<void> {
    const nowMs = await now(this.#harness)
    const { wakes, fences } = await this.during(change)
    expect(wakes).toEqual([{ cell: place(key).cell, inMs, ringMs: nowMs + inMs }])
    expect(fences).toEqual([])
  }

  async expectSilence(change: () => Promise<unknown>): Promise<void> {
    expect(await this.during(change)).toEqual({ wakes: [], fences: [] })
  }

  async expectFence(
    key: string,
    stamp: number,
    cause: string,
    change: () => Promise<unknown>,
  ): Promise<void> {
    const { fences } = await this.during(change)
    expect(only(fences)).toEqual({ cell: place(key).cell, key, stamp, cause })
  }

  async #allHeard(): Promise<void> {
    expect(await this.#saysLastWord(SIGNAL_MS_MAX), 'a watcher hears of a nearer hint').toBe(true)
  }

  /** What is said is heard in order: whoever hears this has heard all that came before. */
  async #saysLastWord(looksMax = 10): Promise<boolean> {
    const atMs = --lastWordMs
    await putAll(this.#harness, [hint(LAST_WORD, atMs)])
    for (let looks = 0; this.#heardLastWordMs !== atMs && looks < looksMax; looks++) await turn(this.#harness)
    return this.#heardLastWordMs === atMs
  }
}

/** Lets signals come in without the clock moving on. */
async function turn({ table, topic }: HintHarness): Promise<void> {
  await table.has(topic, [place('nobody')])
}

export const waking = theme('waking', [
  {
    name: 'set wakes where it is the next of its cell, and not where it is later',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      const ears = await Ears.open(harness)
      await ears.expectWake(a, FAR_MS, () => put(harness, a, { inMs: FAR_MS }))
      await ears.expectSilence(() => put(harness, b, { inMs: 2 * FAR_MS }))
      await ears.expectWake(c, 5_000, () => put(harness, c, { inMs: 5_000, lane: 'low' }))
      await ears.expectSilence(() => put(harness, b, { inMs: 6_000, lane: 'high' }))
      await ears.expectSilence(() => put(harness, a, { inMs: 3 * FAR_MS }))
      await ears.expectWake(b, 0, () => put(harness, b))
      ears.stop()
    },
  },
  {
    name: 'lower wakes where it moved something to be the next, and not where it left it',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      const ears = await Ears.open(harness)
      await ears.expectWake(a, FAR_MS, () => put(harness, a, { inMs: FAR_MS, mode: 'lower' }))
      await ears.expectSilence(() => put(harness, a, { inMs: 2 * FAR_MS, mode: 'lower' }))
      await ears.expectWake(a, 5_000, () => put(harness, a, { inMs: 5_000, mode: 'lower' }))
      await ears.expectSilence(() => put(harness, b, { inMs: 6_000, mode: 'lower' }))
      await put(harness, b)
      await hold(harness, b)
      await ears.expectSilence(() => put(harness, b, { inMs: -1_000, mode: 'lower' }))
      ears.stop()
    },
  },
  {
    name: 'suspects wake by themselves, and keep no other ring from being told',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      const ears = await Ears.open(harness)
      await ears.expectWake(a, -5_000, () => put(harness, a, { inMs: -5_000, lane: 'suspects' }))
      await ears.expectWake(b, FAR_MS, () => put(harness, b, { inMs: FAR_MS }))
      await ears.expectSilence(() => put(harness, a, { lane: 'suspects' }))
      ears.stop()
    },
  },
  {
    name: 'a call with several hints wakes each cell once, for the first of them',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      const elsewhere = 'elsewhere'
      const ears = await Ears.open(harness)
      const nowMs = await now(harness)
      const { wakes } = await ears.during(() =>
        putAll(harness, [
          hint(a, nowMs + 3_000),
          hint(b, nowMs + 1_000, { lane: 'high' }),
          hint(elsewhere, nowMs + 500),
          hint(c, nowMs + 2_000),
        ]),
      )
      expect(wakes.toSorted((one, other) => one.inMs - other.inMs)).toEqual([
        { cell: place(elsewhere).cell, inMs: 500, ringMs: nowMs + 500 },
        { cell: place(a).cell, inMs: 1_000, ringMs: nowMs + 1_000 },
      ])
      ears.stop()
    },
  },
  {
    name: 'what is given back wakes; what ends, is cancelled or dropped does not',
    async run(harness) {
      const ears = await Ears.open(harness)
      await put(harness, 'a')
      const returned = await hold(harness, 'a')
      await ears.expectWake('a', 0, () => settle(harness, 'a', returned, RETURN))
      const done = await hold(harness, 'a')
      await ears.expectSilence(() => settle(harness, 'a', done, DONE))
      await put(harness, 'a', { inMs: FAR_MS })
      await ears.expectSilence(() => cancel(harness, 'a'))
      await put(harness, 'a', { inMs: FAR_MS })
      await ears.expectSilence(() => drop(harness, 'a'))
      ears.stop()
    },
  },
  {
    name: 'what a rescue puts back wakes',
    async run(harness) {
      const ears = await Ears.open(harness)
      await put(harness, 'a', { lane: 'low' })
      await hold(harness, 'a', { leaseMs: 100 })
      await harness.advance(100)
      const { wakes } = await ears.during(() => rescue(harness, 'a'))
      const { cell } = place('a')
      const { nextRingMs } = await claim(harness, 'a', { limit: 0 })
      expect(only(wakes)).toMatchObject({ cell, ringMs: nextRingMs })
      ears.stop()
    },
  },
  {
    name: 'whoever holds is told when it is set anew',
    async run(harness) {
      const ears = await Ears.open(harness)
      for (const lane of ['normal', 'suspects'] as const) {
        await put(harness, 'a', { lane })
        const stamp = await hold(harness, 'a', { from: lane === 'normal' ? 'lanes' : 'suspects' })
        await ears.expectFence('a', stamp, 'replaced', () => put(harness, 'a', { inMs: FAR_MS }))
      }
      ears.stop()
    },
  },
  {
    name: 'whoever holds is told when it is cancelled, and when it is dropped',
    async run(harness) {
      const ears = await Ears.open(harness)
      await put(harness, 'a')
      const stamp = await hold(harness, 'a')
      await ears.expectFence('a', stamp, 'cancelled', () => cancel(harness, 'a'))
      await ears.expectFence('a', stamp, 'replaced', () => drop(harness, 'a'))
      ears.stop()
    },
  },
  {
    name: 'nobody is fenced off who holds nothing, or keeps what they hold',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      const ears = await Ears.open(harness)
      await put(harness, a)
      await hold(harness, a)
      await put(harness, b, { inMs: FAR_MS })
      await ears.expectSilence(() => put(harness, a, { inMs: -1_000, mode: 'lower' }))
      await ears.expectSilence(() => put(harness, b, { inMs: 2 * FAR_MS }))
      await ears.expectSilence(() => cancel(harness, b))
      await ears.expectSilence(() => drop(harness, b))
      expect(await ringMs(harness)).toBe(lastWordMs)
      ears.stop()
    },
  },
])
