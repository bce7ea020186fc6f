import { expect } from 'vitest'
import { byId, card, cardIds, heartbeatOf, heartbeats, theme } from './helpers.ts'

export const beating = theme('beating', [
  {
    name: 'a board is empty at first',
    async run({ board }) {
      expect(await board.cards()).toEqual([])
      expect(await board.records()).toEqual([])
    },
  },
  {
    name: 'the first beat answers itself, as new as can be',
    async run({ board }) {
      const reply = await board.beat(card('a'))
      expect([...byId(reply).keys()]).toEqual(['a'])
      const { beats, edition, ageMs } = heartbeatOf(reply, 'a')
      expect(beats).toBeGreaterThan(0)
      expect({ edition, ageMs }).toEqual({ edition: 1, ageMs: 0 })
    },
  },
  {
    name: 'each beat counts for its sender alone, and all are answered',
    async run({ board, another }) {
      const other = await another()
      const first = heartbeatOf(await board.beat(card('a')), 'a').beats
      const both = byId(await other.beat(card('b')))
      expect([...both.keys()].toSorted()).toEqual(['a', 'b'])
      expect(both.get('a')?.beats).toBe(first)
      let beats = first
      for (let n = 0; n < 12; n++) {
        const now = byId(await board.beat(card('a')))
        expect(now.get('a')?.beats).toBeGreaterThan(beats)
        expect(now.get('b')?.beats).toBe(both.get('b')?.beats)
        beats = now.get('a')?.beats ?? 0
      }
      expect((await heartbeats(other, 'b')).get('a')?.beats).toBe(beats)
    },
  },
  {
    name: 'an edition is seen by the others at their next beat',
    async run({ board, another }) {
      const other = await another()
      await board.beat(card('a', { edition: 1 }))
      expect((await heartbeats(other)).get('a')?.edition).toBe(1)
      await board.beat(card('a', { edition: 2 }))
      expect((await heartbeats(other)).get('a')?.edition).toBe(2)
      await board.beat(card('a', { edition: 9_007_199_254_740_991 }))
      expect((await heartbeats(other)).get('a')?.edition).toBe(9_007_199_254_740_991)
    },
  },
  {
    name: 'the age is the time since the last beat, by the clock of the board',
    async run({ board, another, advance }) {
      const other = await another()
      const expectAge = async (sinceMs: number) => {
        const reply = await other.beat(card('b'))
        const { ageMs } = heartbeatOf(reply, 'a')
        // A moment may be cut to whole milliseconds before or after the difference is taken.
        expect(Math.abs(ageMs - (reply.nowMs - sinceMs))).toBeLessThanOrEqual(2)
        expect(heartbeatOf(reply, 'b').ageMs).toBe(0)
        return ageMs
      }
      const first = await board.beat(card('a'))
      await expectAge(first.nowMs)
      await advance(200)
      expect(await expectAge(first.nowMs)).toBeGreaterThanOrEqual(198)
      const second = await board.beat(card('a'))
      expect(second.nowMs).toBeGreaterThanOrEqual(first.nowMs + 198)
      await expectAge(second.nowMs)
    },
  },
  {
    name: 'a card takes the place of the older one',
    async run({ board, another }) {
      const other = await another()
      await board.beat(card('a'))
      const newer = card('a', {
        edition: 2,
        topics: [],
        figures: { inFlight: 0, handled: 1, clockAheadMs: -2.5 },
      })
      await board.beat(newer)
      expect(await other.cards()).toEqual([newer])
      expect(await board.cards()).toEqual([newer])
    },
  },
  {
    name: 'the newer figures are there although the edition is the same',
    async run({ board, another }) {
      const other = await another()
      await board.beat(card('a'))
      const newer = card('a', { figures: { inFlight: 9, handled: 99_999, clockAheadMs: 4 } })
      await board.beat(newer)
      expect(await other.cards()).toEqual([newer])
    },
  },
  {
    name: 'cards come back as they are, whatever they say',
    async run({ board, another }) {
      const other = await another()
      const unusual = card('unusual', {
        name: 'Zürich-⏰-木-\u{1F514} "quoted" \\ \' % {} \n\t',
        host: '',
        pid: 2 ** 31,
        startedMs: 253_402_300_799_999,
        topics: [{ topic: 'none', capacity: 1, slots: 1, owned: [] }],
        figures: { inFlight: 0, handled: Number.MAX_SAFE_INTEGER, clockAheadMs: -0.25 },
      })
      const idle = card('idle', { topics: [] })
      const large = card('large', {
        topics: Array.from({ length: 500 }, (_, n) => ({
          topic: `topic-${n}`.padEnd(100, '.long'),
          capacity: n + 1,
          slots: 64,
          owned: Array.from({ length: 64 }, (__, slot) => slot),
        })),
      })
      for (const one of [unusual, idle, large]) await board.beat(one)
      const found = new Map((await other.cards()).map((one) => [one.id, one]))
      expect(found.size).toBe(3)
      for (const one of [unusual, idle, large]) expect(found.get(one.id)).toEqual(one)
    },
  },
  {
    name: 'what is answered is a copy',
    async run({ board }) {
      const given = card('a', { topics: [{ topic: 't', capacity: 1, slots: 1, owned: [0] }] })
      const reply = await board.beat(given)
      ;(given as { name: string }).name = 'changed afterwards'
      ;(given.topics as unknown[]).length = 0
      ;(heartbeatOf(reply, 'a') as { beats: number }).beats = -1
      const [first] = await board.cards()
      expect(first).toMatchObject({ name: 'name of a', topics: [{ topic: 't' }] })
      ;(first as { name: string }).name = 'changed by a reader'
      expect(await board.cards()).toMatchObject([{ name: 'name of a' }])
      expect((await heartbeats(board)).get('a')?.beats).toBeGreaterThan(0)
    },
  },
  {
    name: 'fifty nodes that beat at once are all there',
    async run({ board, another }) {
      const boards = [board, await another()]
      const ids = Array.from({ length: 50 }, (_, n) => `node-${String(n).padStart(2, '0')}`)
      await Promise.all(ids.map((id, n) => boards[n % 2]!.beat(card(id))))
      expect([...(await heartbeats(board, ids[0])).keys()].toSorted()).toEqual(ids)
      expect(await cardIds(board)).toEqual(ids)
    },
  },
  {
    name: 'the end of a process takes nothing down',
    async run({ board, another }) {
      const other = await another()
      await other.beat(card('a'))
      if (other !== board) await other.close()
      expect(await cardIds(board)).toEqual(['a'])
    },
  },
])
