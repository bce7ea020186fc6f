import { existsSync } from 'node:fs'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { areAlive } from './processes.ts'
import { commandCalls, type RedisCluster, slotOf, startRedisCluster } from './redis-cluster.ts'
import type { RedisServer } from './redis-server.ts'
import { ask, converse } from './resp.ts'

const SOON_MS = 5_000

/** Keys of one slot, by a hash tag. */
const keysOf = (tag: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `{${tag}}:${n}`)

async function fill(server: RedisServer, keys: readonly string[]): Promise<void> {
  for (const key of keys) await server.ask('SET', key, `value of ${key}`)
}

async function holds(server: RedisServer, keys: readonly string[]): Promise<void> {
  for (const key of keys) expect(await server.ask('GET', key)).toBe(`value of ${key}`)
}

let one: RedisCluster
beforeAll(async () => {
  one = await startRedisCluster({ masters: 3, replicasEach: 1 })
})
afterAll(() => one.stop())

test.each([
  '',
  'a',
  'order-1',
  'ä{ö}ü',
  '{user}:1',
  'x{user}:1{y}',
  '{}a',
  '{}{a}',
  '{{a}}',
  'a}{b',
  'a{b',
  '{a\nb}c',
])('the slot of %j is the one that Redis computes', async (key) => {
  expect(slotOf(key)).toBe(await one.nodes[0]!.ask('CLUSTER', 'KEYSLOT', key))
})

describe('a cluster for a file of tests', () => {
  test('works on every node, with three masters and a replica of each', async () => {
    expect(one.nodes).toHaveLength(6)
    expect(one.addresses).toEqual(one.nodes.map(({ port }) => `127.0.0.1:${port}`))
    expect(one.urls).toEqual(one.nodes.map(({ port }) => `redis://127.0.0.1:${port}`))
    for (const node of one.nodes) {
      const info = await node.cli('CLUSTER', 'INFO')
      expect(info).toContain('cluster_state:ok\r\ncluster_slots_assigned:16384\r\n')
      expect(info).toContain('cluster_known_nodes:6\r\ncluster_size:3\r\n')
    }
    const masters = await one.masters()
    const replicas = await Promise.all(masters.map((master) => one.replicaOf(master)))
    expect(new Set([...masters, ...replicas]).size).toBe(6)
    for (const [index, master] of masters.entries()) {
      const said = await replicas[index]!.cli('INFO', 'replication')
      expect(said).toContain(`role:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:${master.port}\r\n`)
    }
    await expect(one.replicaOf(replicas[0]!)).rejects.toThrow('no replica of')
  })

  test('a key is on the master that ownerOf names, and its replica gets it', async () => {
    for (const key of ['a', 'b', 'c', 'd', '{tag}:e']) {
      const owner = await one.ownerOf(key)
      expect(await one.ownerOf(slotOf(key))).toBe(owner)
      expect(await owner.cli('SET', key, 'here')).toBe('OK')
      const slot = slotOf(key)
      for (const other of (await one.masters()).filter((master) => master !== owner))
        await expect(other.cli('GET', key)).rejects.toThrow(`MOVED ${slot} 127.0.0.1:${owner.port}`)
      const replica = await one.replicaOf(owner)
      await expect
        .poll(() => replica.ask('CLUSTER', 'GETKEYSINSLOT', String(slot), '10'), { timeout: SOON_MS })
        .toEqual([key])
    }
  })

  test('a slot is moved with its keys: the source redirects by ASK before the end, and by MOVED after it', async () => {
    const keys = keysOf('moved', 250)
    const slot = slotOf('{moved}')
    const from = await one.ownerOf(slot)
    const to = (await one.masters()).find((master) => master !== from)!
    await fill(from, keys)
    const seen: string[] = []
    await one.moveSlot(slot, to, {
      beforeKeys: async () => {
        seen.push(`at the source: ${await from.cli('CLUSTER', 'COUNTKEYSINSLOT', String(slot))}`)
        await expect(from.cli('GET', '{moved}:new')).rejects.toThrow(`ASK ${slot} 127.0.0.1:${to.port}`)
      },
      afterPage: async () => {
        seen.push(`at the target: ${await to.cli('CLUSTER', 'COUNTKEYSINSLOT', String(slot))}`)
      },
      beforeFinish: async () => {
        await expect(from.cli('GET', keys[0]!)).rejects.toThrow(`ASK ${slot} 127.0.0.1:${to.port}`)
        await expect(to.cli('GET', keys[0]!)).rejects.toThrow(`MOVED ${slot} 127.0.0.1:${from.port}`)
        expect(await one.ownerOf(slot)).toBe(from)
        const asked = await ask({ host: to.host, port: to.port }, [['ASKING'], ['GET', keys[0]!]], SOON_MS)
        expect(asked).toEqual(['OK', `value of ${keys[0]}`])
      },
    })
    expect(seen).toEqual([
      'at the source: 250',
      'at the target: 100',
      'at the target: 200',
      'at the target: 250',
    ])
    expect(await one.ownerOf(slot)).toBe(to)
    await holds(to, keys)
    await expect(from.cli('GET', keys[0]!)).rejects.toThrow(`MOVED ${slot} 127.0.0.1:${to.port}`)
    await one.moveSlot(slot, to)
  })

  test('many slots are moved, and back', async () => {
    const slots = Array.from({ length: 100 }, (_, n) => n)
    const from = await one.ownerOf(0)
    const to = (await one.masters()).find((master) => master !== from)!
    await one.moveSlots(slots, to)
    expect([await one.ownerOf(0), await one.ownerOf(99), await one.ownerOf(100)]).toEqual([to, to, from])
    await one.moveSlots(slots, from)
    expect(await one.ownerOf(0)).toBe(from)
  })

  test('half of a slot is elsewhere: commands over its keys are told to try again', async () => {
    const keys = keysOf('half', 4)
    const from = await one.ownerOf('{half}')
    const to = (await one.masters()).find((master) => master !== from)!
    await fill(from, keys)
    const answers: string[] = []
    await one.moveSlot(slotOf('{half}'), to, {
      pageKeys: 2,
      afterPage: async () => {
        answers.push(await from.cli('MGET', ...keys).catch((error: Error) => error.message.split(' ')[0]!))
      },
    })
    expect(answers).toEqual(['TRYAGAIN', 'ASK'])
  })

  test('calls of commands are counted by server and command', async () => {
    const owner = await one.ownerOf('counted')
    const other = (await one.masters()).find((master) => master !== owner)!
    await Promise.all([owner, other].map((server) => server.ask('CONFIG', 'RESETSTAT')))
    for (let n = 0; n < 3; n++) await owner.ask('INCR', 'counted')
    expect((await commandCalls(owner)).get('incr')).toBe(3)
    expect((await commandCalls(owner)).get('config|resetstat')).toBe(1)
    expect((await commandCalls(other)).has('incr')).toBe(false)
  })

  test('a graceful failover and a takeover swap a master and its replica, and lose nothing', async () => {
    const master = await one.ownerOf('kept')
    const replica = await one.replicaOf(master)
    const keys = keysOf('kept', 20)
    await fill(master, keys)
    await one.failover(replica)
    expect(await one.ownerOf('kept')).toBe(replica)
    expect(await one.replicaOf(replica)).toBe(master)
    await holds(replica, keys)
    await one.failover(master, 'TAKEOVER')
    expect(await one.ownerOf('kept')).toBe(master)
    await holds(master, keys)
  })
})

test('a killed master is replaced by its replica with the data, and comes back as a replica', async () => {
  await using cluster = await startRedisCluster({ appendonly: true, nodeTimeoutMs: 1_000 })
  const master = await cluster.ownerOf('kept')
  const replica = await cluster.replicaOf(master)
  expect(await master.cli('CONFIG', 'GET', 'appendonly')).toBe('appendonly\nyes')
  const keys = keysOf('kept', 20)
  await fill(master, keys)
  await expect.poll(() => replica.cli('DBSIZE'), { timeout: SOON_MS }).toBe('20')
  await cluster.kill(master)
  expect(await cluster.ownerOf('kept'), 'not yet').toBe(master)
  expect(await cluster.untilFailedOver(master)).toBe(replica)
  expect(await cluster.ownerOf('kept')).toBe(replica)
  expect(await cluster.masters()).toHaveLength(3)
  await holds(replica, keys)
  await expect(cluster.replicaOf(replica)).rejects.toThrow('no replica of')
  await master.restart()
  await cluster.untilReady()
  expect(await cluster.replicaOf(replica)).toBe(master)
  expect(await master.cli('DBSIZE')).toBe('20')
  await cluster.kill(replica)
  await cluster.failover(master, 'FORCE')
  expect(await cluster.ownerOf('kept')).toBe(master)
  await holds(master, keys)
})

test('a paused master is replaced, and is not believed when it goes on', async () => {
  await using cluster = await startRedisCluster({ nodeTimeoutMs: 1_000 })
  const master = cluster.nodes[0]!
  const replica = await cluster.replicaOf(master)
  master.pause()
  expect(await cluster.untilFailedOver(master)).toBe(replica)
  master.resume()
  expect(await cluster.ownerOf(0)).toBe(replica)
  await cluster.untilReady()
  expect(await cluster.replicaOf(replica)).toBe(master)
})

test('without full coverage and without replicas, the slots of the masters that are up work', async () => {
  await using cluster = await startRedisCluster({
    replicasEach: 0,
    requireFullCoverage: false,
    nodeTimeoutMs: 1_000,
  })
  expect(cluster.nodes).toHaveLength(3)
  const down = await cluster.ownerOf(0)
  await cluster.kill(down)
  const owner = await cluster.ownerOf(16_383)
  await expect.poll(() => owner.cli('CLUSTER', 'INFO')).toContain('cluster_slots_fail:5462')
  expect(await owner.cli('CLUSTER', 'INFO')).toContain('cluster_state:ok')
  const key = Array.from({ length: 1_000 }, (_, n) => `key-${n}`).find((name) => slotOf(name) > 16_000)!
  expect(await owner.cli('SET', key, 'here')).toBe('OK')
})

test('with TLS and a password: nodes redirect to ports with TLS, and keys move', async () => {
  await using cluster = await startRedisCluster({ replicasEach: 1, tls: true, password: 'sesame' })
  expect(cluster.urls).toEqual(cluster.nodes.map((node) => node.tlsUrl))
  const owner = await cluster.ownerOf('kept')
  const other = (await cluster.masters()).find((master) => master !== owner)!
  const overTls = async (server: RedisServer, ...words: string[]) => {
    const socket = connectTls({
      host: '127.0.0.1',
      port: Number(new URL(server.tlsUrl!).port),
      ca: cluster.ca,
    })
    return (await converse(socket, [['AUTH', 'sesame'], words], SOON_MS)).at(-1)
  }
  expect(await overTls(owner, 'SET', 'kept', 'yes')).toBe('OK')
  const address = cluster.addresses[cluster.nodes.indexOf(owner)]
  expect(await overTls(other, 'GET', 'kept')).toEqual(new Error(`MOVED ${slotOf('kept')} ${address}`))
  await cluster.moveSlot(slotOf('kept'), other)
  expect(await overTls(other, 'GET', 'kept')).toBe('yes')
  expect(await ask({ host: owner.host, port: owner.port }, [['PING']], SOON_MS)).toEqual([
    new Error('NOAUTH Authentication required.'),
  ])
})

test('stopped, it leaves no process and no folder behind, also with a node paused or killed', async () => {
  const cluster = await startRedisCluster()
  const pids = cluster.nodes.map(({ pid }) => pid)
  const folders = cluster.nodes.map(({ folder }) => folder)
  cluster.nodes[0]!.pause()
  await cluster.kill(cluster.nodes[1]!)
  await cluster.stop()
  expect(areAlive(pids)).toBe(false)
  expect(folders.filter((folder) => existsSync(folder))).toEqual([])
  await cluster.stop() // a second time is nothing
})

test('a configuration that Redis refuses is quoted', async () => {
  await expect(startRedisCluster({ config: { 'no-such-setting': 'yes' } })).rejects.toThrow(
    /redis-server ended at its start\. Its log:[^]*no-such-setting/,
  )
})
