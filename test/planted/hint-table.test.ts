/** Broken hint tables on a real Redis: each is seen by the case that the table names. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { HintTable } from '../../src/hint-table.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { expectCaught } from './caught.ts'
import { hintBugs } from './hint-table.ts'
import { wrap } from '../contract/hint-table/helpers.ts'
import { onRedis } from '../contract/hint-table/on-redis.ts'
import { openRedisHintTable } from '../contract/hint-table/redis-harness.ts'
import { hintCases, runHintCase } from '../contract/hint-table.ts'
import { readWith } from './lua.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis({ config: { appendonly: 'yes' } })
})
afterAll(() => server.stop())

const cases = [...hintCases, ...onRedis]

function caseOf(caughtBy: string): (typeof onRedis)[number] {
  const one = cases.find(({ name }) => name === caughtBy)
  if (one === undefined) throw new Error(`the contract has no case '${caughtBy}'`)
  return one
}

describe('the contract of a hint table sees inside the Lua', () => {
  it.each(hintBugs)('$name', async ({ caughtBy, ...bug }) => {
    const read = readWith(bug)
    // Throws by itself where the words to change are no longer there.
    read(bug.file)
    await expectCaught(() => runHintCase(caseOf(caughtBy), () => openRedisHintTable(server, { read })))
  })
})

/** What goes wrong on this side of the wire. */
const plantedBugs: { name: string; caughtBy: string; plant: (sound: HintTable) => Partial<HintTable> }[] = [
  {
    name: 'set is taken for lower',
    caughtBy: 'put: set, where one waits that rings earlier: takes its place',
    plant: (sound) => ({ put: (topic, hints) => sound.put(topic, hints, 'lower') }),
  },
  {
    name: 'each hint goes its own way, and the last one may be the first',
    caughtBy: 'put: of a key that comes twice in one call, the last one counts',
    plant: (sound) => ({
      async put(topic, hints, mode) {
        const counts = hints.toReversed().map((one) => sound.put(topic, [one], mode))
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
      },
    }),
  },
  {
    name: 'a drop waits for a turn of the event loop, and comes after later calls',
    caughtBy: 'put: calls for one key keep their order, also when nobody waits for the one before',
    plant: (sound) => ({
      async drop(topic, places) {
        await new Promise((resolve) => setImmediate(resolve))
        await sound.drop(topic, places)
      },
    }),
  },
  {
    name: 'failures play no part',
    caughtBy: 'put: at one time, what failed less often goes first',
    plant: (sound) => ({
      put: (topic, hints, mode) =>
        sound.put(
          topic,
          hints.map((one) => ({ ...one, failures: 0 })),
          mode,
        ),
    }),
  },
  {
    name: 'has tells of the first only',
    caughtBy: 'put: thousands in one call, of all cells',
    plant: (sound) => ({
      has: async (topic, places) => places.map(await firstOf(sound.has(topic, places))),
    }),
  },
]

async function firstOf(answers: Promise<boolean[]>): Promise<() => boolean> {
  const [first = false] = await answers
  return () => first
}

describe('and on this side of the wire', () => {
  it.each(plantedBugs)('$name', async ({ caughtBy, plant }) => {
    const open = async () => {
      const harness = await openRedisHintTable(server)
      return { ...harness, table: wrap(harness.table, plant(harness.table)) }
    }
    await expectCaught(() => runHintCase(caseOf(caughtBy), open))
  })
})

it('no two cases and no two bugs share a name', () => {
  for (const named of [cases, [...hintBugs, ...plantedBugs]]) {
    const names = named.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  }
})
