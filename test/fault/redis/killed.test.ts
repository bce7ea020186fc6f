import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { booksOf, imbalance } from './books.ts'
import { eventually } from '../helpers.ts'
import { type Entry, startProgram } from '../program.ts'

const TOPIC = 'restarted'
const KILLS = 3
const CALL_TIMEOUT_MS = 1_000
const ANSWERS_BETWEEN_KILLS = 300

let redis: RedisServer
beforeAll(async () => {
  // 'always': what Redis has answered it has written. By the default, a second's worth may be lost.
  redis = await startRedis({ config: { appendonly: 'yes', appendfsync: 'always' } })
})
afterAll(() => redis.stop())

test('a Redis killed under load, and started again', { timeout: 90_000 }, async () => {
  const open = { timetable: redis.url, callTimeout: `${CALL_TIMEOUT_MS}ms` }
  const common = { open, topic: TOPIC, config: { lease: '3s' } }
  await using consumer = await startProgram('consumer', common)
  await consumer.untilCount('ready', 1)
  await using load = await startProgram('load', { ...common, loops: 40, paceMs: 5 })

  for (let kill = 0; kill < KILLS; kill++) {
    await load.untilCount('answer', load.of('answer').length + ANSWERS_BETWEEN_KILLS)
    const failures = load.of('failure').length
    await redis.kill()
    // Every loop has met it, and met a Redis that is away.
    await load.untilCount('failure', failures + 80)
    await redis.start()
  }
  await load.untilCount('answer', load.of('answer').length + ANSWERS_BETWEEN_KILLS)
  load.signal('SIGUSR2')
  await load.untilCount('finished', 1)

  const made = load.entries()
  const { accepted, cancelled, unknown } = fates(made)
  await eventually('nothing is left to do', async () => {
    const { pending, claimed } = await booksOf(redis, TOPIC)
    return pending + claimed === 0
  })
  await Promise.all([consumer.close(), load.close()])

  const starts = consumer.of('start')
  expect(starts.filter(({ key, dueMs, nowMs }) => nowMs < (accepted.get(key) ?? dueMs))).toEqual([])
  const ended = new Set(consumer.of('end').map(({ key }) => key))
  const lost = [...accepted.keys()].filter(
    (key) => !ended.has(key) && !cancelled.has(key) && !unknown.has(key),
  )
  expect(lost).toEqual([])
  // 'cancelled' means never delivered, also when the Redis that said so was killed a moment later.
  expect(starts.filter(({ key }) => cancelled.has(key))).toEqual([])
  // What failed as retryable had not taken effect: the key was still free, and what was to be cancelled still there.
  const answers = made.filter(({ event }) => event === 'answer')
  expect(answers.filter(({ name, outcome }) => name === 'schedule' && outcome !== 'created')).toEqual([])
  const startedKeys = new Set(starts.map(({ key }) => key))
  const missed = answers.filter(({ name, outcome }) => name === 'cancel' && outcome === 'not-found')
  expect(missed.filter(({ key }) => !startedKeys.has(key))).toEqual([])

  const codes = new Set(made.filter(({ event }) => event === 'failure').map(({ code }) => code))
  expect([...codes].filter((code) => code !== 'timetable-unavailable' && code !== 'unknown-outcome')).toEqual(
    [],
  )
  expect(codes).toContain('timetable-unavailable')
  const slowest = Math.max(...made.map(({ ms }) => ms ?? 0))
  expect(slowest).toBeLessThan(3 * CALL_TIMEOUT_MS)
  expect([...load.of('unhandled'), ...consumer.of('unhandled')]).toEqual([])

  const books = await booksOf(redis, TOPIC)
  expect(imbalance(books)).toBe(0)
  expect(books).toMatchObject({ pending: 0, claimed: 0, dead: 0 })
})

/** The outcome of each key as reported to its producer: due at a time, cancelled, or unknown. */
function fates(entries: readonly Entry[]): {
  accepted: Map<string, number>
  cancelled: Set<string>
  unknown: Set<string>
} {
  const answers = entries.filter(({ event }) => event === 'answer')
  const failures = entries.filter(({ event }) => event === 'failure')
  const scheduled = answers.filter(({ name }) => name === 'schedule')
  const cancelled = answers.filter(({ name, outcome }) => name === 'cancel' && outcome === 'cancelled')
  const unknown = failures.filter(({ code }) => code === 'unknown-outcome')
  return {
    accepted: new Map(scheduled.map(({ key, dueMs }) => [key, dueMs])),
    cancelled: new Set(cancelled.map(({ key }) => key)),
    unknown: new Set(unknown.map(({ key }) => key)),
  }
}
