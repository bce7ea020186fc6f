/** PostgreSQL as the ledger, and the hints on all masters of a Redis Cluster, of which one loses them. */
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hashSlotOf } from '../../src/timetables/redis/hash-slot.ts'
import { eventually } from '../fault/helpers.ts'
import { quantile } from '../fault/records.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisCluster, startRedisCluster } from '../real-servers/redis-cluster.ts'

let postgres: PostgresServer
let cluster: RedisCluster
beforeAll(async () => {
  ;[postgres, cluster] = await Promise.all([startPostgres(), startRedisCluster({ replicasEach: 0 })])
}, 60_000)
afterAll(() => Promise.all([postgres.stop(), cluster.stop()]))

const url = () => `redis+cluster://${cluster.addresses.join(',')}`

const COUNT = 300
const DUE_MS = 6_000
/** The loader looks for lost hints every second. The sweeper would find them, too, later. */
const LATE_MS_MAX = 2_000

test('one master that loses its hints is filled again, and the tasks ring in time', async () => {
  const ledger = await postgres.createDatabase()
  await using toc = await Tocsin.open({ timetable: url(), ledger, logger: false })
  const topic = toc.topic<number>('wiped')
  const lateMs = new Map<string, number>()
  topic.consume(async ({ key, latenessMs }) => void lateMs.set(key, latenessMs), { concurrency: 64 })
  const at = Date.now() + DUE_MS
  await topic.scheduleMany(Array.from({ length: COUNT }, (_, n) => ({ key: `k${n}`, at, payload: n })))
  // Not the master of the first cell, which alone would tell of a wiped Redis.
  const prefix = await prefixOf()
  const first = await cluster.ownerOf(hashSlotOf(`${prefix}:{wiped:0}:meta`))
  const wiped = (await cluster.masters()).find((master) => master !== first)!
  await eventually('the hints are there', async () => Number(await wiped.cli('DBSIZE')) > 20)
  await wiped.cli('FLUSHALL')
  await eventually('the hints are there again', async () => Number(await wiped.cli('DBSIZE')) > 20, DUE_MS)
  await eventually('all are handled', () => lateMs.size === COUNT)
  const late = [...lateMs.values()]
  console.log('lateness after one master was wiped:', quantile(late, 0.5), quantile(late, 1), 'ms')
  expect(Math.min(...late)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...late)).toBeLessThan(LATE_MS_MAX)
})

/** The prefix of the hints: the default one and the id of the ledger. */
async function prefixOf(): Promise<string> {
  let prefix: string | undefined
  await eventually('there are hints', async () => {
    for (const master of await cluster.masters()) {
      const [key] = ((await master.ask('KEYS', '*{wiped:*}:meta')) as string[]) ?? []
      if (key !== undefined) prefix = key.slice(0, key.indexOf(':{'))
    }
    return prefix !== undefined
  })
  return prefix as string
}
