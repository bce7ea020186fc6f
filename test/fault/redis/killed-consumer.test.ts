import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { booksOf, imbalance } from './books.ts'
import { eventually } from '../helpers.ts'
import { type Entry, type Program, startProgram } from '../program.ts'

const TASKS = 20_000
const TOPIC = 'killed'
/** Some handlers of the one that will be killed hang, so that it surely dies with tasks in hand. */
const HANG_EVERY = 20
/** Few enough that the other one cannot be quicker with all the rest. */
const STARTS_BEFORE_KILL = 500

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test('a consumer killed in mid-burst loses nothing', { timeout: 60_000 }, async () => {
  const common = { open: { timetable: redis.url }, topic: TOPIC, config: { lease: '2s' } }
  await using victim = await startProgram('consumer', { ...common, workMs: 1, hangEvery: HANG_EVERY })
  await using survivor = await startProgram('consumer', { ...common, workMs: 1 })
  await Promise.all([victim.untilCount('ready', 1), survivor.untilCount('ready', 1)])
  await using producer = await startProgram('producer', { ...common, count: TASKS, fromMs: 500, toMs: 2_000 })

  await victim.untilCount('start', STARTS_BEFORE_KILL)
  await victim.kill()
  const scheduled = (await producer.untilCount('closed', 1)).filter(({ event }) => event === 'scheduled')
  const dueOf = new Map(scheduled.map(({ key, dueMs }) => [key, dueMs]))
  expect(dueOf.size).toBe(TASKS)

  // Including tasks that the victim had handled without recording the outcome: those are handled again.
  await eventually('all settled', async () => (await booksOf(redis, TOPIC)).done === TASKS)
  await survivor.close()
  const byVictim = starts(victim)
  const bySurvivor = starts(survivor)

  const handled = new Set([...byVictim.ended, ...bySurvivor.ended].map(({ key }) => key))
  expect(handled.size).toBe(TASKS)
  const early = [...byVictim.started, ...bySurvivor.started].filter(
    ({ key, nowMs }) => nowMs < (dueOf.get(key) ?? Number.POSITIVE_INFINITY),
  )
  expect(early).toEqual([])

  const keysOfVictim = new Set(byVictim.started.map(({ key }) => key))
  const keysOfSurvivor = bySurvivor.started.map(({ key }) => key)
  // Neither saw a task twice: whatever was delivered again, it is because the victim had it.
  expect(keysOfVictim.size).toBe(byVictim.started.length)
  expect(new Set(keysOfSurvivor).size).toBe(keysOfSurvivor.length)
  const twice = bySurvivor.started.filter(({ key }) => keysOfVictim.has(key))
  expect(twice.every(({ deliveries }) => deliveries === 2)).toBe(true)
  const handed = new Set(twice.map(({ key }) => key))
  expect(byVictim.hung.filter((key) => !handed.has(key))).toEqual([])
  expect(byVictim.hung.length).toBeGreaterThanOrEqual(STARTS_BEFORE_KILL / HANG_EVERY)

  const books = await booksOf(redis, TOPIC)
  expect(imbalance(books)).toBe(0)
  expect(books).toMatchObject({ scheduled: TASKS, done: TASKS, pending: 0, claimed: 0, dead: 0 })
  expect([...victim.of('unhandled'), ...survivor.of('unhandled')]).toEqual([])
})

function starts(program: Program): { started: Entry[]; ended: Entry[]; hung: string[] } {
  const started = program.of('start')
  const ended = program.of('end')
  const endedKeys = new Set(ended.map(({ key }) => key))
  return { started, ended, hung: started.map(({ key }) => key).filter((key) => !endedKeys.has(key)) }
}
