/** Programs that schedule, cancel and consume on a PostgreSQL, alone or with a Redis, while something happens to it. */
import { Tocsin } from 'tocsin'
import { expect } from 'vitest'
import type { PostgresServer } from '../../real-servers/postgres-server.ts'
import { startRedis } from '../../real-servers/redis-server.ts'
import { eventually } from '../helpers.ts'
import { type Entry, type Program, startProgram } from '../program.ts'
import { earlyAmong, endedKeys, eventsOf, fatesOf, lostOf, startedAgain } from '../records.ts'
import { liveCount } from './tables.ts'

const TOPIC = 'loaded'
const ANSWERS_BEFORE = 300
const ANSWERS_AFTER = 300
const RECOVERED_WITHIN_MS = 20_000
/** What was claimed before is started in this time. */
const CLAIMED_BEFORE_MS = 500
const CODES = ['ledger-unavailable', 'unknown-outcome']

export const COMPOSITIONS = ['PostgreSQL alone', 'PostgreSQL with Redis'] as const

export interface Loaded {
  readonly load: Program
  readonly consumers: readonly Program[]
  readonly url: string
  readonly callTimeoutMs: number
}

/** A time in which nothing can be decided, because the ledger does not answer. */
export interface Away {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * Lets `fault` happen under load, and expects what must hold after any of them. Prints the figures. The programs find
 * the database where `through` says.
 */
export async function underLoad(
  name: string,
  postgres: PostgresServer,
  composition: (typeof COMPOSITIONS)[number],
  callTimeoutMs: number,
  fault: (loaded: Loaded) => Promise<Away[]>,
  through: (url: string) => string = (url) => url,
): Promise<Loaded> {
  const url = await postgres.createDatabase()
  await using redis = composition === 'PostgreSQL alone' ? null : await startRedis()
  const open = {
    ledger: through(url),
    callTimeout: callTimeoutMs,
    ...(redis === null ? {} : { timetable: redis.url }),
  }
  const common = { open, topic: TOPIC, config: { lease: '5s' } }
  await using one = await startProgram('consumer', common)
  await using other = await startProgram('consumer', common)
  const consumers = [one, other]
  await Promise.all(consumers.map((consumer) => consumer.untilCount('ready', 1)))
  await using load = await startProgram('load', { ...common, loops: 30, paceMs: 10 })
  const loaded = { load, consumers, url, callTimeoutMs }
  await load.untilCount('answer', ANSWERS_BEFORE)

  const aways = await fault(loaded)
  const backMs = Date.now()
  const endsBefore = eventsOf(consumers, 'end').length
  await load.untilCount('answer', load.of('answer').length + ANSWERS_AFTER, RECOVERED_WITHIN_MS)
  await eventually(
    'handling again',
    () => eventsOf(consumers, 'end').length > endsBefore,
    RECOVERED_WITHIN_MS,
  )
  load.signal('SIGUSR2')
  await load.untilCount('finished', 1)
  await eventually('nothing is left to do', async () => (await liveCount(url)) === 0, RECOVERED_WITHIN_MS)
  await Promise.all([...consumers, load].map((program) => program.close()))

  const fates = fatesOf(load)
  const starts = eventsOf(consumers, 'start')
  const calls = load.entries().filter(({ event }) => event === 'answer' || event === 'failure')
  const answers = load.of('answer')
  const failures = load.of('failure')
  const slowestMs = Math.round(Math.max(...calls.map(({ ms }) => ms)))
  const firstAfterMs = (entries: readonly Entry[]) =>
    Math.min(...entries.filter(({ nowMs }) => nowMs >= backMs).map(({ nowMs }) => nowMs - backMs))
  const lost = lostOf(fates, endedKeys(consumers))
  const figures = {
    accepted: fates.accepted.size,
    cancelled: fates.cancelled.size,
    unknown: fates.unknown.size,
    failures: failures.length,
    slowestMs,
    again: startedAgain(starts).length,
    lost: lost.length,
    acceptsAfterMs: firstAfterMs(answers),
    startsAfterMs: firstAfterMs(starts),
  }
  console.log(`${name}, ${composition}:`, JSON.stringify(figures))

  expect(lost).toEqual([])
  expect(earlyAmong(starts, fates.accepted)).toEqual([])
  // 'cancelled' means never delivered.
  expect(starts.filter(({ key }) => fates.cancelled.has(key))).toEqual([])
  // What failed as retryable had not taken effect: the key was still free, and what was to be cancelled still there.
  expect(answers.filter((answer) => answer.name === 'schedule' && answer.outcome !== 'created')).toEqual([])
  const startedKeys = new Set(starts.map(({ key }) => key))
  const missed = answers.filter((answer) => answer.name === 'cancel' && answer.outcome === 'not-found')
  expect(missed.filter(({ key }) => !startedKeys.has(key) && !fates.unknown.has(key))).toEqual([])
  const codes = [...new Set(failures.map(({ code }) => code))]
  expect(codes.filter((code) => !CODES.includes(code ?? ''))).toEqual([])
  expect(slowestMs).toBeLessThan(2 * callTimeoutMs + 500)
  // Who cannot ask the ledger delivers nothing.
  for (const { fromMs, toMs } of aways) {
    const undecided = starts.filter(({ nowMs }) => nowMs > fromMs + CLAIMED_BEFORE_MS && nowMs < toMs)
    expect(undecided).toEqual([])
  }
  expect(eventsOf([...consumers, load], 'unhandled')).toEqual([])
  await using toc = await Tocsin.open({ ledger: url, logger: false })
  expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true }])
  return loaded
}
