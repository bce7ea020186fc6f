/** In how many calls a batch handler gets tasks of one instant: the same on each composition. */
import { join } from 'node:path'
import { type OpenOptions, Tocsin, type Topic } from 'tocsin'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { isLong } from '../generated.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

const BACKLOG = isLong ? 10_000 : 2_000
const BATCH_SIZE_BY_DEFAULT = 500
const AHEAD_MS = 400

const folder = temporaryFolder()
let redis: RedisServer
let postgres: PostgresServer
beforeAll(async () => {
  ;[redis, postgres] = await Promise.all([startRedis(), startPostgres()])
}, 60_000)
afterAll(async () => {
  await Promise.all([redis.stop(), postgres.stop()])
  folder[Symbol.dispose]()
})

const COMPOSITIONS: Record<string, () => Promise<OpenOptions>> = {
  'in memory': async () => ({ timetable: 'memory:' }),
  SQLite: async () => ({ ledger: `sqlite:${join(folder.path, 't.db')}` }),
  Redis: async () => ({ timetable: redis.url }),
  PostgreSQL: async () => ({ ledger: await postgres.createDatabase() }),
  'Redis + PostgreSQL': async () => ({ timetable: redis.url, ledger: await postgres.createDatabase() }),
}

/** The sizes of the calls of a batch handler, and a promise that resolves when it has had `count` tasks. */
function recordSizes(topic: Topic<never, unknown>, count: number): { sizes: number[]; done: Promise<void> } {
  const sizes: number[] = []
  let left = count
  const done = new Promise<void>((resolve) => {
    topic.consumeBatch(async (tasks) => {
      sizes.push(tasks.length)
      left -= tasks.length
      if (left === 0) resolve()
    })
  })
  return { sizes, done }
}

function tasks(count: number, at: number): { key: string; at: number; payload: null }[] {
  return Array.from({ length: count }, (_, i) => ({ key: `k${i}`, at, payload: null }))
}

/** All are due when the handler may have the first of them. */
async function backlog(topic: Topic<null, unknown>, count: number): Promise<number[]> {
  await topic.pause()
  const { sizes, done } = recordSizes(topic, count)
  await topic.scheduleMany(tasks(count, Date.now()))
  await topic.resume()
  await done
  return sizes
}

describe.each(Object.entries(COMPOSITIONS))('%s', (composition, options) => {
  let toc: Tocsin
  const topicOf = (what: string, batchSize?: number) =>
    toc.topic<null>(`${composition.toLowerCase().replaceAll(/\W/g, '')}-${what}`, { batchSize })
  beforeAll(async () => {
    toc = await Tocsin.open({ ...(await options()), logger: false })
  })
  afterAll(() => toc.close())

  test('300 tasks of one instant are one call', async () => {
    // A slow machine may take longer than this to schedule them: then again, further ahead.
    for (let aheadMs = AHEAD_MS; ; aheadMs *= 4) {
      const topic = topicOf(`instant-${aheadMs}`)
      const { sizes, done } = recordSizes(topic, 300)
      const at = Date.now() + aheadMs
      await topic.scheduleMany(tasks(300, at))
      const isAhead = Date.now() < at - aheadMs / 2
      await done
      if (isAhead) return expect(sizes).toEqual([300])
    }
  })

  test(`${BACKLOG} due tasks are full batches`, { timeout: 60_000 }, async () => {
    const sizes = await backlog(topicOf('backlog'), BACKLOG)
    expect(Math.max(...sizes)).toBe(BATCH_SIZE_BY_DEFAULT)
    expect(sizes.length).toBeLessThanOrEqual(BACKLOG / BATCH_SIZE_BY_DEFAULT + 1)
  })

  test('a batch may be larger than a claim: batchSize 2,000', { timeout: 60_000 }, async () => {
    expect(await backlog(topicOf('large', 2_000), 2_000)).toEqual([2_000])
  })
})
