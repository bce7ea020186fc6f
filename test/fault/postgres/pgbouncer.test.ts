import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PgBouncer, startPgBouncer } from '../../real-servers/pgbouncer.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { eventually } from '../helpers.ts'
import { type Entry, startProgram } from '../program.ts'
import { earlyAmong, endedKeys, eventsOf, quantile, startedAgain } from '../records.ts'
import { liveCount } from './tables.ts'

const TOPIC = 'pooled'
const LATE_MS_MAX = 2_500
const TASKS = 2_000
/** Later than all of them are scheduled, and some cancelled. */
const DUE_IN_MS = 8_000

let postgres: PostgresServer
let bouncer: PgBouncer
beforeAll(async () => {
  postgres = await startPostgres()
  bouncer = await startPgBouncer(postgres)
}, 60_000)
afterAll(async () => {
  await bouncer.stop()
  await postgres.stop()
})

test(
  'behind PgBouncer in transaction mode: schedule, cancel, consume, retry',
  { timeout: 90_000 },
  async () => {
    const url = await postgres.createDatabase()
    const open = { ledger: bouncer.url(url) }
    const config = { retry: { min: '200ms', max: '200ms' } }
    await using one = await startProgram('postgres/fated', { open, topic: TOPIC, config })
    await using other = await startProgram('postgres/fated', { open, topic: TOPIC, config })
    const consumers = [one, other]
    await Promise.all(consumers.map((consumer) => consumer.untilCount('ready', 1)))
    await using toc = await Tocsin.open({ ...open, logger: false })
    const topic = toc.topic<number>(TOPIC, config)

    // One at a time, by calls that go at once: they are spread over the connections that there are.
    const nameOf = (i: number) => (i % 10 === 0 ? `fail-${i}` : i % 10 === 1 ? `gone-${i}` : `plain-${i}`)
    const accepted = new Map<string, number>()
    await Promise.all(
      Array.from({ length: TASKS }, async (_, i) => {
        const key = nameOf(i)
        const { dueAt, outcome } = await topic.schedule({ key, delay: DUE_IN_MS + (i % 1_000), payload: i })
        expect(outcome).toBe('created')
        accepted.set(key, dueAt.getTime())
      }),
    )
    const gone = [...accepted.keys()].filter((key) => key.startsWith('gone-'))
    expect(await topic.get('plain-2')).toMatchObject({ state: 'pending', payload: 2 })
    const cancelled = await Promise.all(gone.map((key) => topic.cancel(key)))
    expect(cancelled.filter(({ outcome }) => outcome !== 'cancelled')).toEqual([])
    await topic.scheduleMany(
      Array.from({ length: 50 }, (_, i) => ({ key: `tagged-${i}`, delay: '1h', payload: i, tags: ['all'] })),
    )
    expect(await topic.rescheduleBy({ tag: 'all' }, { shift: '+1h' })).toMatchObject({ rescheduled: 50 })
    expect(await topic.cancelBy({ tag: 'all' })).toMatchObject({ cancelled: 50 })
    const handled = TASKS - gone.length
    await eventually('all handled', () => endedKeys(consumers).size === handled, 30_000)
    await eventually('all settled', async () => (await liveCount(url)) === 0)
    const starts = eventsOf(consumers, 'start') as (Entry & { attempt: number })[]
    expect(starts.filter(({ key }) => key.startsWith('gone-'))).toEqual([])
    expect(earlyAmong(starts, accepted)).toEqual([])
    const retried = startedAgain(starts)
    expect(retried.filter((key) => !key.startsWith('fail-'))).toEqual([])
    expect(retried.length).toBe(TASKS / 10)
    const lateMs = starts.filter(({ attempt }) => attempt === 1).map(({ latenessMs }) => latenessMs)
    console.log('PgBouncer:', JSON.stringify({ p50: quantile(lateMs, 0.5), max: quantile(lateMs, 1) }))
    for (const consumer of consumers) await consumer.close()
    expect(eventsOf(consumers, 'unhandled')).toEqual([])
    expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true }])
  },
)

test(
  'behind PgBouncer a task of another process is late by a look, not by a sweep',
  { timeout: 60_000 },
  async () => {
    const url = await postgres.createDatabase()
    const open = { ledger: bouncer.url(url) }
    await using consumer = await startProgram('consumer', { open, topic: TOPIC })
    await consumer.untilCount('ready', 1)
    await using producer = await startProgram('postgres/producer', {
      open,
      topic: TOPIC,
      name: 'p',
      count: 5,
      delayMs: 100,
    })
    await producer.untilCount('ready', 1)
    // Real time: scheduled at moments that do not coincide with the consumer's polls.
    for (let round = 0; round < 12; round++) {
      producer.signal('SIGUSR2')
      await sleep(370 + 61 * round)
    }
    await producer.untilCount('scheduled', 60)
    await consumer.untilCount('end', 60)
    await Promise.all([consumer.close(), producer.close()])
    const lateMs = consumer.of('start').map(({ latenessMs }) => latenessMs)
    const figures = { p50: quantile(lateMs, 0.5), max: quantile(lateMs, 1) }
    console.log('PgBouncer, scheduled by another process:', JSON.stringify(figures))
    expect(figures.max).toBeLessThan(LATE_MS_MAX)
    expect(consumer.of('start').length).toBe(60)
  },
)
