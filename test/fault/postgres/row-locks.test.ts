import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { cellOf } from '../../../src/values/cell.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { startRedis } from '../../real-servers/redis-server.ts'
import { eventually, timed } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { endedKeys, quantile, startedAgain } from '../records.ts'
import { liveRows } from './tables.ts'
import { COMPOSITIONS } from './under-load.ts'

const TOPIC = 'locked'
const HELD_UP_MS_MAX = 2_000
const DUE_IN_MS = 2_000
const LOCKED_MS = isLong ? 60_000 : 6_000
/** A task that is in flight when its row is locked: its outcome has to wait, those of others have not. */
const HELD_NAME = 'held'
/** Of the same cell as what is locked, and so in the same batches. */
const NEIGHBOURS = 60
const OTHERS = 200

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

const LOCKED = ['locked-0', 'locked-1']
const cell = cellOf(LOCKED[0]!, 'key')
const neighbours = (name: string): string[] =>
  Array.from({ length: 64 * NEIGHBOURS * 3 }, (_, i) => `${name}-${i}`)
    .filter((key) => cellOf(key, 'key') === cell)
    .slice(0, NEIGHBOURS)

const HELD = neighbours(HELD_NAME)[0]!

test.each(COMPOSITIONS)(
  "%s: a caller's transaction that holds rows locked delays no other task",
  { timeout: 60_000 + 2 * LOCKED_MS },
  async (composition) => {
    const url = await postgres.createDatabase()
    await using redis = composition === 'PostgreSQL alone' ? null : await startRedis()
    const open = { ledger: url, ...(redis === null ? {} : { timetable: redis.url }) }
    await using consumer = await startProgram('consumer', { open, topic: TOPIC, hold: HELD })
    await consumer.untilCount('ready', 1)
    await using toc = await Tocsin.open({ ...open, logger: false })
    const topic = toc.topic<null>(TOPIC)
    await topic.schedule({ key: HELD, delay: 0, payload: null })
    await consumer.untilCount('start', 1)
    const others = Array.from({ length: OTHERS }, (_, i) => `other-${i}`)
    const dueMs = Date.now() + DUE_IN_MS
    const near = [...neighbours('near'), ...others, ...LOCKED]
    await topic.scheduleMany(near.map((key) => ({ key, at: dueMs, payload: null })))

    const scheduling = (keys: readonly string[]) =>
      keys.map((key) => timed(() => topic.schedule({ key, delay: 500, payload: null })))
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    let releasedMs: number
    let calls: Awaited<ReturnType<typeof timed>>[]
    let unsettled: string[]
    try {
      await client.query('BEGIN')
      await client.query('SELECT FROM tocsin.live WHERE key = ANY($1) FOR UPDATE', [[...LOCKED, HELD]])
      const lockedMs = Date.now()
      consumer.signal('SIGUSR2')
      // In one turn, and so in one batch with a write to what is locked; whatever becomes of that. Then more of them.
      const first = neighbours('first')
      const calling: Promise<Awaited<ReturnType<typeof timed>>>[] = scheduling(first.slice(0, 30))
      const replacing = timed(() => topic.schedule({ key: LOCKED[0]!, at: dueMs, payload: null }))
      calling.push(...scheduling(first.slice(30)))
      // Real time: long enough for the first batch to reach the locked row.
      await sleep(400)
      calling.push(...scheduling(neighbours('second')))
      const gone = neighbours('first').slice(0, 10)
      calling.push(...gone.map((key) => timed(() => topic.cancel(key))))
      calls = await Promise.all(calling)
      // Real time: how long the rows are locked is the point of the test.
      await sleep(Math.max(0, lockedMs + LOCKED_MS - Date.now()))
      unsettled = [...(await liveRows(url, TOPIC)).keys()].filter(
        (key) => key !== HELD && !LOCKED.includes(key),
      )
      releasedMs = Date.now()
      await client.query('ROLLBACK')
      await replacing
    } finally {
      await client.end()
    }
    const wanted = [...near, HELD, ...neighbours('first').slice(10), ...neighbours('second')]
    await consumer.until('all handled', () => {
      const ended = endedKeys([consumer])
      return wanted.every((key) => ended.has(key))
    })
    await eventually('all settled', async () => (await liveRows(url, TOPIC)).size === 0)
    await consumer.close()

    const starts = consumer.of('start').filter(({ key }) => key !== HELD)
    const ofLocked = starts.filter(({ key }) => LOCKED.includes(key))
    const lateMs = starts.filter(({ key }) => !LOCKED.includes(key)).map(({ latenessMs }) => latenessMs)
    const figures = {
      slowestCallMs: Math.round(Math.max(...calls.map(({ ms }) => ms))),
      lateP50: quantile(lateMs, 0.5),
      lateMax: quantile(lateMs, 1),
      unsettled: unsettled.length,
      afterReleaseMs: ofLocked.map(({ nowMs }) => nowMs - releasedMs),
    }
    console.log(`rows locked for ${LOCKED_MS} ms, ${composition}:`, JSON.stringify(figures))
    expect(calls.map(({ error }) => error).filter((error) => error !== undefined)).toEqual([])
    expect(figures.slowestCallMs).toBeLessThan(HELD_UP_MS_MAX)
    expect(figures.lateMax).toBeLessThan(HELD_UP_MS_MAX)
    // They were due long before: what was done is also written down.
    expect(unsettled).toEqual([])
    expect(figures.afterReleaseMs.every((ms) => ms >= 0)).toBe(true)
    expect(new Set(ofLocked.map(({ key }) => key)).size).toBe(LOCKED.length)
    // The one that was replaced may have been handled just before that: then there were two.
    expect(startedAgain(starts).filter((key) => key !== LOCKED[0])).toEqual([])
    // Locked for longer than its lease, it could not be kept, and may have come again.
    if (!isLong) expect(consumer.of('end').filter(({ key }) => key === HELD).length).toBe(1)
  },
)
