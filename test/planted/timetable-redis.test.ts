/** The same broken timetables as in timetable.test.ts, around a Redis one: the contract sees there, too. */
import { afterAll, beforeAll, describe, it } from 'vitest'
import type { Timetable } from '../../src/timetable.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { plantedBugs, wrap } from './timetable.ts'
import { openOnVirtualClock } from '../contract/redis-harness.ts'
import { expectCaught } from './caught.ts'
import { runCase, timetableCases } from '../contract/timetable.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

/** Only the case that must be red: the whole contract for each bug would take minutes. */
async function run(caseName: string, plant: (sound: Timetable) => Timetable): Promise<void> {
  const one = timetableCases.find(({ name }) => name === caseName)
  if (one === undefined) throw new Error(`the contract has no case '${caseName}'`)
  await runCase(one, async () => {
    const harness = await openOnVirtualClock(server)
    return { ...harness, timetable: plant(harness.timetable) }
  })
}

describe('on Redis the contract sees', () => {
  it.each([...new Set(plantedBugs.map(({ caughtBy }) => caughtBy))])(
    'nothing where nothing is wrong: %s',
    (caughtBy) => run(caughtBy, (sound) => wrap(sound, {})),
  )

  it.each(plantedBugs)('$name', async ({ plant, caughtBy }) => {
    await expectCaught(() => run(caughtBy, plant))
  })
})
