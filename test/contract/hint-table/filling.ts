import { expect } from 'vitest'
import { place } from '../timetable/helpers.ts'
import { now, put, theme } from './helpers.ts'

export const filling = theme('filling', [
  {
    name: 'at first nothing is known, and asking does not change the epoch',
    async run({ table, topic }) {
      const first = await table.filling(topic)
      expect(first.frontier).toBeNull()
      expect(first.epoch).not.toBe('')
      expect(await table.filling(topic)).toEqual(first)
    },
  },
  {
    name: 'what was told last is known, whatever the key',
    async run({ table, topic }) {
      const { epoch } = await table.filling(topic)
      let ringMs = 1_000
      for (const key of ['a', '', ' ', 'a b  c', 'a\nb\n', ' 1 2 ', 'ключ', '🔑', '|'.repeat(500)]) {
        const frontier = { ...place(key), ringMs: ++ringMs }
        expect(await table.filledTo(topic, epoch, frontier)).toBe(true)
        expect(await table.filling(topic)).toEqual({ epoch, frontier })
      }
    },
  },
  {
    name: 'a frontier does not go back: by time, then by cell, then by the bytes of the key',
    async run({ table, topic }) {
      const { epoch } = await table.filling(topic)
      const ascending = [
        { ringMs: 0, cell: 5, key: 'x' },
        { ringMs: 9, cell: 5, key: 'x' },
        { ringMs: 10, cell: 5, key: 'x' },
        { ringMs: 10, cell: 40, key: '' },
        { ringMs: 10, cell: 40, key: 'Z' },
        { ringMs: 10, cell: 40, key: 'a' },
        { ringMs: 10, cell: 40, key: 'a ' },
        { ringMs: 10, cell: 40, key: 'b' },
        { ringMs: 10, cell: 40, key: 'ä' },
        { ringMs: 10, cell: 40, key: '\uffff' },
        { ringMs: 10, cell: 40, key: '\u{10000}' },
        // The end of a reading: after the last cell.
        { ringMs: 10, cell: 64, key: '' },
        { ringMs: 1_767_225_600_000, cell: 0, key: '' },
      ]
      for (const [i, frontier] of ascending.entries()) {
        expect(await table.filledTo(topic, epoch, frontier)).toBe(true)
        for (const earlier of ascending.slice(0, i + 1)) {
          expect(await table.filledTo(topic, epoch, earlier)).toBe(true)
          expect(await table.filling(topic)).toEqual({ epoch, frontier })
        }
      }
    },
  },
  {
    name: 'what is told of another epoch is not noted',
    async run({ table, topic }) {
      const frontier = { ...place('a'), ringMs: 1_000 }
      expect(await table.filledTo(topic, 'another one', frontier)).toBe(false)
      const { epoch } = await table.filling(topic)
      expect(await table.filledTo(topic, `${epoch}?`, frontier)).toBe(false)
      expect(await table.filledTo(topic, '', frontier)).toBe(false)
      expect(await table.filling(topic)).toEqual({ epoch, frontier: null })
    },
  },
  {
    name: 'each topic is filled by itself',
    async run({ table, topic }) {
      const other = `${topic}-other`
      const { epoch } = await table.filling(topic)
      await table.filledTo(topic, epoch, { ...place('a'), ringMs: 1_000 })
      expect((await table.filling(other)).frontier).toBeNull()
    },
  },
  {
    name: 'what is put, claimed and dropped has nothing to do with it',
    async run(harness) {
      const { table, topic } = harness
      const { epoch } = await table.filling(topic)
      const frontier = { ...place('a'), ringMs: await now(harness) }
      await table.filledTo(topic, epoch, frontier)
      for (let cell = 0; cell < 64; cell++) {
        await table.put(
          topic,
          [{ key: 'a', cell, ringMs: 0, failures: 0, priority: 'normal', isSuspect: false }],
          'set',
        )
        const request = {
          req: `r${cell}`,
          limit: 1,
          leaseMs: 1,
          from: 'lanes',
          wholePrefixes: false,
        } as const
        expect((await table.claim({ topic, cell }, request)).tasks).toHaveLength(1)
        await table.drop(topic, [{ key: 'a', cell }])
      }
      await put(harness, 'a')
      expect(await table.filling(topic)).toEqual({ epoch, frontier })
    },
  },
])
