import { expect } from 'vitest'
import { SCOPES } from '../../../src/values/access-token.ts'
import { change, changed, recordsOf, revision, theme, token } from './helpers.ts'

export const tokens = theme('tokens', [
  {
    name: 'there are none at first, and none to be dropped',
    async run({ board }) {
      expect(await board.tokens()).toEqual([])
      expect(await board.dropToken('a')).toBe(false)
    },
  },
  {
    name: 'what one process keeps all of them have, until one of them drops it',
    async run({ board, another }) {
      const other = await another()
      await board.putToken(token('a'))
      expect(await other.tokens()).toEqual([token('a')])
      expect(await other.dropToken('a')).toBe(true)
      expect(await board.tokens()).toEqual([])
      expect(await board.dropToken('a')).toBe(false)
    },
  },
  {
    name: 'they come in the order of their creation, and of their ids',
    async run({ board, another }) {
      const other = await another()
      const all = [
        token('z', { createdMs: 1 }),
        token('B', { createdMs: 2 }),
        token('a', { createdMs: 2 }),
        token('c', { createdMs: 10 }),
      ]
      for (const n of [2, 3, 0, 1]) await [board, other][n % 2]!.putToken(all[n]!)
      expect(await board.tokens()).toEqual(all)
      expect(await other.tokens()).toEqual(all)
    },
  },
  {
    name: 'one takes the place of the one with its id',
    async run({ board, another }) {
      const other = await another()
      await board.putToken(token('a'))
      await board.putToken(token('b'))
      const newer = token('a', { name: 'renamed', scopes: ['read'], expiresMs: 5, rate: null })
      await other.putToken(newer)
      expect(await board.tokens()).toEqual([newer, token('b')])
    },
  },
  {
    name: 'kept and dropped again, after a reply was lost',
    async run({ board, another }) {
      const other = await another()
      await board.putToken(token('a'))
      await board.putToken(token('a'))
      await other.putToken(token('a'))
      expect(await board.tokens()).toEqual([token('a')])
      expect(await board.dropToken('a')).toBe(true)
      expect(await board.dropToken('a')).toBe(false)
      await other.putToken(token('a', { name: 'again' }))
      expect(await board.tokens()).toEqual([token('a', { name: 'again' })])
    },
  },
  {
    name: 'kept and dropped by several at once: all are there, and one of them has dropped it',
    async run({ board, another }) {
      const boards = [board, await another()]
      const all = Array.from({ length: 12 }, (_, n) => token(`t${String(n).padStart(2, '0')}`))
      // Each by both.
      await Promise.all(all.flatMap((one) => boards.map((at) => at.putToken(one))))
      expect(await board.tokens()).toEqual(all)
      const dropped = await Promise.all(all.flatMap(({ id }) => boards.map((at) => at.dropToken(id))))
      expect(dropped.filter(Boolean)).toHaveLength(all.length)
      expect(await board.tokens()).toEqual([])
    },
  },
  {
    name: 'they come back as they are, whatever they say',
    async run({ board, another }) {
      const other = await another()
      const unusual = token('a:b/ü-⏰ "\\ \' % {}', {
        name: 'Zürich-⏰-木-\u{1F514} "quoted" \\ \' % {} \n\t',
        scopes: SCOPES,
        topicPrefix: '',
        createdMs: 0,
        expiresMs: 253_402_300_799_999,
        rate: { limit: 1, perMs: 0.5 },
        bodyBytesMax: Number.MAX_SAFE_INTEGER,
      })
      const least = token('least', {
        name: '',
        scopes: [],
        topicPrefix: null,
        expiresMs: null,
        rate: null,
        bodyBytesMax: null,
      })
      await board.putToken(unusual)
      await board.putToken(least)
      expect(await other.tokens()).toEqual([unusual, least])
    },
  },
  {
    name: 'what is given and answered is a copy',
    async run({ board }) {
      const given = structuredClone(token('a'))
      const putting = board.putToken(given)
      ;(given as { name: string }).name = 'changed'
      ;(given.rate as { limit: number }).limit = 1
      await putting
      const [answered] = await board.tokens()
      expect(answered).toEqual(token('a'))
      ;(answered!.scopes as string[]).push('admin')
      ;(answered!.rate as { limit: number }).limit = 2
      expect(await board.tokens()).toEqual([token('a')])
    },
  },
  {
    name: 'tokens and topics do not touch each other',
    async run({ board }) {
      await board.create('t', 16, 'key')
      const record = await changed(board, 't', 0, change({ declared: { lease: '9s' } }))
      const before = await revision(board)
      await board.putToken(token('t'))
      await board.dropToken('t')
      expect(await revision(board)).toBe(before)
      expect(await recordsOf(board)).toEqual({ t: record })
    },
  },
])
