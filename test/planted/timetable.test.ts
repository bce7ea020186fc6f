/** Broken timetables in memory: each is seen by the case that the table names. */
import { describe, expect, it } from 'vitest'
import type { Timetable } from '../../src/timetable.ts'
import { openMemory } from '../contract/memory-harness.ts'
import { plantedBugs, wrap } from './timetable.ts'
import { runCase, timetableCases } from '../contract/timetable.ts'

/** Runs one case of the contract on an in-process timetable with `plant` around it. */
async function run(caseName: string, plant: (sound: Timetable) => Timetable): Promise<void> {
  const one = timetableCases.find(({ name }) => name === caseName)
  if (one === undefined) throw new Error(`the contract has no case '${caseName}'`)
  await runCase(one, async () => {
    const harness = await openMemory()
    return { ...harness, timetable: plant(harness.timetable) }
  })
}

describe('the contract sees', () => {
  it.each(timetableCases.map(({ name }) => name))('nothing where nothing is wrong: %s', (name) =>
    run(name, (sound) => wrap(sound, {})),
  )

  it.each(plantedBugs)('$name', async ({ plant, caughtBy }) => {
    await expect(run(caughtBy, plant)).rejects.toMatchObject({ name: 'AssertionError' })
  })
})

it('no two cases and no two bugs share a name', () => {
  for (const named of [timetableCases, plantedBugs]) {
    const names = named.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  }
})
