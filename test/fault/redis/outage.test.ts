import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { type Entry, startProgram } from '../program.ts'

const OUTAGE_MS = 10_000
const LOG_LINES_MAX = 50
const CPU_SHARE_MAX = 0.3

const outages: Record<
  string,
  [begin: (redis: RedisServer) => unknown, end: (redis: RedisServer) => unknown]
> = {
  down: [(redis) => redis.kill(), (redis) => redis.start()],
  frozen: [(redis) => redis.pause(), (redis) => redis.resume()],
}

describe('while Redis is away, a consumer is quiet', () => {
  const servers = new Map<string, RedisServer>()
  beforeAll(async () => {
    for (const name of Object.keys(outages)) {
      const config = { appendonly: 'yes', appendfsync: 'always' }
      servers.set(name, await startRedis({ config }))
    }
  })
  afterAll(async () => {
    for (const server of servers.values()) await server.stop()
  })

  /** Ten seconds without Redis, with tasks that fall due meanwhile. Answers what the consumer did in that time. */
  async function outage(name: string): Promise<{ logs: Entry[]; cpuMs: number; unhandled: Entry[] }> {
    const redis = servers.get(name)!
    const [begin, end] = outages[name]!
    const open = { timetable: redis.url, callTimeout: '1s' }
    await using toc = await Tocsin.open({ ...open, logger: false })
    const topic = toc.topic<null>('quiet')
    await using consumer = await startProgram('consumer', { open, topic: 'quiet', config: { lease: '30s' } })
    await consumer.untilCount('ready', 1)
    const tasks = Array.from({ length: 100 }, (_, i) => ({
      key: `k${i}`,
      delay: 500 + i * 80,
      payload: null,
    }))
    await topic.scheduleMany(tasks)
    await consumer.untilCount('start', 1)
    consumer.signal('SIGUSR2')
    await consumer.untilCount('cpu', 1)
    await begin(redis)
    // Real time: CPU time and log lines are measured over the whole outage.
    await sleep(OUTAGE_MS)
    consumer.signal('SIGUSR2')
    const [before, after] = (await consumer.untilCount('cpu', 2)).filter(({ event }) => event === 'cpu')
    await end(redis)
    await consumer.until('all handled', (entries) => {
      return new Set(entries.filter((one) => one.event === 'end').map(({ key }) => key)).size === tasks.length
    })
    await consumer.close()
    const logs = consumer.of('log').filter(({ nowMs }) => nowMs >= before!.nowMs && nowMs <= after!.nowMs)
    return { logs, cpuMs: after!.ms - before!.ms, unhandled: consumer.of('unhandled') }
  }

  // Both at once: it is mostly waiting.
  const all = new Map<string, Awaited<ReturnType<typeof outage>>>()
  beforeAll(async () => {
    const names = Object.keys(outages)
    const results = await Promise.all(names.map((name) => outage(name)))
    names.forEach((name, i) => all.set(name, results[i]!))
  }, 90_000)

  test.each(Object.keys(outages))('%s: no busy loop, no unhandled rejection', (name) => {
    const { cpuMs, unhandled } = all.get(name)!
    expect(unhandled).toEqual([])
    expect(cpuMs / OUTAGE_MS).toBeLessThan(CPU_SHARE_MAX)
  })

  test.each(Object.keys(outages))('%s: few lines in the log', (name) => {
    const { logs } = all.get(name)!
    expect(logs.length).toBeGreaterThan(0)
    expect(logs.length).toBeLessThan(LOG_LINES_MAX)
  })
})
