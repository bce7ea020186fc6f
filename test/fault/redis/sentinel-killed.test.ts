/** Redis behind Sentinel: the primary is killed while programs schedule, cancel and consume. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type RedisSentinels, startSentinels } from '../../real-servers/redis-sentinel.ts'
import { eventually, scriptCalls } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { earlyAmong, endedKeys, fatesOf, lostOf, quantile } from '../records.ts'
import { booksOf, imbalance } from './books.ts'

const ANSWERS = 300

let all: RedisSentinels
beforeAll(async () => {
  all = await startSentinels()
})
afterAll(() => all.stop())
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.log(await all.logTails())
})

test('the primary is killed under load', { timeout: 60_000 }, async () => {
  const old = await all.primary()
  const common = {
    open: { timetable: all.url, callTimeout: '1s', waitReplicas: 1 },
    topic: 'load',
    config: { lease: '3s' },
  }
  await using consumer = await startProgram('consumer', common)
  await consumer.untilCount('ready', 1)
  await using load = await startProgram('load', { ...common, loops: 20, paceMs: 10 })
  await load.untilCount('answer', ANSWERS)
  const killedAtMs = Date.now()
  await old.kill()
  const answersSince = (sinceMs: number) => load.of('answer').filter(({ nowMs }) => nowMs >= sinceMs)
  await load.until('calls are answered again', () => answersSince(killedAtMs + 500).length > 20)

  // The old primary comes back, as a primary at first. Connections that are lost now do not go to it.
  const primary = await all.primary()
  expect(primary).not.toBe(old)
  await old.start()
  await primary.cli('CLIENT', 'KILL', 'TYPE', 'normal')
  const backAtMs = Date.now()
  await load.until('more answers', () => answersSince(backAtMs).length > ANSWERS)
  await eventually('it is a replica', async () => (await old.cli('ROLE')).startsWith('slave'))
  load.signal('SIGUSR2')
  await load.untilCount('finished', 1)
  await all.settled()
  await eventually('nothing is left to do', async () => {
    const { pending, claimed } = await booksOf(primary, 'load')
    return pending + claimed === 0
  })
  expect(imbalance(await booksOf(primary, 'load'))).toBe(0)
  await Promise.all([consumer.close(), load.close()])
  expect(await scriptCalls(old)).toBe(0)

  const fates = fatesOf(load)
  const starts = consumer.of('start')
  expect(lostOf(fates, endedKeys([consumer]))).toEqual([])
  expect(earlyAmong(starts, fates.accepted)).toEqual([])
  expect(starts.filter(({ key }) => fates.cancelled.has(key))).toEqual([])
  // What failed as retryable had no effect: the key was free.
  const answers = load.of('answer')
  expect(answers.filter(({ name, outcome }) => name === 'schedule' && outcome !== 'created')).toEqual([])
  const started = new Set(starts.map(({ key }) => key))
  const missed = answers.filter(({ name, outcome }) => name === 'cancel' && outcome === 'not-found')
  expect(missed.filter(({ key }) => !started.has(key))).toEqual([])
  const codes = new Set(load.of('failure').map(({ code }) => code))
  expect([...codes].filter((code) => code !== 'timetable-unavailable' && code !== 'unknown-outcome')).toEqual(
    [],
  )
  expect([...load.of('unhandled'), ...consumer.of('unhandled')]).toEqual([])

  const firstMs = answersSince(killedAtMs + 500)[0]!.nowMs - killedAtMs
  const lateness = starts.map(({ latenessMs }) => latenessMs)
  console.log(
    `killed: answers again after ${firstMs} ms; ${fates.accepted.size} accepted, ${fates.unknown.size} unknown;`,
    `lateness p50 ${quantile(lateness, 0.5)} ms, max ${Math.max(...lateness)} ms`,
  )
})
