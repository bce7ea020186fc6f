import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { earlyAmong, endedKeys, eventsOf, quantile, startedAgain } from '../records.ts'
import { differences, hintPrefix, hintsIn, liveCount, liveRows, shown } from './tables.ts'

const TOPIC = 'flushed'
const PENDING = isLong ? 50_000 : 20_000
const HELD = 1_000
/** These stay as they were scheduled: they fire by the hints that were put back. */
const NEAR = 1_000
const NEAR_IN_MS = 8_000
/** The others wait until the tables were compared, however long that takes, and are moved then. */
const FAR_MS = 600_000
const SPREAD_MS = 5_000
const RECOVERED_WITHIN_MS = 60_000
const ALL_HANDLED_WITHIN_MS = 120_000
const ALL = PENDING + NEAR + HELD

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
  `FLUSHALL with ${PENDING} pending and ${HELD} in flight: the timetable is what it was, and all fire`,
  { timeout: 300_000 },
  async () => {
    const url = await postgres.createDatabase()
    const open = { timetable: redis.url, ledger: url }
    const common = { open, topic: TOPIC, config: { lease: '6s' }, concurrency: HELD, hold: 'held-' }
    await using one = await startProgram('consumer', common)
    await using other = await startProgram('consumer', common)
    const consumers = [one, other]
    await Promise.all(consumers.map((consumer) => consumer.untilCount('ready', 1)))
    await using toc = await Tocsin.open({ ...open, logger: false })
    const topic = toc.topic<null>(TOPIC, { lease: '6s' })

    const startMs = Date.now()
    const far = Array.from({ length: PENDING }, (_, i) => ({
      key: `far-${i}`,
      at: startMs + FAR_MS + Math.floor((SPREAD_MS * i) / PENDING),
      payload: null,
      tags: ['far'],
    }))
    const near = Array.from({ length: NEAR }, (_, i) => ({
      key: `near-${i}`,
      at: startMs + NEAR_IN_MS,
      payload: null,
    }))
    const held = Array.from({ length: HELD }, (_, i) => ({ key: `held-${i}`, delay: 0, payload: null }))
    const scheduled = await topic.scheduleMany([...far, ...near, ...held])
    const scheduledMs = Date.now() - startMs
    const accepted = new Map(scheduled.map(({ key, dueAt }) => [key, dueAt.getTime()]))
    expect(accepted.size).toBe(ALL)
    const heldStarts = () => eventsOf(consumers, 'start').filter(({ key }) => key.startsWith('held-'))
    await eventually('all are in flight that will be', () => heldStarts().length === HELD)

    const prefix = await hintPrefix(url)
    const compare = async () => {
      const isSteady = (key: string) => !key.startsWith('near-')
      const rows = new Map([...(await liveRows(url, TOPIC))].filter(([key]) => isSteady(key)))
      const hints = await hintsIn(redis, prefix, TOPIC)
      const waiting = new Map([...hints.waiting].filter(([key]) => isSteady(key)))
      const steadyHeld = new Set([...hints.held].filter(isSteady))
      return { rows, found: differences(rows, { waiting, held: steadyHeld }) }
    }
    // Hints are put after the commit, and nothing waits for them.
    await eventually('the timetable has all hints', async () => (await compare()).found.length === 0)
    const before = await compare()
    expect(shown(before.found)).toBe(shown([]))
    await redis.cli('FLUSHALL')
    const flushedMs = Date.now()
    let after = await compare()
    while (after.found.length > 0 && Date.now() < flushedMs + RECOVERED_WITHIN_MS) after = await compare()
    const recoveredMs = Date.now() - flushedMs
    expect(shown(after.found)).toBe(shown([]))
    expect(after.rows.size).toBe(PENDING + HELD)

    for (const consumer of consumers) consumer.signal('SIGUSR2')
    expect(await topic.rescheduleBy({ tag: 'far' }, { shift: '-10m' })).toMatchObject({
      rescheduled: PENDING,
    })
    for (const { key, at } of far) accepted.set(key, at - FAR_MS)
    await eventually('all handled', () => endedKeys(consumers).size === ALL, ALL_HANDLED_WITHIN_MS)
    await eventually('all settled', async () => (await liveCount(url)) === 0)
    await Promise.all(consumers.map((consumer) => consumer.close()))

    const starts = eventsOf(consumers, 'start')
    const again = startedAgain(starts)
    const lateMs = starts.filter(({ key }) => key.startsWith('near-')).map(({ latenessMs }) => latenessMs)
    const figures = {
      scheduledMs,
      recoveredMs,
      again: again.length,
      p50: quantile(lateMs, 0.5),
      p99: quantile(lateMs, 0.99),
    }
    console.log(`FLUSHALL, ${PENDING} pending and ${HELD} in flight:`, JSON.stringify(figures))
    expect(earlyAmong(starts, accepted)).toEqual([])
    // Their claims are in the ledger, which was not flushed.
    expect(again).toEqual([])
    expect([...eventsOf(consumers, 'abort'), ...eventsOf(consumers, 'unhandled')]).toEqual([])
    expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true, missing: 0, orphaned: 0 }])
  },
)
