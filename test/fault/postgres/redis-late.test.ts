/** Redis + PostgreSQL while Redis is away, from the start or for a while: tasks ring, and the log says so once. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { serve } from 'tocsin/server'
import { freePort } from '../../real-servers/free-port.ts'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { Log } from '../../runtime/log.ts'
import { eventually, failureOf } from '../helpers.ts'

const TIMEOUT_MS = 60_000
/** Longer than a step of the loader, which calls Redis once a second. */
const AWAY_MS = 1_500

let postgres: PostgresServer
let redis: RedisServer
beforeAll(async () => {
  postgres = await startPostgres()
  redis = await startRedis()
}, TIMEOUT_MS)
afterAll(() => Promise.all([postgres.stop(), redis.stop()]), TIMEOUT_MS)

function consumed(toc: Tocsin): string[] {
  const rung: string[] = []
  toc.topic('t').consume(async ({ key }) => void rung.push(key))
  return rung
}

/** Schedules a task and waits until it has rung. */
async function ring(toc: Tocsin, rung: readonly string[], key: string, delay = 0): Promise<void> {
  await toc.topic('t').schedule({ key, delay, payload: null })
  await eventually(`${key} has rung`, () => rung.includes(key))
}

const keysInRedis = async () => (await redis.cli('KEYS', '*')).split('\n').filter(Boolean).length

test(
  'Redis is away when it is opened: tasks ring, and Redis is used once it is there',
  async () => {
    const ledger = await postgres.createDatabase()
    await redis.kill()
    const logger = new Log()
    await using toc = await Tocsin.open({ timetable: redis.url, ledger, logger })
    const rung = consumed(toc)
    await toc.topic('t').schedule({ key: 'later', delay: '1h', payload: null })
    await ring(toc, rung, 'at-once')
    await ring(toc, rung, 'away', AWAY_MS)
    expect(logger.words()).toEqual(['degraded'])

    await redis.start()
    await eventually('it has recovered', () => logger.words().includes('recovered'))
    expect(await keysInRedis()).toBeGreaterThan(0)
    // By Redis, without a poll of PostgreSQL: the table of Redis rings and wakes its consumers.
    await ring(toc, rung, 'back')
    // Also a connection that was made late reconnects.
    await redis.kill()
    await ring(toc, rung, 'away-again')
    await redis.start()
    await ring(toc, rung, 'back-again')
    await eventually('it has recovered again', () =>
      expect(logger.words().slice(2)).toEqual(['degraded', 'recovered']),
    )
    expect(rung).toEqual(['at-once', 'away', 'back', 'away-again', 'back-again'])
  },
  TIMEOUT_MS,
)

test(
  'Redis goes away and comes back: two lines, however long it takes',
  async () => {
    const ledger = await postgres.createDatabase()
    await redis.start()
    const logger = new Log()
    await using toc = await Tocsin.open({ timetable: redis.url, ledger, logger })
    const rung = consumed(toc)
    await ring(toc, rung, 'before')
    await redis.kill()
    await ring(toc, rung, 'away', AWAY_MS)
    await redis.start()
    await eventually('it has recovered', () => logger.words().includes('recovered'))
    await ring(toc, rung, 'back')
    expect(logger.words()).toEqual(['degraded', 'recovered'])
  },
  TIMEOUT_MS,
)

test(
  'a Redis that appears and cannot be used: it is said once why, and tasks ring',
  async () => {
    const ledger = await postgres.createDatabase()
    await redis.start()
    const unfit = 'allkeys-lru'
    await redis.cli('CONFIG', 'SET', 'maxmemory-policy', unfit)
    expect(await failureOf(Tocsin.open({ timetable: redis.url, ledger, logger: false }))).toMatchObject({
      code: 'timetable-refused',
    })
    await redis.kill()
    const logger = new Log()
    await using toc = await Tocsin.open({ timetable: redis.url, ledger, logger })
    const rung = consumed(toc)
    await using late = await startRedis({ config: { port: String(redis.port), 'maxmemory-policy': unfit } })
    await eventually('it was refused', () => logger.words().includes('still degraded'))
    await ring(toc, rung, 'away', AWAY_MS)
    await late.cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await eventually('it has recovered', () => logger.words().includes('recovered'))
    await ring(toc, rung, 'back')
    expect(logger.words()).toEqual(['degraded', 'still degraded', 'recovered'])
  },
  TIMEOUT_MS,
)

test(
  'a server opens and is ready without Redis; with Redis alone it does not',
  async () => {
    const timetable = `redis://127.0.0.1:${await freePort()}`
    const ledger = await postgres.createDatabase()
    const lines: string[] = []
    const logTo = { write: (line: string) => void lines.push(line) }
    const served = await serve({ port: 0, timetable, ledger, logTo })
    try {
      expect((await fetch(`${served.url}/readyz`)).status).toBe(200)
      expect(lines.filter((line) => line.includes('degraded: '))).toHaveLength(1)
    } finally {
      await served.close()
    }
    expect(await failureOf(Tocsin.open({ timetable, logger: false }))).toMatchObject({
      code: 'timetable-unavailable',
      message: expect.stringContaining('is Redis running there?'),
    })
  },
  TIMEOUT_MS,
)
