/** What Redis promises beyond the contract: to many processes, and when it loses what it had. */
import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import type { Frontier, HintTable } from '../../../src/hint-table.ts'
import { allCalls, callsDuring, scriptCalls } from '../../redis/command-stats.ts'
import { startReplica } from '../../real-servers/redis-server.ts'
import { startProxy } from '../../real-servers/tcp-proxy.ts'
import { DONE, FAR_MS, keysOf, keysOfOneCell, place, RETURN } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  drop,
  expectCount,
  expectLane,
  has,
  hint,
  type HintCase,
  hold,
  holdFrom,
  LANES,
  now,
  put,
  putAll,
  rescue,
  settle,
  theme,
} from './helpers.ts'
import type { RedisHintHarness } from './redis-harness.ts'
import { Ears } from './waking.ts'

const FRONTIER: Frontier = { ...place('a'), ringMs: 1_000 }

/** The last part of the names of all keys there are. */
async function keyNames({ server, prefix }: RedisHintHarness): Promise<string[]> {
  const keys = (await server.ask('KEYS', `${prefix}:{*`)) as string[]
  return [...new Set(keys.map((key) => key.slice(key.lastIndexOf(':') + 1)))].toSorted()
}

/** After a restart, a connection needs a moment to come back. */
async function whenBack<T>(harness: RedisHintHarness, call: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await call()
    } catch (error) {
      if (tries === 1_000) throw error
      await harness.server.ask('PING')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
}

async function expectNewEpoch(table: HintTable, topic: string, old: string): Promise<void> {
  // Also before anybody has asked.
  expect(await table.filledTo(topic, old, { ...FRONTIER, ringMs: 2_000 })).toBe(false)
  const { epoch, frontier } = await table.filling(topic)
  expect(epoch).not.toBe(old)
  expect(frontier).toBeNull()
  expect(await table.filling(topic)).toEqual({ epoch, frontier: null })
  expect(await table.filledTo(topic, old, FRONTIER)).toBe(false)
  expect(await table.filledTo(topic, epoch, FRONTIER)).toBe(true)
  expect(await table.filling(topic)).toEqual({ epoch, frontier: FRONTIER })
}

const cases: readonly HintCase<RedisHintHarness>[] = [
  {
    name: 'a fraction of a millisecond rings at the next whole one, never before',
    async run(harness) {
      const atMs = (await now(harness)) + FAR_MS
      await putAll(harness, [hint('a', atMs - 0.6)])
      await harness.advance(FAR_MS - 1)
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await harness.advance(1)
      await expectLane(harness, 'a', 'normal')
    },
  },
  {
    name: 'it says that it is shared, and that it keeps whatever there is',
    async run({ table }) {
      expect(table).toMatchObject({ isShared: true, residentMax: Number.POSITIVE_INFINITY })
    },
  },
  {
    name: 'wiped: another epoch, and nothing is known to be in it',
    async run(harness) {
      const { table, topic } = harness
      const { epoch } = await table.filling(topic)
      await put(harness, 'a')
      await table.filledTo(topic, epoch, FRONTIER)
      await harness.wipe()
      await expectCount(harness, 0)
      await expectNewEpoch(table, topic, epoch)
    },
  },
  {
    name: 'wiped and filled by another process: what is told of the epoch before is not noted',
    async run(harness) {
      const { table, topic } = harness
      const other = await harness.another()
      const { epoch } = await table.filling(topic)
      await table.filledTo(topic, epoch, FRONTIER)
      await harness.wipe()
      const anew = await other.filling(topic)
      expect(anew).toEqual({ epoch: expect.not.stringMatching(epoch), frontier: null })
      expect(await table.filledTo(topic, epoch, FRONTIER)).toBe(false)
      expect(await other.filling(topic)).toEqual(anew)
    },
  },
  {
    name: 'restarted on what it had written: the hints are there, but it is another epoch',
    async run(harness) {
      const { table, topic, server } = harness
      await put(harness, 'a', { inMs: FAR_MS, lane: 'high' })
      const { epoch } = await table.filling(topic)
      await table.filledTo(topic, epoch, FRONTIER)
      // A regular shutdown: while its disk is busy, a killed Redis loses what it answered, the clock of the test included.
      await server.kill('SIGTERM')
      await server.start()
      const other = await harness.another()
      await expectNewEpoch(other, topic, epoch)
      expect(await whenBack(harness, () => table.filledTo(topic, epoch, FRONTIER))).toBe(false)
      expect(await table.filling(topic)).toEqual(await other.filling(topic))
      expect(await has(harness, 'a')).toBe(true)
    },
  },
  {
    name: 'a replica takes over: it has the hints, but it is another epoch',
    async run(harness) {
      const { table, topic, server } = harness
      await using replica = await startReplica(server)
      await put(harness, 'a', { inMs: FAR_MS })
      const { epoch } = await table.filling(topic)
      await table.filledTo(topic, epoch, FRONTIER)
      expect(await table.filling(topic)).toEqual({ epoch, frontier: FRONTIER })
      // On the connection of whoever wrote it would be WAIT; here its offset has to be seen.
      const offset = async () => /master_repl_offset:(\d+)/.exec(await server.cli('INFO', 'replication'))?.[1]
      const reached = async () =>
        /slave_repl_offset:(\d+)/.exec(await replica.cli('INFO', 'replication'))?.[1]
      const wanted = Number(await offset())
      await expect
        .poll(async () => Number(await reached()), { timeout: 10_000 })
        .toBeGreaterThanOrEqual(wanted)
      await replica.ask('REPLICAOF', 'NO', 'ONE')
      const promoted = await harness.another(replica.url)
      expect(await promoted.has(topic, [place('a')])).toEqual([true])
      await expectNewEpoch(promoted, topic, epoch)
      await promoted.close()
    },
  },
  {
    name: 'two processes share the hints, and how far they were filled',
    async run(harness) {
      const { table, topic } = harness
      const other = await harness.another()
      const [one, two] = await Promise.all([table.filling(topic), other.filling(topic)])
      expect(one).toEqual(two)
      expect(await table.filledTo(topic, one.epoch, FRONTIER)).toBe(true)
      expect(await other.filling(topic)).toEqual({ epoch: one.epoch, frontier: FRONTIER })
      const further = { ...FRONTIER, ringMs: 2_000 }
      expect(await other.filledTo(topic, one.epoch, further)).toBe(true)
      // The slower of the two says it later.
      expect(await table.filledTo(topic, one.epoch, FRONTIER)).toBe(true)
      expect(await table.filling(topic)).toEqual({ epoch: one.epoch, frontier: further })

      const [a = '', b = ''] = keysOfOneCell(2)
      const atMs = await now(harness)
      await Promise.all([
        table.put(topic, [hint(a, atMs)], 'lower'),
        other.put(topic, [hint(a, atMs)], 'lower'),
        other.put(topic, [hint(b, atMs)], 'set'),
      ])
      await expectCount(harness, 2)
      const theirs = { ...harness, table: other }
      const { stamp, tasks } = await claim(theirs, a)
      expect(keysOf(tasks)).toEqual([a, b])
      expect((await claim(harness, a)).tasks).toEqual([])
      const ears = await Ears.open(theirs)
      await ears.expectFence(a, stamp, 'cancelled', () => cancel(harness, a))
      await ears.expectFence(b, stamp, 'replaced', () => put(harness, b, { inMs: FAR_MS }))
      ears.stop()
    },
  },
  {
    name: 'of what a dead process held, another one gets all',
    async run(harness) {
      const keys = keysOfOneCell(100)
      const [first = ''] = keys
      const atMs = await now(harness)
      await putAll(
        harness,
        keys.map((key, i) => hint(key, atMs, { lane: LANES[i % 3] ?? 'normal' })),
      )
      const dying = await harness.another()
      expect((await claim({ ...harness, table: dying }, first, { leaseMs: 100 })).tasks).toHaveLength(100)
      await dying.close()
      await harness.advance(100)
      expect((await rescue(harness, first)).rescued).toBe(100)
      await harness.advance(2_000)
      const { tasks, stamp } = await claim(harness, first)
      expect(keysOf(tasks).toSorted()).toEqual(keys)
      // High ones first, as they were put.
      expect(keysOf(tasks.slice(0, 34)).toSorted()).toEqual(keys.filter((_, i) => i % 3 === 0))
      for (const key of keys) await settle(harness, key, stamp)
      expect(await keyNames(harness)).toEqual(['meta'])
    },
  },
  {
    name: 'there is nothing in Redis but keys and times, and at the end not even those',
    async run(harness) {
      for (const lane of LANES) {
        await put(harness, 'a', { lane })
        const lanes = [lane, 'meta']
        expect(await keyNames(harness)).toEqual(lanes.toSorted())
        const returned = await holdFrom(harness, 'a', lane)
        expect(await keyNames(harness)).toEqual(['claims', 'meta', 'records'])
        await settle(harness, 'a', returned, RETURN)
        expect(await keyNames(harness)).toEqual(lanes.toSorted())
        const stamp = await holdFrom(harness, 'a', lane)
        await settle(harness, 'a', stamp, DONE)
        expect(await keyNames(harness)).toEqual(['meta'])
      }
    },
  },
  {
    name: 'what is remembered of lost leases and of the cancelled goes with them, however they end',
    async run(harness) {
      const lost = async () => {
        await put(harness, 'a')
        await hold(harness, 'a', { leaseMs: 100 })
        await harness.advance(100)
        await rescue(harness, 'a')
        expect(await keyNames(harness)).toContain('tries')
        await harness.advance(2_000)
      }
      const held = async () => {
        await lost()
        const stamp = await hold(harness, 'a', { leaseMs: 100 })
        await cancel(harness, 'a')
        expect(await keyNames(harness)).toContain('marks')
        return stamp
      }
      const ends = [
        () => lost().then(() => cancel(harness, 'a')),
        () => lost().then(() => drop(harness, 'a')),
        () => lost().then(async () => settle(harness, 'a', await hold(harness, 'a'))),
        () => held().then((stamp) => settle(harness, 'a', stamp, DONE)),
        () => held().then((stamp) => settle(harness, 'a', stamp, RETURN)),
        () => held().then(() => drop(harness, 'a')),
        () => held().then(async () => (await harness.advance(100), rescue(harness, 'a'))),
      ]
      for (const end of ends) {
        await end()
        expect(await keyNames(harness)).toEqual(['meta'])
      }
      await lost()
      await put(harness, 'a', { inMs: -FAR_MS, mode: 'lower' })
      expect(await keyNames(harness)).toEqual(['meta', 'normal'])
      await held()
      await put(harness, 'a')
      expect(await keyNames(harness)).toEqual(['meta', 'normal'])
    },
  },
  {
    name: 'a thousand hints of one cell are one script call, of as many commands as one hint',
    async run(harness) {
      const { server, topic, table } = harness
      const [one = '', ...keys] = keysOfOneCell(1_001)
      const atMs = (await now(harness)) + FAR_MS
      const steps = (some: readonly string[]): (() => Promise<unknown>)[] => [
        () =>
          putAll(
            harness,
            some.map((key) => hint(key, atMs)),
          ),
        () =>
          putAll(
            harness,
            some.map((key) => hint(key, atMs - 1, { lane: 'high' })),
          ),
        () =>
          putAll(
            harness,
            some.map((key) => hint(key, atMs - 1)),
            'lower',
          ),
        () =>
          putAll(
            harness,
            some.map((key) => hint(key, atMs - 2)),
            'lower',
          ),
        () =>
          table.has(
            topic,
            some.map((key) => place(key)),
          ),
        () => cancel(harness, ...some),
        () =>
          putAll(
            harness,
            some.map((key) => hint(key, atMs)),
            'lower',
          ),
        () => drop(harness, ...some),
      ]
      // So that Redis knows the scripts.
      for (const step of steps([one])) await step()
      const costs: number[] = []
      for (const step of steps([one])) costs.push(allCalls(await callsDuring(server, step)))
      for (const [i, step] of steps(keys).entries()) {
        const stats = await callsDuring(server, step)
        expect(scriptCalls(stats)).toBe(1)
        expect(allCalls(stats)).toBeLessThanOrEqual(costs[i] ?? 0)
        expect(allCalls(stats)).toBeLessThanOrEqual(16)
      }
    },
  },
  {
    name: 'more failures than are counted delay nothing',
    async run(harness) {
      await put(harness, 'a', { failures: 5_000 })
      await expectLane(harness, 'a', 'normal')
    },
  },
  {
    name: 'a full Redis takes no more hints, but what it has goes on',
    async run(harness) {
      const { server, table, topic } = harness
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      for (const key of [a, b]) await put(harness, key)
      const { epoch } = await table.filling(topic)
      await server.ask('CONFIG', 'SET', 'maxmemory', '1')
      try {
        for (const mode of ['set', 'lower'] as const)
          await expect(put(harness, c, { mode })).rejects.toMatchObject({ code: 'timetable-full' })
        const { stamp, tasks } = await claim(harness, a)
        expect(keysOf(tasks)).toEqual([a, b])
        await cancel(harness, a)
        expect(await settle(harness, a, stamp)).toBe('settled')
        await drop(harness, b)
        expect(await table.filledTo(topic, epoch, FRONTIER)).toBe(true)
        expect(await table.filling(topic)).toEqual({ epoch, frontier: FRONTIER })
      } finally {
        await server.ask('CONFIG', 'SET', 'maxmemory', '0')
      }
      await expectCount(harness, 0)
    },
  },
  {
    name: 'a lost reply leaves nothing open: the call may be repeated',
    async run(harness) {
      const { server, topic } = harness
      const proxy = await startProxy(server)
      const far = await harness.another(proxy.url(server.url))
      try {
        await far.put(topic, [hint('warm', 0)], 'set')
        await far.drop(topic, [place('warm')])
        const dropped = proxy.dropNextReply()
        await expect(far.put(topic, [hint('a', 0)], 'set')).rejects.toMatchObject({
          code: 'timetable-unavailable',
        })
        await dropped
        expect(await has(harness, 'a')).toBe(true)
        expect(await whenBack(harness, () => far.put(topic, [hint('a', 0)], 'set'))).toBe(1)
        await expectCount(harness, 1)
      } finally {
        await far.close()
        await proxy.stop()
      }
    },
  },
  {
    name: 'the user that docs/redis.md describes may do everything; one that may not ask INFO is refused',
    async run(harness) {
      const { server, topic, prefix } = harness
      const docs = readFileSync(new URL('../../../docs/redis.md', import.meta.url), 'utf8')
      const [, line = ''] = /```redis\n(ACL SETUSER .*)\n```/.exec(docs) ?? []
      const words = line.replaceAll('toc:*', `${prefix}:*`).split(' ')
      await server.ask(...words)
      const url = server.url.replace('//', '//tocsin:password@')
      const theirs = { ...harness, table: await harness.another(url) }
      const { epoch } = await theirs.table.filling(topic)
      expect(await theirs.table.filledTo(topic, epoch, FRONTIER)).toBe(true)
      for (const lane of LANES) {
        await put(theirs, 'a', { lane })
        await holdFrom(theirs, 'a', lane)
        await cancel(theirs, 'a')
        await put(theirs, 'a', { mode: 'lower' })
        await drop(theirs, 'a')
      }
      await expectCount(theirs, 0)
      await server.ask(...words, '-info', '+config|get')
      await expect(harness.another(url)).rejects.toMatchObject({ code: 'timetable-refused' })
      await server.ask('ACL', 'DELUSER', 'tocsin')
    },
  },
]

export const onRedis = theme('on Redis', cases)
