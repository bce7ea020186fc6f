import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { booksOf } from './books.ts'
import { type Entry, startProgram } from '../program.ts'

const TOPIC = 'frozen'
const LEASE_MS = 2_000
/** Longer than any delay before it is frozen, shorter than the frost: these handlers end the moment they wake. */
const WORK_MS = 5_000
/** Handlers that are told to end, some time after they woke; and handlers that end by themselves when they wake. */
const HELD = Array.from({ length: 10 }, (_, i) => `held-${i}`)
const TIMED = Array.from({ length: 10 }, (_, i) => `timed-${i}`)
const ALL = [...HELD, ...TIMED].toSorted()

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test('a consumer that slept through its leases changes nothing', { timeout: 60_000 }, async () => {
  const common = { open: { timetable: redis.url }, topic: TOPIC, config: { lease: `${LEASE_MS}ms` } }
  await using toc = await Tocsin.open({ timetable: redis.url, logger: false })
  const topic = toc.topic<null>(TOPIC, common.config)

  await using frozen = await startProgram('consumer', { ...common, workMs: WORK_MS, hold: 'held' })
  await frozen.untilCount('ready', 1)
  await topic.scheduleMany(ALL.map((key) => ({ key, delay: 0, payload: null })))
  await frozen.untilCount('start', ALL.length)
  frozen.signal('SIGSTOP')
  const frozenAtMs = performance.now()
  expect(frozen.of('end')).toEqual([])

  await using other = await startProgram('consumer', common)
  const handled = (await other.untilCount('end', ALL.length)).filter(({ event }) => event === 'start')
  expect(handled.map(({ key }) => key).toSorted()).toEqual(ALL)
  expect(handled.every(({ deliveries }) => deliveries === 2)).toBe(true)
  // Real time: the leases of the frozen process have to expire.
  await sleep(Math.max(0, frozenAtMs + 3 * LEASE_MS - performance.now()))

  // The keys live again: what the sleeper says about their former tasks must not end these.
  await topic.scheduleMany(ALL.map((key) => ({ key, delay: '1h', payload: null })))
  // All outcomes are recorded once the other has closed. No other process changes the books from here on.
  await other.close()
  const before = await booksOf(redis, TOPIC)
  expect(before).toMatchObject({
    scheduled: 2 * ALL.length,
    done: ALL.length,
    pending: ALL.length,
    claimed: 0,
  })

  frozen.signal('SIGCONT')
  await frozen.untilCount('end', TIMED.length)
  const aborts = (entries: readonly Entry[]) =>
    entries.filter(({ event, key }) => event === 'abort' && HELD.includes(key))
  const entries = await frozen.until('told', (seen) => aborts(seen).length === HELD.length)
  expect(aborts(entries).map(({ code }) => code)).toEqual(HELD.map(() => 'lease-lost'))
  frozen.signal('SIGUSR2')
  await frozen.untilCount('end', ALL.length)
  // Closing waits until every outcome was recorded, or found stale.
  await frozen.close()
  expect(frozen.of('closed').map(({ stale }) => stale)).toEqual([ALL.length])

  expect(await booksOf(redis, TOPIC)).toEqual(before)
  expect(frozen.of('start').length).toBe(ALL.length)
  for (const { deliveries, state } of (await topic.list()).tasks)
    expect({ deliveries, state }).toEqual({ deliveries: 0, state: 'pending' })
  expect(frozen.of('unhandled')).toEqual([])
})
