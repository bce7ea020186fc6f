/**
 * One oracle for the other: the in-process timetable, which is short and plain, and Redis's Lua get the same 25,000
 * random steps at the same moments of one virtual clock, and every answer must be the same. In `npm run test:long` there
 * are four seeds, 100,000 steps.
 *
 * Where they may differ, and what becomes of it here:
 *
 *   look    Redis's may be nearer than the truth, never later (timetable.ts says so): compared as that.
 *   find    comes in no order and may tell a key twice: compared as sets.
 *   ties    Leases that end at the same moment are rescued by the order of their requests in process, of their
 *           stamps on Redis; which of two goes first is not specified. No two leases of a cell end together here.
 *   keys    Of tasks with one score, JavaScript's order of keys is not that of their bytes above U+FFFF: no such keys.
 *   chance  Redis draws a number at each call that may rescue, the other only when it rescues: both get a constant.
 *   errors  Redis keeps an error on one line, and an empty one as none: there are no others here.
 *   graves  What died exactly 30 days ago to the millisecond goes on Redis and stays in process: it does not happen.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isLong } from '../generated.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { compareTimetables, type Tally } from './differential/world.ts'
import { luaBugs, readWith } from '../planted/lua.ts'

const SEEDS = isLong ? [1, 2, 3, 4] : [1]
const WORLDS = 25
const STEPS_EACH = 1_000
const TIMEOUT_MS = 300_000

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

describe('Redis and the in-process timetable', () => {
  const tally: Tally = new Map()

  it.each(SEEDS)(
    `answer the same to ${WORLDS * STEPS_EACH} random steps, seed %i`,
    (seed) => compareTimetables(server, { seed, worlds: WORLDS, steps: STEPS_EACH, tally }),
    TIMEOUT_MS,
  )

  it('and chance led everywhere', () => {
    const reached = [...tally.keys()]
    expect(EVERYWHERE.filter((word) => !reached.includes(word))).toEqual([])
  })
})

/** What answers have to have said at least once (world.ts, `wordsOf`). */
const EVERYWHERE = [
  ...['created', 'kept', 'kept in flight', 'replaced', 'replaced in flight'].map(
    (word) => `schedule ${word}`,
  ),
  ...['cancelled', 'in-flight', 'not-found'].map((word) => `cancel ${word}`),
  ...['rescheduled', 'in-flight', 'not-found'].map((word) => `reschedule ${word}`),
  ...['high', 'normal', 'low', 'failed', 'again', 'nothing'].map((word) => `claim ${word}`),
  ...['rescued', 'poisoned', 'suspect'].map((word) => `claim ${word}`),
  ...['true', 'false'].map((word) => `begin ${word}`),
  ...['extended', 'stale'].map((word) => `extend ${word}`),
  ...['settled', 'stale'].map((word) => `settle ${word}`),
  ...['replayed', 'live', 'superseded', 'not-found'].map((word) => `replay ${word}`),
  ...['purged', 'not-found'].map((word) => `purge ${word}`),
  ...['pending', 'claimed', 'dead', 'dead of poison'].flatMap((word) => [`get ${word}`, `list ${word}`]),
  'find',
  'look',
  'counts',
  'books',
  'forecast',
  'get',
]

/** Some of planted/lua.ts, of all kinds: counting, order, fencing, leases, what a look tells. */
const SEEN = [
  'a rescue returns a task that was settled',
  'a returned task goes to the end of its queue',
  'the failures of a cancelled task are inherited',
  'failures play no part in the order',
  'obsolete is counted as done',
  'an extension does not note when the first lease ends now',
]

describe('a difference is seen', () => {
  it.each(SEEN)(
    '%s',
    async (name) => {
      const bug = luaBugs.find((one) => one.name === name)
      if (bug === undefined) throw new Error(`no bug '${name}' in planted/lua.ts`)
      const options = { worlds: WORLDS, steps: STEPS_EACH, tally: new Map(), read: readWith(bug) }
      await expect(compareTimetables(server, { ...options, seed: 1 })).rejects.toThrow(
        /^seed 1, world \d+, step \d+: [\s\S]*in-process: [\s\S]*Redis: /,
      )
    },
    TIMEOUT_MS,
  )
})
