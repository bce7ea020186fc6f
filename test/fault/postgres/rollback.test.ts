import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { startRedis, startReplica } from '../../real-servers/redis-server.ts'
import { startProxy, TcpProxy } from '../../real-servers/tcp-proxy.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { earlyAmong, endedKeys, eventsOf, startedAgain } from '../records.ts'
import { hintPrefix, hintsIn, liveCount } from './tables.ts'

const TOPIC = 'rollback'
const OF_EACH = 200
const HELD = 50
const NEAR_MS = 4_000
/** After the failover. */
const FAR_MS = 13_000

let postgres: PostgresServer
beforeAll(async () => {
  postgres = await startPostgres()
}, 60_000)
afterAll(() => postgres.stop())

const PROMOTED = 'a replica that lags is promoted'
const RESTARTED = 'Redis is restarted from an old snapshot'

test.each([PROMOTED, RESTARTED])(
  '%s: nothing that is over comes back, nothing is lost',
  { timeout: 120_000 },
  async (how) => {
    const url = await postgres.createDatabase()
    await using primary = await startRedis()
    await using link = await startProxy(primary)
    await using replica = await startReplica(primary, { config: { replicaof: `${link.host} ${link.port}` } })
    await using door = await startProxy(primary)
    const open = { timetable: door.url(primary.url), ledger: url, callTimeout: '2s' }
    const config = { lease: '8s' }
    await using consumer = await startProgram('consumer', {
      open,
      topic: TOPIC,
      config,
      concurrency: 200,
      hold: 'held-',
    })
    await consumer.untilCount('ready', 1)
    await using toc = await Tocsin.open({ ...open, logger: false })
    const topic = toc.topic<null>(TOPIC, config)
    const accepted = new Map<string, number>()
    const namesOf = (kind: string, count = OF_EACH) => Array.from({ length: count }, (_, i) => `${kind}-${i}`)
    const schedule = async (kind: string, atMs: number, count = OF_EACH) => {
      const tasks = namesOf(kind, count).map((key) => ({ key, at: atMs, payload: null }))
      for (const { key, dueAt } of await topic.scheduleMany(tasks)) accepted.set(key, dueAt.getTime())
    }

    const farMs = Date.now() + FAR_MS
    await schedule('done', Date.now() + NEAR_MS)
    await schedule('cancelled', farMs)
    await schedule('sooner', farMs + 60_000)
    await schedule('later', farMs - 2_000)
    await schedule('still', farMs)
    const prefix = await hintPrefix(url)
    await eventually('the replica has them all', async () => {
      return (await hintsIn(replica, prefix, TOPIC)).waiting.size === 5 * OF_EACH
    })
    link.stall()
    await primary.cli('SAVE')

    // From here on neither the replica nor the snapshot knows anything.
    await schedule('new', farMs)
    await schedule('held', Date.now(), HELD)
    const cancelled = await topic.cancelMany(namesOf('cancelled'))
    expect(cancelled.filter(({ outcome }) => outcome !== 'cancelled')).toEqual([])
    const move = (kind: string, atMs: number) =>
      namesOf(kind).map(async (key) => {
        expect(await topic.reschedule(key, { at: atMs })).toMatchObject({ outcome: 'rescheduled' })
        accepted.set(key, atMs)
      })
    await Promise.all([...move('sooner', farMs), ...move('later', farMs + 2_000)])
    await eventually('the near ones are done', () => {
      const keys = endedKeys([consumer])
      return namesOf('done').every((key) => keys.has(key))
    })
    await eventually('some are in flight', () => {
      return consumer.of('start').filter(({ key }) => key.startsWith('held-')).length === HELD
    })
    await eventually('their outcomes are in the ledger', async () => {
      return (await liveCount(url)) === 4 * OF_EACH + HELD
    })
    expect((await hintsIn(replica, prefix, TOPIC)).waiting.size, 'it lags').toBe(5 * OF_EACH)
    expect(Date.now(), 'in time').toBeLessThan(farMs - 3_000)

    await primary.kill()
    await using newDoor = new TcpProxy(replica, door.port)
    if (how === PROMOTED) {
      await door.stop()
      await replica.cli('REPLICAOF', 'NO', 'ONE')
      await newDoor.accept()
    } else {
      await primary.start()
    }
    const rolledBackMs = Date.now()
    // Real time: handlers run on, and extend their leases, while the timetable is older than the ledger.
    await sleep(2_000)
    consumer.signal('SIGUSR2')

    const wanted = [
      ...['done', 'sooner', 'later', 'still', 'new'].flatMap((kind) => namesOf(kind)),
      ...namesOf('held', HELD),
    ]
    await eventually(
      'all is handled',
      () => {
        const keys = endedKeys([consumer])
        return wanted.every((key) => keys.has(key))
      },
      FAR_MS + 20_000,
    )
    // Real time: an outdated hint of a cancelled or moved task must not ring.
    await sleep(2_000)
    await eventually('nothing is left', async () => (await liveCount(url)) === 0)
    await consumer.close()

    const starts = eventsOf([consumer], 'start')
    const slowest = Math.max(
      ...starts.filter(({ nowMs }) => nowMs > rolledBackMs).map(({ latenessMs }) => latenessMs),
    )
    console.log(`${how}:`, JSON.stringify({ starts: starts.length, latestMs: slowest }))
    expect(starts.filter(({ key }) => key.startsWith('cancelled-'))).toEqual([])
    expect(startedAgain(starts)).toEqual([])
    expect(starts.length).toBe(wanted.length)
    expect(earlyAmong(starts, accepted)).toEqual([])
    expect(consumer.of('unhandled')).toEqual([])
    expect(await toc.audit()).toMatchObject([{ balances: true }])
  },
)
