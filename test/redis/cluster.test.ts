/** One topic on all masters of a real Redis Cluster, while slots move and a reply is lost. */
import { Tocsin } from 'tocsin'
import { redis } from 'tocsin/redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hashSlotOf } from '../../src/timetables/redis/hash-slot.ts'
import { cellOf } from '../../src/values/cell.ts'
import { commandCalls, type RedisCluster, startRedisCluster } from '../real-servers/redis-cluster.ts'
import { openAlone } from '../fault/alone.ts'
import { eventually, failureOf } from '../fault/helpers.ts'
import { startDropper } from '../fault/redis/reply-dropper.ts'

const CELLS = 64
const slotOfCell = (topic: string, cell: number) => hashSlotOf(`toc:{${topic}:${cell}}:wake`)
const slotsOf = (topic: string) => Array.from({ length: CELLS }, (_, cell) => slotOfCell(topic, cell))

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startRedisCluster({ nodeTimeoutMs: 1_000 })
})
afterAll(() => cluster.stop())

const url = () => `redis+cluster://${cluster.addresses.slice(0, 3).join(',')}`

/** Without the safety look, only a wake makes a task fire in time. */
const openWakened = () => Tocsin.open({ timetable: redis({ url: url(), safetyLook: '1h' }), logger: false })

/** How many scripts each master has run. */
async function scriptsOf(): Promise<number[]> {
  const all = await Promise.all(
    (await cluster.masters()).map(async (master) => {
      const calls = await commandCalls(master)
      return (calls.get('evalsha') ?? 0) + (calls.get('eval') ?? 0)
    }),
  )
  return all
}

test('the keys of one topic are on all masters, and each of them serves claims', async () => {
  await using toc = await Tocsin.open({ timetable: url(), logger: false })
  const topic = toc.topic<number>('spread')
  const tasks = Array.from({ length: 600 }, (_, n) => ({ key: `k${n}`, delay: 400, payload: n }))
  await topic.scheduleMany(tasks)
  const masters = await cluster.masters()
  const sizes = await Promise.all(masters.map((master) => master.cli('DBSIZE')))
  expect(
    sizes.map(Number).every((size) => size > 20),
    sizes.join(),
  ).toBe(true)
  expect(await topic.counts()).toMatchObject({ pending: 600 })
  const before = await scriptsOf()
  const handled = new Set<string>()
  const consumer = topic.consume(async ({ key }) => void handled.add(key))
  await eventually('all are handled', () => handled.size === tasks.length)
  await eventually('nothing is left', async () => (await topic.counts()).claimed === 0)
  const calls = (await scriptsOf()).map((count, n) => count - (before[n] ?? 0))
  console.log('scripts run by each master:', calls.join(', '))
  expect(calls.every((count) => count > 20)).toBe(true)
  await consumer.stop()
})

test('settings, pauses and nodes are shared by all processes of the cluster', async () => {
  await using one = await Tocsin.open({ timetable: url(), logger: false })
  await using two = await Tocsin.open({ timetable: url(), logger: false })
  await one.topic('shared').configure({ slots: 32 })
  await one.topic('shared').pause()
  await eventually('the other knows', async () => {
    const { effective, paused } = await two.topic('shared').config()
    return effective.slots === 32 && paused
  })
  await eventually('both are there', async () => (await two.nodes()).length >= 2)
})

describe('a slot that moves', () => {
  test('takes its tasks along, and calls wait until it has moved', async () => {
    await using toc = await Tocsin.open({ timetable: url(), logger: false })
    const topic = toc.topic<number>('moving')
    const keys = Array.from({ length: 200 }, (_, n) => `k${n}`)
    await topic.scheduleMany(keys.map((key, n) => ({ key, delay: '1h', payload: n })))
    const slot = slotOfCell('moving', cellOf('k0', 'key'))
    const from = await cluster.ownerOf(slot)
    const to = (await cluster.masters()).find((master) => master !== from)!
    let cancelling: Promise<unknown> | undefined
    await cluster.moveSlot(slot, to, {
      pageKeys: 1,
      async afterPage() {
        // Half of the keys of the cell are at the other master: neither can answer.
        cancelling ??= topic.cancel('k0')
      },
    })
    expect(await cancelling).toMatchObject({ outcome: 'cancelled' })
    expect(await topic.counts()).toMatchObject({ pending: 199 })
    const states = await Promise.all(keys.map(async (key) => (await topic.get(key))?.state))
    expect(states.filter((state) => state === 'pending')).toHaveLength(199)
  })

  test('has its channel at the new master: what is scheduled right after the move fires in time', async () => {
    await using worker = await openWakened()
    await using producer = await openWakened()
    const handled: string[] = []
    const consumer = worker.topic<null>('woken').consume(async ({ key }) => void handled.push(key))
    const slots = slotsOf('woken')
    for (const round of [0, 1, 2]) {
      const key = `round-${round}`
      const slot = slots[cellOf(key, 'key')] as number
      // The consumer is subscribed, and sleeps.
      await producer.topic<null>('woken').schedule({ key: `${key}:before`, delay: 20, payload: null })
      await eventually('woken before the move', () => handled.includes(`${key}:before`))
      const from = await cluster.ownerOf(slot)
      const to = (await cluster.masters()).find((master) => master !== from)!
      let scheduling: Promise<unknown> | undefined
      await cluster.moveSlot(slot, to, {
        async beforeFinish() {
          scheduling = producer.topic<null>('woken').schedule({ key, delay: 10, payload: null })
        },
      })
      await scheduling
      await eventually('woken after the move', () => handled.includes(key), 5_000)
    }
    await consumer.stop()
  })
})

test('a call whose reply is lost after a redirect is not sent again', async () => {
  const slot = slotOfCell('lost', cellOf('k', 'key'))
  const owner = await cluster.ownerOf(slot)
  const other = (await cluster.masters()).find((master) => master !== owner)!
  await using dropper = await startDropper(other)
  const { port } = new URL(dropper.url)
  const announce = async (announced: string, busPort: string) => {
    await other.ask('CONFIG', 'SET', 'cluster-announce-bus-port', busPort)
    await other.ask('CONFIG', 'SET', 'cluster-announce-port', announced)
    const shown = announced === '0' ? String(other.port) : announced
    for (const node of cluster.nodes)
      await eventually('all nodes know the address', async () =>
        (await node.cli('CLUSTER', 'SLOTS')).split('\n').includes(shown),
      )
  }
  // Clients get the address of the proxy; the nodes go on talking by the real bus port.
  await announce(port, String(other.port + 10_000))
  try {
    await using toc = await openAlone({ timetable: url(), callTimeout: '2s' })
    const topic = toc.topic<number>('lost')
    await topic.schedule({ key: 'k', delay: '1h', payload: 0 })
    await cluster.moveSlot(slot, other)
    // The other master has the script now, so that the next call is one command.
    const near = Array.from({ length: 10_000 }, (_, n) => `k${n}`).find(
      (key) => cellOf(key, 'key') === cellOf('k', 'key'),
    )
    expect(await topic.cancel(near!)).toMatchObject({ outcome: 'not-found' })
    const calls = async () => {
      const stats = await commandCalls(other)
      return (stats.get('evalsha') ?? 0) + (stats.get('eval') ?? 0)
    }
    const before = await calls()
    const dropped = dropper.dropReplyTo('EVALSHA')
    const failing = failureOf(topic.cancel('k'))
    await dropped
    expect(await failing).toMatchObject({ code: 'unknown-outcome' })
    expect((await calls()) - before).toBe(1)
    await eventually('the master is there again', async () => (await topic.get('k')) === null)
  } finally {
    await announce('0', '0')
    await cluster.untilReady()
  }
})
