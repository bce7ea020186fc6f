/** How a Redis Cluster is opened: with a password and TLS, through nodes that are down, and by mistake. */
import { Tocsin } from 'tocsin'
import { redis } from 'tocsin/redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { failureOf } from '../fault/helpers.ts'
import { freePort } from '../real-servers/free-port.ts'
import { type RedisCluster, startRedisCluster } from '../real-servers/redis-cluster.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

const PASSWORD = 'sesame-5'

let cluster: RedisCluster
let alone: RedisServer
beforeAll(async () => {
  ;[cluster, alone] = await Promise.all([
    startRedisCluster({ replicasEach: 0, tls: true, password: PASSWORD }),
    startRedis(),
  ])
})
afterAll(() => Promise.all([cluster.stop(), alone.stop()]))

const open = (options: Parameters<typeof Tocsin.open>[0]) => Tocsin.open({ ...options, logger: false })
const tls = () => ({ ca: cluster.ca })

/** Schedules in every cell, and expects that all tasks are there. */
async function expectUsable(toc: Tocsin): Promise<void> {
  const topic = toc.topic<number>('opened')
  const tasks = Array.from({ length: 200 }, (_, n) => ({ key: `k${n}`, delay: '1h', payload: n }))
  await topic.scheduleMany(tasks)
  expect(await topic.counts()).toMatchObject({ pending: 200 })
  expect(await topic.cancelBy({ prefix: 'none' })).toMatchObject({ cancelled: 0 })
}

describe('with TLS and a password', () => {
  test('by options, through a first node that is down', async () => {
    const nodes = [`127.0.0.1:${await freePort()}`, ...cluster.addresses]
    const timetable = redis({ cluster: { nodes }, password: PASSWORD, tls: tls() })
    await using toc = await open({ timetable })
    await expectUsable(toc)
  })

  test('by a URL', async () => {
    const url = `rediss+cluster://:${PASSWORD}@${cluster.addresses[0]}`
    await using toc = await open({ timetable: redis({ url, tls: tls() }) })
    await expectUsable(toc)
  })
})

describe('a mistake is told with what to do', () => {
  const failure = async (timetable: string | ReturnType<typeof redis>) => {
    const error = await failureOf(open({ timetable, callTimeout: '2s' }))
    expect(String(error)).not.toContain(PASSWORD)
    return error
  }

  test('a wrong password', async () => {
    const url = `rediss+cluster://:wrong-${PASSWORD.length}@${cluster.addresses[0]}`
    expect(await failure(redis({ url, tls: tls() }))).toMatchObject({ code: 'timetable-refused' })
  })

  test('no password', async () => {
    const error = await failure(redis({ cluster: { nodes: cluster.addresses }, tls: tls() }))
    expect(error).toMatchObject({ code: 'timetable-refused', message: expect.stringContaining('password') })
  })

  test('no node is there', async () => {
    const error = await failure(`redis+cluster://127.0.0.1:${await freePort()},127.0.0.1:${await freePort()}`)
    expect(error).toMatchObject({
      code: 'timetable-unavailable',
      message: expect.stringContaining('nothing listens at 127.0.0.1:'),
    })
  })

  test('a single Redis', async () => {
    const error = await failure(`redis+cluster://127.0.0.1:${alone.port}`)
    expect(error).toMatchObject({
      code: 'timetable-refused',
      message: expect.stringContaining('not a node of a Redis Cluster; write redis://'),
    })
  })

  test('a node of a cluster as a single Redis', async () => {
    const url = `rediss://:${PASSWORD}@${cluster.addresses[0]}`
    const error = await failure(redis({ url, tls: tls() }))
    expect(error).toMatchObject({
      code: 'timetable-refused',
      message: expect.stringContaining('redis+cluster://'),
    })
  })
})

test('a cluster with slots that no master has is not opened', async () => {
  await using broken = await startRedisCluster({ replicasEach: 0, requireFullCoverage: false })
  await broken.nodes[0]!.ask('CLUSTER', 'DELSLOTS', '100')
  const error = await failureOf(
    open({ timetable: `redis+cluster://${broken.addresses[0]}`, callTimeout: '2s' }),
  )
  expect(error).toMatchObject({
    code: 'timetable-unavailable',
    message: expect.stringContaining('hash slots without a master'),
  })
})
