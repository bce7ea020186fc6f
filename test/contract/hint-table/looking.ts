import { expect } from 'vitest'
import { FAR_MS, keysOf, keysOfOneCell, place, RETURN } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  drop,
  expectCount,
  find,
  has,
  hint,
  hold,
  LANES,
  now,
  put,
  putAll,
  settle,
  theme,
} from './helpers.ts'

export const looking = theme('looking', [
  {
    name: 'the extent counts what waits and what is held, and the head is the first that waits',
    async run(harness) {
      const { table, topic } = harness
      expect(await table.extent(topic)).toEqual({ count: 0, headMs: null })
      const nowMs = await now(harness)
      const [a = '', b = '', c = '', d = ''] = keysOfOneCell(4)
      for (const [i, key] of [a, b, c, d].entries())
        await put(harness, key, { inMs: 1_000 * i, lane: LANES[3 - i] ?? 'normal' })
      expect(await table.extent(topic)).toEqual({ count: 4, headMs: nowMs })
      const stamp = await hold(harness, a, { from: 'suspects' })
      expect(await table.extent(topic)).toEqual({ count: 4, headMs: nowMs + 1_000 })
      await drop(harness, b)
      await cancel(harness, c)
      expect(await table.extent(topic)).toEqual({ count: 2, headMs: nowMs + 3_000 })
      await settle(harness, a, stamp)
      expect(await table.extent(topic)).toEqual({ count: 1, headMs: nowMs + 3_000 })
      expect(await table.extent(`${topic}-other`)).toEqual({ count: 0, headMs: null })
    },
  },
  {
    name: 'has: waiting in any lane, or held',
    async run(harness) {
      const keys = keysOfOneCell(6)
      for (const [i, lane] of LANES.entries()) await put(harness, keys[i] ?? '', { inMs: FAR_MS, lane })
      await put(harness, keys[4] ?? '')
      await hold(harness, keys[4] ?? '')
      expect(
        await harness.table.has(
          harness.topic,
          keys.map((key) => place(key)),
        ),
      ).toEqual([true, true, true, true, true, false])
      expect(await harness.table.has(`${harness.topic}-other`, [place(keys[0] ?? '')])).toEqual([false])
    },
  },
  {
    name: 'find: thousands of one cell, waiting in all lanes and held, each of them, and nothing else',
    async run(harness) {
      const keys = keysOfOneCell(6_000)
      const [first = ''] = keys
      const atMs = await now(harness)
      await putAll(
        harness,
        keys.map((key, i) => hint(key, atMs + (i % 10), { lane: LANES[i % 4] ?? 'normal' })),
      )
      // Every tenth is due: those that are not suspects are taken.
      const { tasks } = await claim(harness, first, { limit: 1_000 })
      expect(tasks.length).toBeGreaterThan(200)
      await putAll(harness, [hint('elsewhere', atMs)])
      expect(await find(harness, first)).toEqual(keys)
      await drop(harness, ...keys.slice(3_000))
      expect(await find(harness, first)).toEqual(keys.slice(0, 3_000))
    },
  },
  {
    name: 'find: what is there all the time is found, though it is claimed and given back meanwhile',
    async run(harness) {
      const keys = keysOfOneCell(3_000)
      const [first = ''] = keys
      const atMs = await now(harness)
      await putAll(
        harness,
        keys.map((key, i) => hint(key, atMs + i)),
      )
      await harness.advance(3_000)
      let held = await claim(harness, first, { limit: 1_000 })
      const giveBackAndTakeOthers = async () => {
        const { stamp, tasks } = held
        held = await claim(harness, first, { limit: 1_000 })
        const at = { topic: harness.topic, cell: place(first).cell }
        await harness.table.settle(
          at,
          keysOf(tasks).map((key) => ({ key, stamp, outcome: RETURN })),
        )
      }
      expect(await find(harness, first, { all: true }, giveBackAndTakeOthers)).toEqual(keys)
      await expectCount(harness, 3_000)
    },
  },
  {
    name: 'find: by prefix; the dead and tags are the ledger’s',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2, 'user-1:')
      const [c = ''] = keysOfOneCell(1, 'user-10:', a)
      for (const key of [a, b, c]) await put(harness, key)
      const at = { topic: harness.topic, cell: place(a).cell }
      expect(await find(harness, a, { prefix: 'user-1' })).toEqual([a, b])
      expect(await find(harness, a, { prefix: 'user-10' })).toEqual([c])
      expect(await find(harness, a, { prefix: 'user' })).toEqual([])
      expect(await find(harness, a, { tag: 'user-1' })).toEqual([])
      expect(await harness.table.find(at, 'dead', { all: true }, null)).toEqual({ keys: [], cursor: null })
    },
  },
  {
    name: 'look tells the next ring, suspects included, and the next end of a lease',
    async run(harness) {
      const { table, topic } = harness
      const [a = '', b = ''] = keysOfOneCell(2)
      const at = { topic, cell: place(a).cell }
      expect(await table.look(at)).toEqual({ ringInMs: null, leaseEndInMs: null })
      await put(harness, a, { inMs: FAR_MS, lane: 'low' })
      expect(await table.look(at)).toEqual({ ringInMs: FAR_MS, leaseEndInMs: null })
      await put(harness, b, { inMs: 500, lane: 'suspects' })
      expect(await table.look(at)).toEqual({ ringInMs: 500, leaseEndInMs: null })
      await harness.advance(500)
      await hold(harness, b, { from: 'suspects', leaseMs: 300 })
      expect(await table.look(at)).toEqual({ ringInMs: FAR_MS - 500, leaseEndInMs: 300 })
      // It may be too near, never too far.
      await put(harness, a, { inMs: 100, mode: 'lower' })
      expect(await table.look(at)).toEqual({ ringInMs: 100, leaseEndInMs: 300 })
    },
  },
  {
    name: 'keys of any kind',
    async run(harness) {
      const keys = ['', ' ', 'a b', 'a\tb', 'ключ', '鍵', '🔑', 'x'.repeat(512), "'", '{}', '*']
      const atMs = await now(harness)
      await putAll(
        harness,
        keys.map((key) => hint(key, atMs)),
      )
      for (const key of keys) {
        expect(await has(harness, key)).toBe(true)
        expect(await find(harness, key)).toContain(key)
        const { stamp, tasks } = await claim(harness, key)
        for (const task of tasks) expect(await settle(harness, task.key, stamp, RETURN)).toBe('settled')
      }
      await drop(harness, ...keys)
      await expectCount(harness, 0)
    },
  },
])
