import { expect, it } from 'vitest'
import { hashSlotOf } from './hash-slot.ts'
import { Keys } from './keys.ts'

// Stored data is found by these names, and the Lua scripts read them from KEYS in this order.
it('names the keys of a cell', () => {
  expect(new Keys('tocsin').of('order.é', 7)).toEqual({
    all: [
      'tocsin:{order.é:7}:high',
      'tocsin:{order.é:7}:normal',
      'tocsin:{order.é:7}:low',
      'tocsin:{order.é:7}:suspects',
      'tocsin:{order.é:7}:claims',
      'tocsin:{order.é:7}:records',
      'tocsin:{order.é:7}:prepare',
      'tocsin:{order.é:7}:leases',
      'tocsin:{order.é:7}:pool',
      'tocsin:{order.é:7}:tries',
      'tocsin:{order.é:7}:tags',
      'tocsin:{order.é:7}:marks',
      'tocsin:{order.é:7}:dead',
      'tocsin:{order.é:7}:graves',
      'tocsin:{order.é:7}:meta',
      'tocsin:{order.é:7}:wake',
    ],
    hashSlot: hashSlotOf('order.é:7'),
    meta: 'tocsin:{order.é:7}:meta',
    channel: 'tocsin:{order.é:7}:wake',
  })
})

it('names the keys of the board', () => {
  const keys = new Keys('p')
  const five = ['beats', 'cards', 'topics', 'meta', 'news'].map((name) => `p:{board}:${name}`)
  expect(keys.board).toEqual({
    all: five,
    hashSlot: hashSlotOf('board'),
    cards: 'p:{board}:cards',
    topics: 'p:{board}:topics',
    tokens: 'p:{board}:tokens',
    channel: 'p:{board}:news',
  })
  expect(keys.boardOf('mail')).toMatchObject({
    all: [...five, 'p:{board}:changes:mail'],
    changes: 'p:{board}:changes:mail',
  })
  expect(keys.boardOfTokens.all).toEqual([...five, 'p:{board}:tokens'])
  expect(keys.pattern).toBe('p:*')
})

it('has channels of its own in each database, because all databases of a server share them', () => {
  const keys = new Keys('p', 3)
  expect(keys.board.channel).toBe('p:{board}:news:3')
  expect(keys.board.all.at(-1)).toBe('p:{board}:news:3')
  expect(keys.of('mail', 0)).toMatchObject({ meta: 'p:{mail:0}:meta', channel: 'p:{mail:0}:wake:3' })
  expect(keys.of('mail', 0).all.at(-1)).toBe('p:{mail:0}:wake:3')
})

it('has 64 cells per topic, and builds their names once', () => {
  const keys = new Keys('p')
  expect(keys.ofTopic('mail')).toHaveLength(64)
  expect(new Set(keys.ofTopic('mail').map(({ meta }) => meta)).size).toBe(64)
  expect(keys.ofTopic('mail')).toBe(keys.ofTopic('mail'))
  expect(keys.of('mail', 63)).toBe(keys.ofTopic('mail')[63])
})
