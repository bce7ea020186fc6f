import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { startProxy } from '../../real-servers/tcp-proxy.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { earlyAmong, quantile, startedAgain } from '../records.ts'
import { hintPrefix, hintsIn, liveRows } from './tables.ts'

const TOPIC = 'half-told'
const TASKS = 100
const DELAY_MS = 2_000
const LATE_MS_MAX = 5_000

let postgres: PostgresServer
let redis: RedisServer
beforeAll(async () => {
  postgres = await startPostgres()
  redis = await startRedis()
}, 60_000)
afterAll(async () => {
  await redis.stop()
  await postgres.stop()
})

test(
  'a producer killed between the ledger and the timetable: its tasks fire',
  { timeout: 60_000 },
  async () => {
    const url = await postgres.createDatabase()
    await using proxy = await startProxy(redis)
    const common = { topic: TOPIC, config: {} }
    const open = { timetable: redis.url, ledger: url }
    await using consumer = await startProgram('consumer', { ...common, open })
    await using producer = await startProgram('postgres/producer', {
      ...common,
      open: { ...open, timetable: proxy.url(redis.url) },
      name: 'p',
      count: TASKS,
      delayMs: DELAY_MS,
    })
    await Promise.all([consumer.untilCount('ready', 1), producer.untilCount('ready', 1)])
    // One round without a fault: all connections are open, and the clocks are known.
    producer.signal('SIGUSR2')
    await producer.untilCount('scheduled', TASKS)
    await consumer.untilCount('end', TASKS)

    proxy.stall()
    producer.signal('SIGUSR2')
    await eventually('committed', async () => (await liveRows(url, TOPIC)).size === TASKS)
    const rows = await liveRows(url, TOPIC)
    await producer.kill()
    const { waiting } = await hintsIn(redis, await hintPrefix(url), TOPIC)
    const told = [...rows.keys()].filter((key) => waiting.has(key))
    // What was on its way to Redis never gets there.
    await proxy.stop()
    expect(told).toEqual([])

    await consumer.until('all handled', (entries) => {
      const ended = new Set(entries.filter(({ event }) => event === 'end').map(({ key }) => key))
      return [...rows.keys()].every((key) => ended.has(key))
    })
    await consumer.close()
    const starts = consumer.of('start').filter(({ key }) => rows.has(key))
    const lateMs = starts.map(({ nowMs, key }) => nowMs - rows.get(key)!.ringMs)
    const figures = { p50: quantile(lateMs, 0.5), max: quantile(lateMs, 1) }
    console.log(`${TASKS} committed and not told to Redis:`, JSON.stringify(figures))
    expect(earlyAmong(starts, new Map([...rows].map(([key, { ringMs }]) => [key, ringMs])))).toEqual([])
    expect(startedAgain(consumer.of('start'))).toEqual([])
    expect(figures.max).toBeLessThan(LATE_MS_MAX)
  },
)
