/** Broken scripts on a real Redis, on a virtual clock: each is seen by the case that the table names. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { expectCaught } from './caught.ts'
import { luaBugs, readWith } from './lua.ts'
import { openOnVirtualClock } from '../contract/redis-harness.ts'
import { runCase, timetableCases } from '../contract/timetable.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

describe('the contract sees inside the Lua', () => {
  it.each(luaBugs)('$name', async ({ caughtBy, shape = 'record', ...bug }) => {
    const one = timetableCases.find(({ name }) => name === caughtBy)
    if (one === undefined) throw new Error(`the contract has no case '${caughtBy}'`)
    const read = readWith(bug)
    // Throws by itself where the words to change are no longer there.
    read(bug.file)
    await expectCaught(() => runCase(one, () => openOnVirtualClock(server, { read, shape })))
  })

  it('no two bugs share a name', () => {
    const names = luaBugs.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  })
})
