import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import {
  earlyAmong,
  endedKeys,
  eventsOf,
  fatesOf,
  inFlightAt,
  lostOf,
  quantile,
  startedAgain,
} from '../records.ts'
import { liveCount } from './tables.ts'

const AWAY_MS = isLong ? 30_000 : 8_000
/** What falls due in the last moment may be handled in the next one. */
const LAST_MOMENT_MS = isLong ? 0 : 1_500
const SHARE_MIN = 0.95
const CALL_TIMEOUT_MS = 1_000
/** For so long the load runs undisturbed before and after the outage. */
const CALM_MS = 2_000

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

const outages: Record<
  string,
  [begin: (redis: RedisServer) => unknown, end: (redis: RedisServer) => unknown]
> = {
  killed: [(redis) => redis.kill(), (redis) => redis.start()],
  frozen: [(redis) => redis.pause(), (redis) => redis.resume()],
}

test.each(Object.keys(outages))(
  `Redis ${'%s'} for ${AWAY_MS / 1_000} s: what falls due meanwhile is handled meanwhile`,
  { timeout: AWAY_MS + 90_000 },
  async (name) => {
    const [begin, end] = outages[name]!
    const url = await postgres.createDatabase()
    await using redis = await startRedis()
    const open = { timetable: redis.url, ledger: url, callTimeout: CALL_TIMEOUT_MS }
    const common = { open, topic: 'away', config: { lease: '10s' } }
    await using one = await startProgram('consumer', { ...common, workMs: 5 })
    await using other = await startProgram('consumer', { ...common, workMs: 5 })
    const consumers = [one, other]
    await Promise.all(consumers.map((consumer) => consumer.untilCount('ready', 1)))
    await using load = await startProgram('load', { ...common, loops: 20, paceMs: 40 })
    await load.untilCount('answer', 200)
    // Real time, here and below: how long each phase lasts is the point of the test.
    await sleep(CALM_MS)

    await begin(redis)
    const awayMs = Date.now()
    await sleep(AWAY_MS)
    const backMs = Date.now()
    await end(redis)
    await sleep(CALM_MS)
    load.signal('SIGUSR2')
    await load.untilCount('finished', 1)
    await eventually('nothing is left to do', async () => (await liveCount(url)) === 0)
    await Promise.all([...consumers, load].map((program) => program.close()))

    const fates = fatesOf(load)
    const starts = eventsOf(consumers, 'start')
    const ends = new Map(eventsOf(consumers, 'end').map(({ key, nowMs }) => [key, nowMs]))
    const isWanted = (key: string) =>
      !fates.cancelled.has(key) && !fates.cancelledInFlight.has(key) && !fates.unknown.has(key)
    const fellDue = [...fates.accepted].filter(
      ([key, dueMs]) => isWanted(key) && dueMs >= awayMs && dueMs < backMs - LAST_MOMENT_MS,
    )
    const inTime = fellDue.filter(([key]) => (ends.get(key) ?? Number.POSITIVE_INFINITY) < backMs)
    const meanwhile = load
      .entries()
      .filter(({ event, nowMs }) => event !== 'log' && nowMs >= awayMs && nowMs < backMs)
    const acceptedMeanwhile = meanwhile.filter((one) => one.event === 'answer' && one.name === 'schedule')
    const failedMeanwhile = meanwhile.filter(({ event }) => event === 'failure')
    const again = startedAgain(starts)
    const inFlight = [awayMs, backMs].flatMap((momentMs) => [...inFlightAt(consumers, momentMs)])
    const lateMs = fellDue.map(([key, dueMs]) => (ends.get(key) ?? backMs) - dueMs)
    const figures = {
      accepted: acceptedMeanwhile.length,
      failed: failedMeanwhile.length,
      slowestCallMs: Math.round(Math.max(...load.entries().map(({ ms }) => ms ?? 0))),
      due: fellDue.length,
      handled: inTime.length,
      lateP50: quantile(lateMs, 0.5),
      lateMax: quantile(lateMs, 1),
      again: again.length,
      inFlight: inFlight.length,
    }
    console.log(`Redis ${name} for ${AWAY_MS} ms:`, JSON.stringify(figures))

    expect(acceptedMeanwhile.length).toBeGreaterThan(AWAY_MS / 50)
    expect(failedMeanwhile).toEqual([])
    expect(inTime.length / fellDue.length).toBeGreaterThanOrEqual(SHARE_MIN)
    expect(lostOf(fates, endedKeys(consumers))).toEqual([])
    expect(earlyAmong(starts, fates.accepted)).toEqual([])
    expect(starts.filter(({ key }) => fates.cancelled.has(key))).toEqual([])
    expect(again.length).toBeLessThanOrEqual(inFlight.length)
    expect(eventsOf([...consumers, load], 'unhandled')).toEqual([])
  },
)
