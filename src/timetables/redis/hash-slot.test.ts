import { expect, it } from 'vitest'
import { hashSlotOf } from './hash-slot.ts'

it.each([
  // As CLUSTER KEYSLOT of Redis answers.
  ['foo', 12_182],
  ['bar', 5_061],
  ['123456789', 12_739],
  ['toc:{orders:0}:wake', hashSlotOf('orders:0')],
  ['{user1000}.following', hashSlotOf('user1000')],
  // An empty tag is none, and only the first one counts.
  ['foo{}{bar}', 8_363],
  ['foo{{bar}}zap', hashSlotOf('{bar')],
  ['foo{bar}{zap}', hashSlotOf('bar')],
  ['ä', hashSlotOf('ä')],
])('the hash slot of %s', (key, slot) => expect(hashSlotOf(key)).toBe(slot))
