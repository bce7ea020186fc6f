/**
 * A cluster of processes under a steady load, and one node in this process that consumes nothing: it schedules, and sees
 * who owns what.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Tocsin, Topic } from 'tocsin'
import type { TopicConfig } from '../../src/values/config.ts'
import { cellOf } from '../../src/values/cell.ts'
import { eventually } from '../fault/helpers.ts'
import { eventsOf } from '../fault/records.ts'
import { type Entry, type Program, startProgram } from '../fault/program.ts'
import type { Place } from './compositions.ts'

export const SLOTS = 16
/** programs/node.mjs, as seen from where programs are looked for. */
export const NODE_PROGRAM = '../../cluster/programs/node'
/** How often this many tasks are scheduled, which then fall due evenly over as much time. */
const ROUND_MS = 250
/** So far ahead of their time. */
const AHEAD_MS = 2_000
const LOOK_EVERY_MS = 10

type Rate = NonNullable<TopicConfig['rate']>

export interface CrewOptions {
  readonly topic: string
  readonly lease: string
  /** How long a handler takes. */
  readonly workMs: number
  readonly perSecond: number
  readonly rate?: Rate
}

export class Crew implements AsyncDisposable {
  readonly observer: Tocsin
  readonly topic: Topic<null, null>
  /** Everything that was accepted: by key, when it is due. */
  readonly accepted = new Map<string, number>()
  readonly #place: Place
  readonly #options: CrewOptions
  /** By the observer. */
  readonly #gone: readonly string[]
  /** In the order in which they came. */
  readonly #programs = new Map<string, Program>()
  #load: Promise<void> = Promise.resolve()
  readonly #enough = new AbortController()

  constructor(place: Place, observer: Tocsin, options: CrewOptions, gone: readonly string[]) {
    this.#gone = gone
    this.#place = place
    this.#options = options
    this.observer = observer
    this.topic = observer.topic<null>(options.topic, this.#config)
  }

  static async assemble(place: Place, options: CrewOptions): Promise<Crew> {
    const gone: string[] = []
    const warn = (fields: object) => void ('node' in fields && gone.push(String(fields.node)))
    const logger = { debug: () => {}, info: () => {}, warn, error: () => {} }
    return new Crew(place, await place.node('observer', { logger }), options, gone)
  }

  /** The names of the nodes that an event reported as gone. */
  get gone(): string[] {
    const warnings = eventsOf(this.programs, 'log').filter(({ message }) =>
      message.includes('a node is gone'),
    )
    const names = warnings.map((entry) => (entry as Entry & { node: string }).node)
    return [...new Set([...this.#gone, ...names])].toSorted()
  }

  get #config(): { lease: string; slots: number; rate?: Rate } {
    const { lease, rate } = this.#options
    return { lease, slots: SLOTS, ...(rate === undefined ? {} : { rate }) }
  }

  get programs(): Program[] {
    return [...this.#programs.values()]
  }

  program(name: string): Program {
    return this.#programs.get(name)!
  }

  /** Starts nodes. Answers, by the machine's clock, when the last of them was consuming. */
  async join(...names: string[]): Promise<number> {
    const { topic, workMs } = this.#options
    const programs = await Promise.all(
      names.map((node) =>
        startProgram(NODE_PROGRAM, {
          open: { ...this.#place.open, node },
          topic,
          config: this.#config,
          workMs,
        }),
      ),
    )
    for (const [i, name] of names.entries()) this.#programs.set(name, programs[i]!)
    await Promise.all(programs.map((program) => program.untilCount('ready', 1)))
    return Math.max(...programs.map((program) => program.of('ready')[0]!.nowMs))
  }

  /** The slots that each node says it owns, by name. */
  async owned(): Promise<Map<string, readonly number[]>> {
    const nodes = await this.observer.nodes()
    return new Map(
      nodes
        .filter(({ isSelf }) => !isSelf)
        .map(({ name, slots }) => [name, slots[this.#options.topic] ?? []]),
    )
  }

  /**
   * Waits until exactly these own all slots, each slot one of them, and none more than one more than another. Answers how
   * long after `sinceMs` that was, by the machine's clock.
   */
  async balanced(names: readonly string[], sinceMs: number, withinMs: number): Promise<number> {
    let seen: Map<string, readonly number[]> = new Map()
    const deadlineMs = sinceMs + withinMs
    while (!isBalanced(seen, names)) {
      if (Date.now() > deadlineMs)
        throw new Error(`not balanced within ${withinMs} ms: ${JSON.stringify([...seen])}`)
      await sleep(LOOK_EVERY_MS)
      seen = await this.owned()
    }
    return Date.now() - sinceMs
  }

  load(): void {
    this.#load = this.#schedule()
  }

  async #schedule(): Promise<void> {
    const perRound = Math.round((this.#options.perSecond * ROUND_MS) / 1000)
    const startedMs = performance.now()
    for (let round = 0; !this.#enough.signal.aborted; round++) {
      const tasks = Array.from({ length: perRound }, (_, n) => ({
        key: `r${round}-${n}`,
        delay: Math.round(AHEAD_MS + (n * ROUND_MS) / perRound),
        payload: null,
      }))
      for (const { key, dueAt } of await this.topic.scheduleMany(tasks))
        this.accepted.set(key, dueAt.getTime())
      // Real time: the load has a fixed rate.
      await sleep(Math.max(0, startedMs + (round + 1) * ROUND_MS - performance.now()))
    }
  }

  /** Schedules nothing more, and waits until nothing is left to do. */
  async drain(withinMs: number): Promise<void> {
    this.#enough.abort()
    await this.#load
    await eventually(
      'nothing is left to do',
      async () => {
        const { pending, claimed } = await this.topic.counts()
        return pending === 0 && claimed === 0
      },
      withinMs,
    )
  }

  starts(): Entry[] {
    return eventsOf(this.programs, 'start')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#enough.abort()
    await this.#load.catch(() => {})
    await Promise.all(this.programs.map((program) => program.stop()))
  }
}

export const slotOf = (key: string): number => cellOf(key, 'key') % SLOTS

function isBalanced(owned: ReadonlyMap<string, readonly number[]>, names: readonly string[]): boolean {
  if ([...owned.keys()].toSorted().join() !== [...names].toSorted().join()) return false
  const all = [...owned.values()].flat()
  if (all.length !== SLOTS || new Set(all).size !== SLOTS) return false
  const counts = [...owned.values()].map(({ length }) => length)
  return Math.max(...counts) - Math.min(...counts) <= 1
}
