import { describe, expect, it } from 'vitest'
import type { Timetable } from '../../src/timetable.ts'
import { openMemory } from '../contract/memory-harness.ts'
import { plantedBugs, wrap } from './timetable.ts'
import { runCase, timetableCases } from '../contract/timetable.ts'

interface RedCase {
  readonly name: string
  readonly error: unknown
}

/** The cases that are red on an in-process timetable with `plant` around it. */
async function redCases(plant: (sound: Timetable) => Timetable): Promise<RedCase[]> {
  const red: RedCase[] = []
  for (const one of timetableCases) {
    const open = async () => {
      const harness = await openMemory()
      return { ...harness, timetable: plant(harness.timetable) }
    }
    try {
      await runCase(one, open)
    } catch (error) {
      red.push({ name: one.name, error })
    }
  }
  return red
}

function isAssertion(error: unknown): boolean {
  return error instanceof Error && error.name === 'AssertionError'
}

describe('the contract sees', () => {
  it('nothing where nothing is wrong', async () => {
    expect(await redCases((sound) => wrap(sound, {}))).toEqual([])
  })

  it.each(plantedBugs)('$name', async ({ plant, caughtBy }) => {
    expect(timetableCases.map(({ name }) => name)).toContain(caughtBy)
    const red = await redCases(plant)
    const asserted = red.filter(({ error }) => isAssertion(error))
    expect(asserted.map(({ name }) => name)).toContain(caughtBy)
  })
})

it('no two cases and no two bugs share a name', () => {
  for (const named of [timetableCases, plantedBugs]) {
    const names = named.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  }
})
