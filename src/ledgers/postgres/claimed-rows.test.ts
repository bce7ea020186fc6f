import { describe, expect, it } from 'vitest'
import { ClaimedRows } from './claimed-rows.ts'

const TOPIC = 1
const CELL = 2
const STAMP = 3

function remembering(): ClaimedRows {
  const rows = new ClaimedRows()
  rows.remember(TOPIC, CELL, STAMP, 'a\x1eb\x1ec', '(0,1);(0,2);(0,3)')
  return rows
}

describe('ClaimedRows', () => {
  it('returns the places of all rows of a claim, or of some, in any order', () => {
    expect(remembering().take(TOPIC, CELL, STAMP, ['a', 'b', 'c'])).toBe('(0,1);(0,2);(0,3)')
    const rows = remembering()
    expect(rows.take(TOPIC, CELL, STAMP, ['c', 'a'])).toBe('(0,3);(0,1)')
    expect(rows.take(TOPIC, CELL, STAMP, ['b'])).toBe('(0,2)')
  })

  it('knows nothing about another topic, cell or stamp, or about a key that the claim did not return', () => {
    const rows = remembering()
    expect(rows.take(TOPIC + 1, CELL, STAMP, ['a'])).toBeNull()
    expect(rows.take(TOPIC, CELL + 1, STAMP, ['a'])).toBeNull()
    expect(rows.take(TOPIC, CELL, STAMP + 1, ['a'])).toBeNull()
    expect(rows.take(TOPIC, CELL, STAMP, ['a', 'z'])).toBeNull()
  })

  it('forgets a claim whose rows were changed, and one whose rows were all taken', () => {
    const changed = remembering()
    changed.forget(TOPIC, CELL, STAMP)
    expect(changed.take(TOPIC, CELL, STAMP, ['a'])).toBeNull()
    const ended = remembering()
    ended.take(TOPIC, CELL, STAMP, ['a', 'b', 'c'])
    expect(ended.take(TOPIC, CELL, STAMP, ['a'])).toBeNull()
  })

  it('forgets the oldest claims if others settle them, so that it does not grow for ever', () => {
    const rows = remembering()
    const keys = 'k'.repeat(1_000_000)
    for (let stamp = 10; stamp < 14; stamp++) rows.remember(TOPIC, CELL, stamp, keys, '(0,1)')
    expect(rows.take(TOPIC, CELL, STAMP, ['a'])).toBeNull()
    expect(rows.take(TOPIC, CELL, 10, [keys])).toBeNull()
    expect(rows.take(TOPIC, CELL, 13, [keys])).toBe('(0,1)')
  })
})
