import { expect } from 'vitest'
import { type State, TRANSITIONS } from '../../../src/task.ts'
import type { Books, SettleOutcome } from '../../../src/timetable.ts'
import {
  cancel,
  claim,
  DEAD,
  DONE,
  keysOf,
  keysOfOneCell,
  list,
  newRequest,
  place,
  purge,
  replay,
  reschedule,
  rescue,
  RETURN,
  retryIn,
  schedule,
  seededFraction,
  settle,
  snoozeFor,
  type TimetableHarness,
  theme,
} from './helpers.ts'

const STEPS = 400
const OUTCOMES: readonly SettleOutcome[] = [
  DONE,
  { kind: 'obsolete' },
  DEAD,
  RETURN,
  retryIn(0),
  retryIn(5),
  snoozeFor(0),
  snoozeFor(5),
]

interface ClaimOfOne {
  readonly key: string
  readonly stamp: number
  readonly req: string
}

/** Steps of all kinds, by chance, on few keys, so that they meet; and what the answers add up to. */
class Workload {
  readonly expected = { scheduled: 0, done: 0, obsolete: 0 }
  readonly #harness: TimetableHarness
  readonly #fraction: () => number
  readonly keys = [...keysOfOneCell(5), ...keysOfOneCell(5, 'other')]
  /** Of every claim ever made. */
  readonly #claims: ClaimOfOne[] = []
  /** Of these, the ones that may still be held. */
  #open: ClaimOfOne[] = []
  readonly #settled = new Set<string>()

  constructor(harness: TimetableHarness, seed: number) {
    this.#harness = harness
    this.#fraction = seededFraction(seed)
  }

  async step(): Promise<void> {
    const steps = [
      ...Array.from({ length: 6 }, () => () => this.#schedule()),
      ...Array.from({ length: 4 }, () => () => this.#claim()),
      ...Array.from({ length: 8 }, () => () => this.#settle()),
      () => this.#extendOrBegin(),
      () => cancel(this.#harness, this.#key()),
      () => reschedule(this.#harness, this.#key(), { kind: 'delay', ms: this.#upTo(5) }),
      () => replay(this.#harness, this.#key()),
      () => purge(this.#harness, this.#key()),
      () => rescue(this.#harness, this.#key()),
      () => this.#harness.advance(this.#upTo(4)),
    ]
    await this.#oneOf(steps)()
  }

  async #schedule(): Promise<void> {
    const onConflict = this.#oneOf(['replace', 'replace', 'keep'] as const)
    const options = { delayMs: this.#upTo(1), onConflict, tags: this.#oneOf([null, ['t']]) }
    const { outcome } = await schedule(this.#harness, this.#key(), options)
    if (outcome === 'created') this.expected.scheduled++
  }

  async #claim(): Promise<void> {
    const req = newRequest()
    const from = this.#fraction() < 0.1 ? 'suspects' : 'lanes'
    const request = { req, from, limit: this.#upTo(4), leaseMs: 1 + this.#upTo(30) } as const
    const { tasks, stamp } = await claim(this.#harness, this.#key(), request)
    for (const { key } of tasks) {
      expect(this.#claims.filter((one) => one.key === key && one.stamp === stamp)).toEqual([])
      this.#claims.push({ key, stamp, req })
      this.#open.push({ key, stamp, req })
    }
  }

  async #settle(): Promise<void> {
    const held = this.#someClaim()
    if (held === undefined) return
    this.#open = this.#open.filter((one) => one !== held)
    const outcome = this.#oneOf(OUTCOMES)
    const answer = await settle(this.#harness, held.key, held.stamp, outcome)
    if (answer === 'stale') return
    const name = `${held.key}/${held.stamp}`
    expect(this.#settled.has(name), `${name} settled twice`).toBe(false)
    this.#settled.add(name)
    if (outcome.kind === 'done' || outcome.kind === 'obsolete') this.expected[outcome.kind]++
  }

  async #extendOrBegin(): Promise<void> {
    const held = this.#someClaim()
    if (held === undefined) return
    const { timetable, topic } = this.#harness
    const at = { topic, cell: place(held.key).cell }
    if (this.#fraction() < 0.5) await timetable.extend(at, held.req, 1 + this.#upTo(15))
    else await timetable.begin(at, held.key, held.stamp)
  }

  /** Now and then one that is long over, and so stale. */
  #someClaim(): ClaimOfOne | undefined {
    return this.#oneOf(this.#fraction() < 0.2 || this.#open.length === 0 ? this.#claims : this.#open)
  }

  #key(): string {
    return this.#oneOf(this.keys)
  }

  /** Of an empty list: undefined. */
  #oneOf<T>(values: readonly T[]): T {
    return values[Math.floor(this.#fraction() * values.length)] as T
  }

  /** 0 … most, whole. */
  #upTo(most: number): number {
    return Math.floor(this.#fraction() * (most + 1))
  }
}

/** The live task of each key; null where there is none. What a key has in its grave is another matter. */
async function liveStates(
  { timetable, topic }: TimetableHarness,
  keys: readonly string[],
): Promise<(State | null)[]> {
  const views = await Promise.all(keys.map((key) => timetable.get(topic, place(key))))
  return views.map((view) => (view === null || view.state === 'dead' ? null : view.state))
}

/** By the drawing in task.ts: one step takes a task to where it may go, or to an end, or makes it. */
function mayFollow(before: State | null, after: State | null): boolean {
  if (before === after) return true
  if (before === null) return after === 'pending'
  if (after === null)
    return TRANSITIONS[before].some((state) => TRANSITIONS[state].length === 0 || state === 'dead')
  return TRANSITIONS[before].includes(after)
}

function ends(books: Books): number {
  const { pending, claimed, dead, done, cancelled, obsolete, purged } = books
  return pending + claimed + dead + done + cancelled + obsolete + purged
}

export const bookkeeping = theme(
  'books',
  [1, 2, 3].map((seed) => ({
    name: `they balance at every step of a mixed workload, seed ${seed}`,
    slow: true,
    async run(harness: TimetableHarness) {
      const { timetable, topic } = harness
      const workload = new Workload(harness, seed)
      let before = await liveStates(harness, workload.keys)
      for (let step = 0; step < STEPS; step++) {
        await workload.step()
        const after = await liveStates(harness, workload.keys)
        for (const [i, state] of after.entries())
          expect(mayFollow(before[i] ?? null, state), `step ${step}: ${before[i]} → ${state}`).toBe(true)
        before = after
        const books = await timetable.books(topic)
        expect(ends(books), `step ${step}`).toBe(books.scheduled)
        expect(books, `step ${step}`).toMatchObject(workload.expected)
        const { pending, claimed, dead, due } = await timetable.counts(topic)
        expect({ pending, claimed, dead }).toEqual({
          pending: books.pending,
          claimed: books.claimed,
          dead: books.dead,
        })
        expect(due).toBeLessThanOrEqual(pending)
        if (step % 20 > 0) continue
        expect(await list(harness, { state: 'pending' })).toHaveLength(pending)
        expect(await list(harness, { state: 'claimed' })).toHaveLength(claimed)
        expect(await list(harness, { state: 'dead' })).toHaveLength(dead)
        const live = keysOf(await list(harness))
        expect(new Set(live).size).toBe(live.length)
      }
      const { done, cancelled } = await timetable.books(topic)
      expect(Math.min(done, cancelled)).toBeGreaterThan(0)
    },
  })),
)
