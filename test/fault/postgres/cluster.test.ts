/** PostgreSQL as the ledger, and the hints on all masters of a Redis Cluster, of which one fails. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type RedisCluster, startRedisCluster } from '../../real-servers/redis-cluster.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { earlyAmong, endedKeys, eventsOf, fatesOf, lostOf, quantile } from '../records.ts'
import { liveCount } from './tables.ts'

let postgres: PostgresServer
let cluster: RedisCluster
beforeAll(async () => {
  ;[postgres, cluster] = await Promise.all([startPostgres(), startRedisCluster({ nodeTimeoutMs: 1_000 })])
}, 60_000)
afterAll(() => Promise.all([postgres.stop(), cluster.stop()]))

const url = () => `redis+cluster://${cluster.addresses.slice(0, 3).join(',')}`

test('a master is killed: its tasks ring from PostgreSQL until a replica has taken over', async () => {
  const ledger = await postgres.createDatabase()
  const open = { timetable: url(), ledger, callTimeout: 1_000 }
  const common = { open, topic: 'killed', config: { lease: '10s' } }
  await using one = await startProgram('consumer', common)
  await using other = await startProgram('consumer', common)
  const consumers = [one, other]
  await Promise.all(consumers.map((consumer) => consumer.untilCount('ready', 1)))
  await using load = await startProgram('load', { ...common, loops: 16, paceMs: 20 })
  await load.untilCount('answer', 200)
  const [, master] = await cluster.masters()
  const awayMs = Date.now()
  await cluster.kill(master!)
  await cluster.untilFailedOver(master!)
  const backMs = Date.now()
  await load.untilCount('answer', load.of('answer').length + 300, 30_000)
  load.signal('SIGUSR2')
  await load.untilCount('finished', 1)
  await eventually('nothing is left to do', async () => (await liveCount(ledger)) === 0, 30_000)
  await Promise.all([...consumers, load].map((program) => program.close()))
  const fates = fatesOf(load)
  const starts = eventsOf(consumers, 'start')
  const lateMs = starts.map(({ dueMs, nowMs }) => nowMs - dueMs)
  const meanwhile = starts.filter(({ nowMs }) => nowMs >= awayMs && nowMs <= backMs).length
  const figures = {
    accepted: fates.accepted.size,
    failures: load.of('failure').length,
    awayMs: backMs - awayMs,
    startedMeanwhile: meanwhile,
    lateP50: quantile(lateMs, 0.5),
    lateMax: quantile(lateMs, 1),
  }
  console.log('a master was killed, PostgreSQL is the ledger:', JSON.stringify(figures))
  expect(lostOf(fates, endedKeys(consumers))).toEqual([])
  expect(earlyAmong(starts, fates.accepted)).toEqual([])
  expect(starts.filter(({ key }) => fates.cancelled.has(key))).toEqual([])
  expect(load.of('failure')).toEqual([])
  expect(meanwhile).toBeGreaterThan(50)
  expect(eventsOf([...consumers, load], 'unhandled')).toEqual([])
})
