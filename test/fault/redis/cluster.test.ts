/** Programs that schedule, cancel and consume on a real Redis Cluster, while slots move and masters fail. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hashSlotOf } from '../../../src/timetables/redis/hash-slot.ts'
import { ALL_CELLS } from '../../../src/values/cell.ts'
import { type RedisCluster, startRedisCluster } from '../../real-servers/redis-cluster.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { earlyAmong, endedKeys, eventsOf, fatesOf, lostOf, quantile, startedAgain } from '../records.ts'

const BEFORE = 200
const AFTER = 300
const RECOVERED_WITHIN_MS = 30_000

const slotsOf = (topic: string) => ALL_CELLS.map((cell) => hashSlotOf(`toc:{${topic}:${cell}}:wake`))

let cluster: RedisCluster
beforeAll(async () => {
  cluster = await startRedisCluster({ nodeTimeoutMs: 1_000 })
})
afterAll(() => cluster.stop())

const url = () => `redis+cluster://${cluster.addresses.slice(0, 3).join(',')}`

/** Lets `fault` happen while tasks are scheduled, cancelled and handled, and expects what must hold after it. */
async function underLoad(name: string, fault: () => Promise<void>): Promise<void> {
  const topic = name.replaceAll(/\W/g, '-')
  const open = { timetable: url(), callTimeout: 2_000, waitReplicas: 1 }
  const common = { open, topic, config: { lease: '5s' } }
  await using one = await startProgram('consumer', common)
  await using other = await startProgram('consumer', common)
  const consumers = [one, other]
  await Promise.all(consumers.map((consumer) => consumer.untilCount('ready', 1)))
  await using load = await startProgram('load', { ...common, loops: 16, paceMs: 15 })
  await load.untilCount('answer', BEFORE)
  const fromMs = Date.now()
  await fault()
  const toMs = Date.now()
  await load.untilCount('answer', load.of('answer').length + AFTER, RECOVERED_WITHIN_MS)
  load.signal('SIGUSR2')
  await load.untilCount('finished', 1)
  const fates = fatesOf(load)
  await eventually(
    'nothing is lost',
    () => lostOf(fates, endedKeys(consumers)).length === 0,
    RECOVERED_WITHIN_MS,
  )
  await Promise.all([...consumers, load].map((program) => program.close()))
  const starts = eventsOf(consumers, 'start')
  const lateMs = starts.map(({ dueMs, nowMs }) => nowMs - dueMs)
  const meanwhile = starts.filter(({ nowMs }) => nowMs >= fromMs && nowMs <= toMs)
  const figures = {
    accepted: fates.accepted.size,
    cancelled: fates.cancelled.size,
    unknown: fates.unknown.size,
    failures: load.of('failure').length,
    tookMs: toMs - fromMs,
    startedMeanwhile: meanwhile.length,
    lateP50: quantile(lateMs, 0.5),
    lateMax: quantile(lateMs, 1),
    again: startedAgain(starts).length,
  }
  console.log(`${name}:`, JSON.stringify(figures))
  expect(earlyAmong(starts, fates.accepted)).toEqual([])
  expect(starts.filter(({ key }) => fates.cancelled.has(key))).toEqual([])
  expect(eventsOf([...consumers, load], 'unhandled')).toEqual([])
  expect(meanwhile.length, 'the other masters go on').toBeGreaterThan(0)
}

test('all slots of a topic that one master has move to another one', { timeout: 90_000 }, () =>
  underLoad('slots move', async () => {
    const [from, to] = await cluster.masters()
    const slots: number[] = []
    for (const slot of slotsOf('slots-move')) if ((await cluster.ownerOf(slot)) === from) slots.push(slot)
    await cluster.moveSlots(slots, to!)
  }),
)

test('a master hands over to its replica', { timeout: 90_000 }, () =>
  underLoad('handed over', async () => {
    const [, , master] = await cluster.masters()
    await cluster.failover(await cluster.replicaOf(master!))
  }),
)

test('a master is killed, and its replica takes over', { timeout: 90_000 }, () =>
  underLoad('killed', async () => {
    const [master] = await cluster.masters()
    await cluster.kill(master!)
    await cluster.untilFailedOver(master!)
    // Writes are confirmed by a replica: the new master needs one.
    await master!.start()
    await cluster.untilReady()
    await sleep(500)
  }),
)

test('slots are dealt anew, 16, 64, 8, while a master is killed', { timeout: 90_000 }, () =>
  underLoad('dealt anew', async () => {
    const topic = 'dealt-anew'
    await using toc = await Tocsin.open({ timetable: url(), callTimeout: 2_000, logger: false })
    const deal = (slots: number) =>
      eventually(`${slots} slots`, () => toc.topic(topic).configure({ slots }), RECOVERED_WITHIN_MS)
    expect(await cellsWithKeys(topic)).toHaveLength(ALL_CELLS.length)
    await deal(64)
    const [, master] = await cluster.masters()
    await cluster.kill(master!)
    await deal(8)
    await cluster.untilFailedOver(master!)
    expect((await toc.topic(topic).config()).effective.slots).toBe(8)
    // Cells stay where their keys are: only who pulls them has changed.
    expect(await cellsWithKeys(topic)).toHaveLength(ALL_CELLS.length)
    await master!.start()
    await cluster.untilReady()
  }),
)

/** The cells of a topic that have keys. */
async function cellsWithKeys(topic: string): Promise<string[]> {
  const masters = (await cluster.masters()).filter((master) => master.isUp)
  const keys = await Promise.all(masters.map((master) => master.ask('KEYS', `toc:{${topic}:*}:meta`)))
  return keys.flat() as string[]
}
