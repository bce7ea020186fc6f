import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { booksOf, imbalance } from './books.ts'
import { startProgram } from '../program.ts'

const TOPIC = 'flushed'
const FLUSHES = 60
const FLUSH_EVERY_MS = 50

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

test('scripts that Redis keeps forgetting are no error', { timeout: 60_000 }, async () => {
  const open = { timetable: redis.url }
  await using load = await startProgram('load', { open, topic: TOPIC, loops: 20, paceMs: 5, consume: true })
  await load.untilCount('answer', 100)
  for (let i = 0; i < FLUSHES; i++) {
    await redis.cli('SCRIPT', 'FLUSH')
    // Real time: the load runs between two flushes.
    await sleep(FLUSH_EVERY_MS)
  }
  load.signal('SIGUSR2')
  const answers = (await load.untilCount('finished', 1)).filter(({ event }) => event === 'answer')
  const cancelled = new Set(answers.filter(({ outcome }) => outcome === 'cancelled').map(({ key }) => key))
  const created = answers.filter(({ name }) => name === 'schedule').map(({ key }) => key)
  const expected = created.filter((key) => !cancelled.has(key)).toSorted()
  await load.untilCount('end', expected.length)
  await load.close()

  const starts = load.of('start')
  expect(starts.map(({ key }) => key).toSorted()).toEqual(expected)
  expect(starts.filter(({ dueMs, nowMs }) => nowMs < dueMs)).toEqual([])
  const troubles = load
    .entries()
    .filter(({ event, level }) =>
      event === 'log'
        ? level === 'warn' || level === 'error'
        : ['failure', 'error', 'unhandled'].includes(event),
    )
  expect(troubles).toEqual([])
  const books = await booksOf(redis, TOPIC)
  expect(imbalance(books)).toBe(0)
  expect(books).toMatchObject({ scheduled: created.length, done: expected.length, pending: 0, claimed: 0 })
  // It was not for nothing: scripts were found missing, and sent again.
  expect(await redis.cli('INFO', 'errorstats')).toMatch(/errorstat_NOSCRIPT:count=\d{2,}/)
})
