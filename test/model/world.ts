/** The port that a sequence of commands runs against, and what the commands of both ports share. */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import type { Ledger } from '../../src/ledger.ts'
import type { Place, Timetable } from '../../src/timetable.ts'
import type { Task, TaskModel } from './task-model.ts'

export type Port = Timetable | Ledger

/** The request id of a claim that does not exist. */
export const NO_REQUEST = 'no such request'

/** How often each answer occurred: shows whether the sequences reached every answer. */
export type Tally = Map<string, number>

/** Returns the expected answers that never occurred: { cancel: ['in-flight'] } */
export function missing(tally: Tally, wanted: Record<string, readonly string[]>): string[] {
  const words = Object.entries(wanted).flatMap(([of, answers]) => answers.map((answer) => `${of} ${answer}`))
  return words.filter((word) => !tally.has(word))
}

/** The world of one sequence: an empty topic. */
export interface World<P extends Port> {
  readonly port: P
  readonly topic: string
  readonly startMs: number
  /** Cancels and reschedules of a timetable rescue first; a ledger looks at each task by itself. */
  readonly rescues: boolean
  /** Counting takes a call to each of 64 cells: done by a command, not at the end of every sequence. */
  readonly isDearToCount?: boolean
  readonly pass: (ms: number) => Promise<void>
  /** Sets the wall clock alone. Undefined if there is only one clock. */
  readonly stepWall?: ((ms: number) => void) | undefined
}

/** A world, and the commands that ran against it so far. */
export class Run<P extends Port> {
  readonly port: P
  readonly topic: string
  readonly world: World<P>
  readonly tally: Tally
  /** The claims that took each key, the latest one last. */
  readonly #claims = new Map<string, { stamp: number; req: string }[]>()
  readonly #owners = new Map<string, Task>()
  /** Number of commands that ran. */
  commands = 0
  /** By cell: claims that returned a task. */
  readonly lastStamps = new Map<number, number>()
  #made = 0

  constructor(world: World<P>, tally: Tally) {
    this.port = world.port
    this.topic = world.topic
    this.world = world
    this.tally = tally
  }

  note(word: string): void {
    this.tally.set(word, (this.tally.get(word) ?? 0) + 1)
  }

  /** A number that this sequence has not used yet. */
  next(): number {
    return ++this.#made
  }

  /** Records an id from an answer. Returns false if the task had another id, or another task has this one. */
  isItsId(task: Task, id: string): boolean {
    const isLegal = (task.id ?? id) === id && (this.#owners.get(id) ?? task) === task
    this.#owners.set(id, task)
    task.id = id
    return isLegal
  }

  claimed(key: string, stamp: number, req: string): void {
    this.#claims.set(key, [...(this.#claims.get(key) ?? []), { stamp, req }])
  }

  /** Returns the last or last but one claim of a key. For a key that was never claimed: a claim that does not exist. */
  claimOf(key: string, which: Which): { stamp: number; req: string } {
    return this.#claims.get(key)?.at(which === 'last' ? -1 : -2) ?? { stamp: 999_999, req: NO_REQUEST }
  }
}

/** The key of a command: the given one, or the next one for which the command does something. */
export interface About {
  readonly place: Place
  readonly wish: 'any' | 'held' | 'dead' | 'lost'
}

export const aboutArb = (wish: About['wish']): fc.Arbitrary<About> =>
  fc.record({ place: placeArb, wish: fc.constantFrom(wish, wish, wish, 'any') })

const WISHES: Record<About['wish'], (model: TaskModel, key: string) => boolean> = {
  any: () => true,
  held: (model, key) => Boolean(model.live.get(key)?.hold),
  dead: (model, key) => model.graves.has(key),
  lost: (model, key) => Boolean(model.live.get(key)?.lost),
}

/** Returns the key itself if no key matches. */
export function placeOf(model: TaskModel, { place, wish }: About): Place {
  const at = PLACES.indexOf(place)
  const inTurn = [...PLACES.slice(at), ...PLACES.slice(0, at)]
  return inTurn.find(({ key }) => WISHES[wish](model, key)) ?? place
}

export type Which = 'last' | 'former'
export type Command<P extends Port> = fc.AsyncCommand<TaskModel, Run<P>>

/** Few keys, so that steps meet; a cell with several, and one beside it. */
export const PLACES: readonly Place[] = [
  { key: 'a', cell: 5 },
  { key: 'b', cell: 5 },
  { key: 'c', cell: 5 },
  { key: 'd', cell: 40 },
]
export const CELLS = [5, 40]
export const TAGS = ['t', 'u']

export const placeArb = fc.constantFrom(...PLACES)
export const whichArb: fc.Arbitrary<Which> = fc.constantFrom('last', 'last', 'last', 'former')
export const leaseArb: fc.Arbitrary<number> = fc.constantFrom(100, 1_000, 60_000)

/** A kind of command: what it is called with by chance, and what it does to the model and to the port. */
export function command<P extends Port, A>(
  name: string,
  args: fc.Arbitrary<A>,
  run: (model: TaskModel, run: Run<P>, args: A) => Promise<void>,
  /** Before that the command would do nothing. */
  isOfUse: (model: Readonly<TaskModel>) => boolean = () => true,
): fc.Arbitrary<Command<P>> {
  return args.map((given) => ({
    check: (model) => isOfUse(model),
    async run(model, real) {
      real.commands++
      await run(model, real, given)
    },
    toString: () => `${name}(${fc.stringify(given)})`,
  }))
}

export const onceScheduled = ({ ends }: Readonly<TaskModel>): boolean => ends.scheduled > 0
export const whileHeld = ({ live }: Readonly<TaskModel>): boolean =>
  [...live.values()].some(({ hold }) => hold !== null)
export const onceClaimed = ({ live, graves, past }: Readonly<TaskModel>): boolean =>
  [...live.values(), ...graves.values(), ...past].some(({ deliveries }) => deliveries > 0)
export const onceDead = ({ graves, ends }: Readonly<TaskModel>): boolean => graves.size > 0 || ends.purged > 0

/** Throws where port and model differ. */
export function same(what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Error(`${what}: answered ${fc.stringify(actual)}, the model says ${fc.stringify(expected)}`)
}

export function legal(what: string, isLegal: boolean, actual: unknown): void {
  if (!isLegal) throw new Error(`${what}: ${fc.stringify(actual)} is not what the model allows`)
}
