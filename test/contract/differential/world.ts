import { isDeepStrictEqual } from 'node:util'
import type { Random } from '../../../src/random.ts'
import type { Timetable } from '../../../src/timetable.ts'
import { MemoryTimetable } from '../../../src/timetables/memory/timetable.ts'
import type { RedisServer } from '../../real-servers/redis-server.ts'
import { openOnVirtualClock } from '../redis-harness.ts'
import { Chance } from './chance.ts'
import { type Step, Steps } from './steps.ts'

/** Reads everything after so many steps, and at the end. */
const INVENTORY_EVERY = 500
const STEPS_SHOWN = 15
const DAY_MS = 86_400_000

/** How often each answer occurred, by step and outcome: shows whether the steps reached every answer. */
export type Tally = Map<string, number>

export interface ComparisonOptions {
  readonly seed: number
  /** Topics whose steps run at the same time, to hide Redis's latency. */
  readonly worlds: number
  /** Steps per topic. */
  readonly steps: number
  readonly tally: Tally
  readonly read?: (name: string) => string
}

/** Runs the same steps at the same moments on both timetables. Throws at the first difference. */
export async function compareTimetables(
  server: RedisServer,
  { seed, worlds: count, steps, tally, read }: ComparisonOptions,
): Promise<void> {
  const random = sameRandom(seed)
  const redis = await openOnVirtualClock(server, { random, ...(read === undefined ? {} : { read }) })
  const memory = new MemoryTimetable(redis.clock, random)
  const nowMs = () => redis.clock.now()
  const worlds = Array.from({ length: count }, (_, n) => {
    const chance = new Chance(seed * 1_000 + n)
    return new World(memory, redis.timetable, new Steps(`world-${n}`, chance, nowMs), nowMs, tally)
  })
  const chance = new Chance(seed)
  try {
    for (let number = 1; number <= steps; number++) {
      const moveMs = nextMoveMs(chance)
      if (moveMs > 0) await redis.advance(moveMs)
      const takesInventory = number % INVENTORY_EVERY === 0 || number === steps
      const ends = await Promise.allSettled(worlds.map((world) => world.go(takesInventory)))
      for (const [n, end] of ends.entries())
        if (end.status === 'rejected')
          throw new Error(`seed ${seed}, world ${n}, step ${number}: ${(end.reason as Error).message}`)
    }
  } finally {
    await memory.close()
    await redis.close()
  }
}

function nextMoveMs(chance: Chance): number {
  if (chance.happens(0.7)) return 0
  return chance.happens(0.01) ? chance.upTo(40 * DAY_MS) : chance.ms()
}

class World {
  readonly #memory: Timetable
  readonly #redis: Timetable
  readonly #steps: Steps
  readonly #nowMs: () => number
  readonly #tally: Tally
  readonly #past: string[] = []

  constructor(memory: Timetable, redis: Timetable, steps: Steps, nowMs: () => number, tally: Tally) {
    this.#memory = memory
    this.#redis = redis
    this.#steps = steps
    this.#nowMs = nowMs
    this.#tally = tally
  }

  async go(takesInventory: boolean): Promise<void> {
    await this.#compare(this.#steps.next())
    if (takesInventory) for (const step of this.#steps.inventory()) await this.#compare(step)
  }

  async #compare(step: Step): Promise<void> {
    this.#past.push(`${this.#nowMs()} ${step.what}`)
    const expected = await answerOf(step, this.#memory)
    const actual = await answerOf(step, this.#redis)
    if (!step.same(expected, actual)) throw difference(this.#past, expected, actual)
    step.learn(expected)
    note(this.#tally, step, expected)
  }
}

/**
 * Both draw where the spread of rescued tasks begins, but not as often: Redis at every call that may rescue, since
 * only the script knows whether there is something to rescue. So it is one number for each seed.
 */
function sameRandom(seed: number): Random {
  const fraction = new Chance(seed).fraction()
  return { fraction: () => fraction, uniqueId: () => 'unused' }
}

/** An error counts as an answer: both timetables throw, or neither. */
async function answerOf(step: Step, timetable: Timetable): Promise<unknown> {
  try {
    return await step.ask(timetable)
  } catch (error) {
    return { threw: String(error) }
  }
}

function difference(past: readonly string[], expected: unknown, actual: unknown): Error {
  const shown = (answer: unknown) => JSON.stringify(answer, null, 2)
  return new Error(
    [
      past.at(-1),
      `in-process: ${shown(expected)}`,
      `Redis:      ${shown(actual)}`,
      `differs in: ${differingPaths(expected, actual).join(', ')}`,
      'the steps before it:',
      ...past.slice(-1 - STEPS_SHOWN, -1),
    ].join('\n'),
  )
}

function differingPaths(a: unknown, b: unknown, path = ''): string[] {
  if (isDeepStrictEqual(a, b)) return []
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return [path || 'the whole']
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].flatMap((name) =>
    differingPaths(
      (a as Record<string, unknown>)[name],
      (b as Record<string, unknown>)[name],
      path === '' ? name : `${path}.${name}`,
    ),
  )
}

function note(tally: Tally, step: Step, answer: unknown): void {
  const name = step.what.slice(0, step.what.indexOf('('))
  for (const word of wordsOf(name, answer)) tally.set(word, (tally.get(word) ?? 0) + 1)
}

function wordsOf(name: string, answer: unknown): string[] {
  if (name === 'claim') {
    const { tasks, rescued, poisoned, nextSuspectMs } = answer as Awaited<ReturnType<Timetable['claim']>>
    const words = tasks.map(({ failures, deliveries, priority }) =>
      failures > 0 ? 'claim failed' : deliveries > 1 ? 'claim again' : `claim ${priority}`,
    )
    if (tasks.length === 0) words.push('claim nothing')
    if (rescued > 0) words.push('claim rescued')
    if (poisoned.length > 0) words.push('claim poisoned')
    if (nextSuspectMs !== null) words.push('claim suspect')
    return words
  }
  const items = Array.isArray(answer) ? answer : [answer]
  return items.map((one: unknown) => {
    const { outcome, inFlight, state, deadCause } = (one ?? {}) as Record<string, unknown>
    if (typeof one === 'string' && name !== 'find') return `${name} ${one}`
    if (typeof one === 'boolean') return `${name} ${one}`
    if (typeof outcome === 'string') return `${name} ${outcome}${inFlight === true ? ' in flight' : ''}`
    if (typeof state === 'string') return `${name} ${state}${deadCause === 'poison' ? ' of poison' : ''}`
    return name
  })
}
