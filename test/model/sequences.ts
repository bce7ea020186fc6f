/** The property: after any sequence of commands, a port has answered what the model says. */
import fc from 'fast-check'
import { inspect } from './looking.ts'
import { TaskModel } from './task-model.ts'
import { type Command, type Port, Run, type Tally, type World } from './world.ts'
import { generated } from '../generated.ts'

/** Worlds of one adapter, one for each sequence. */
export interface Source<P extends Port> {
  next(): Promise<World<P>>
  close(): Promise<void>
}

export interface SequenceOptions<P extends Port> {
  readonly commands: readonly fc.Arbitrary<Command<P>>[]
  readonly open: () => Promise<Source<P>>
  /** In all, dealt to the lanes. */
  readonly sequences: number
  readonly commandsMax: number
  /** Sequences that go on side by side, each lane with a seed and a clock of its own: a server is not waited for. */
  readonly lanes?: number
  readonly tally?: Tally
}

export interface Figures {
  sequences: number
  commands: number
  /** Of the last sequence that failed: the shrunk one, in the end. */
  commandsOfFailure: number
}

export function newFigures(): Figures {
  return { sequences: 0, commands: 0, commandsOfFailure: 0 }
}

/** What a client and a server remember of topics must not grow without end. */
const SEQUENCES_PER_SOURCE = 2_000

/** TOCSIN_SEED=<the seed of a failure> shows it again; any other number leads elsewhere. */
export const SEED = Number(process.env['TOCSIN_SEED'] ?? 20_260_101)
export const SEQUENCES = generated(1_000)
export const TIMEOUT_MS = 300 * SEQUENCES

/** Rejects with the shrunk sequence, its seed and its path in the message. */
export async function checkSequences<P extends Port>(options: SequenceOptions<P>): Promise<Figures> {
  const { lanes = 1, sequences } = options
  const figures = newFigures()
  const ends = await Promise.allSettled(
    Array.from({ length: lanes }, (_, lane) =>
      checkLane(options, SEED + lane, Math.ceil(sequences / lanes), figures),
    ),
  )
  for (const end of ends) if (end.status === 'rejected') throw end.reason
  return figures
}

async function checkLane<P extends Port>(
  options: SequenceOptions<P>,
  seed: number,
  numRuns: number,
  figures: Figures,
): Promise<void> {
  const source = new Renewed(options.open)
  try {
    await fc.assert(sequenceProperty(options, source, figures), { seed, numRuns })
  } finally {
    await source.close()
  }
}

export function sequenceProperty<P extends Port>(
  { commands, commandsMax, tally = new Map() }: SequenceOptions<P>,
  source: Pick<Source<P>, 'next'>,
  figures: Figures,
): fc.IAsyncPropertyWithHooks<[Iterable<Command<P>>]> {
  // 'max': as many as there may be, not only the ten or so that lists have by default.
  const sequenceArb = fc.commands([...commands], { maxCommands: commandsMax, size: 'max' })
  return fc.asyncProperty(sequenceArb, async (sequence) => {
    const world = await source.next()
    const model = new TaskModel(world.startMs)
    const run = new Run(world, tally)
    try {
      await fc.asyncModelRun(() => ({ model, real: run }), sequence)
      await inspect(model, run)
    } catch (error) {
      figures.commandsOfFailure = run.commands
      throw error
    }
    figures.sequences++
    figures.commands += run.commands
  })
}

class Renewed<P extends Port> implements Source<P> {
  readonly #open: () => Promise<Source<P>>
  #source: Source<P> | undefined
  #begun = 0

  constructor(open: () => Promise<Source<P>>) {
    this.#open = open
  }

  async next(): Promise<World<P>> {
    if (this.#begun++ % SEQUENCES_PER_SOURCE === 0) await this.close()
    this.#source ??= await this.#open()
    return this.#source.next()
  }

  async close(): Promise<void> {
    await this.#source?.close()
    this.#source = undefined
  }
}
