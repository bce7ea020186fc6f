import { expect } from 'vitest'
import { card, cardIds, heartbeatOf, heartbeats, theme } from './helpers.ts'

export const leaving = theme('leaving', [
  {
    name: 'who leaves is gone for all, and the others stay',
    async run({ board, another }) {
      const other = await another()
      await board.beat(card('a'))
      await other.beat(card('b'))
      await board.leave('a')
      expect(await cardIds(other)).toEqual(['b'])
      expect([...(await heartbeats(other, 'b')).keys()]).toEqual(['b'])
    },
  },
  {
    name: 'to leave twice, or without ever having been there, does no harm',
    async run({ board }) {
      await board.beat(card('a'))
      await board.beat(card('b'))
      await board.leave('a')
      await board.leave('a')
      await board.leave('nobody')
      expect(await cardIds(board)).toEqual(['b'])
    },
  },
  {
    name: 'who did not beat since is buried',
    async run({ board, another }) {
      const other = await another()
      await board.beat(card('a'))
      const { beats } = heartbeatOf(await other.beat(card('b')), 'a')
      await other.bury('a', beats)
      expect(await cardIds(board)).toEqual(['b'])
      expect([...(await heartbeats(other, 'b')).keys()]).toEqual(['b'])
      await other.bury('a', beats)
      await other.bury('nobody', 0)
      expect(await cardIds(board)).toEqual(['b'])
    },
  },
  {
    name: 'who beat since is not buried',
    async run({ board, another }) {
      const other = await another()
      await board.beat(card('a'))
      const { beats } = heartbeatOf(await other.beat(card('b')), 'a')
      await board.beat(card('a'))
      await other.bury('a', beats)
      expect(await cardIds(other)).toEqual(['a', 'b'])
      expect((await heartbeats(other, 'b')).get('a')?.beats).toBeGreaterThan(beats)
    },
  },
  {
    name: 'who beats after it was buried is up again',
    async run({ board, another }) {
      const other = await another()
      const { beats } = heartbeatOf(await board.beat(card('a')), 'a')
      await other.bury('a', beats)
      const again = card('a', { edition: 5 })
      const { beats: first, edition } = heartbeatOf(await board.beat(again), 'a')
      expect(first).toBeGreaterThan(0)
      expect(edition).toBe(5)
      expect(await other.cards()).toEqual([again])
      expect(heartbeatOf(await board.beat(again), 'a').beats).toBeGreaterThan(first)
    },
  },
  {
    name: 'who beats after it left is up again',
    async run({ board }) {
      await board.beat(card('a'))
      await board.leave('a')
      await board.beat(card('a'))
      expect(await cardIds(board)).toEqual(['a'])
    },
  },
])
