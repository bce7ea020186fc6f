/** That the property sees: each planted bug is found by the same commands, in as many sequences, and shrunk to a few. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ledgerCommands } from '../model/ledger-commands.ts'
import { openSqliteSource } from '../model/ledger-worlds.ts'
import { ledgerBugs } from './model-ledger.ts'
import { timetableBugs } from './model-timetable.ts'
import { newFigures, SEED, type SequenceOptions, sequenceProperty, TIMEOUT_MS } from '../model/sequences.ts'
import { timetableCommands } from '../model/timetable-commands.ts'
import { openMemorySource } from '../model/timetable-worlds.ts'
import type { Port } from '../model/world.ts'

const SEQUENCES = 1_000
const COMMANDS_MAX = 60
const SHRUNK_TO_MAX = 10

/** Answers how many commands of the shrunk sequence were carried out. */
async function commandsToSee<P extends Port>(options: SequenceOptions<P>): Promise<number> {
  const source = await options.open()
  const figures = newFigures()
  try {
    const found = await fc.check(sequenceProperty(options, source, figures), {
      seed: SEED,
      numRuns: options.sequences,
    })
    expect(found.failed, 'nothing was found').toBe(true)
    return figures.commandsOfFailure
  } finally {
    await source.close()
  }
}

const SIZE = { sequences: SEQUENCES, commandsMax: COMMANDS_MAX }

describe('on a timetable', () => {
  it.each(timetableBugs)(
    '$name',
    async ({ plant }) => {
      const options = { ...SIZE, commands: timetableCommands(), open: () => openMemorySource(plant) }
      expect(await commandsToSee(options)).toBeLessThanOrEqual(SHRUNK_TO_MAX)
    },
    TIMEOUT_MS,
  )
})

describe('in a ledger', () => {
  it.each(ledgerBugs)(
    '$name',
    async ({ plant }) => {
      const options = { ...SIZE, commands: ledgerCommands(), open: () => openSqliteSource(plant) }
      expect(await commandsToSee(options)).toBeLessThanOrEqual(SHRUNK_TO_MAX)
    },
    TIMEOUT_MS,
  )
})
