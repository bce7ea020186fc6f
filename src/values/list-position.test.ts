import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareFrontiers, compareKeys, comparePositions, positionOf } from './list-position.ts'

const text = fc.string({ unit: 'binary' })

describe('the order of keys', () => {
  it('is the order of their UTF-8 bytes, as databases sort them', () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(Math.sign(compareKeys(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)))
      }),
    )
  })

  it('puts characters above U+FFFF after all others, which UTF-16 does not', () => {
    const keys = ['a', 'b', 'é', '漢', '\uffee', '🔔']
    expect(keys.toReversed().toSorted(compareKeys)).toEqual(keys)
    expect(compareKeys('\uffee', '🔔')).toBeLessThan(0)
    expect(compareKeys('🔔', '\uffee')).toBeGreaterThan(0)
    expect(compareKeys('é', 'é')).toBe(0)
  })
})

describe('the order of a listing', () => {
  it('is by ring time, then by failures, then by key', () => {
    const listed = [
      { ringMs: 1, failures: 9, key: 'z' },
      { ringMs: 2, failures: 0, key: 'z' },
      { ringMs: 2, failures: 1, key: 'a' },
      { ringMs: 2, failures: 1, key: 'é' },
    ]
    expect(listed.toReversed().toSorted(comparePositions)).toEqual(listed)
  })

  it('has the generation in place of the failures for ended tasks, which may share key and time', () => {
    const task = { ringMs: 5, failures: 3, key: 'a', generation: 8 }
    expect(positionOf({ ...task, state: 'pending' })).toEqual({ ringMs: 5, failures: 3, key: 'a' })
    expect(positionOf({ ...task, state: 'claimed' })).toEqual({ ringMs: 5, failures: 3, key: 'a' })
    expect(positionOf({ ...task, state: 'done' })).toEqual({ ringMs: 5, failures: 8, key: 'a' })
    expect(positionOf({ ringMs: 5, failures: 3, key: 'a', state: 'dead' }).failures).toBe(0)
  })
})

describe('the order of frontiers', () => {
  it('is by ring time, then by cell, then by key, and begins before all hints', () => {
    const order = [
      { ringMs: -Infinity, cell: 0, key: '' },
      { ringMs: -Infinity, cell: 1, key: '' },
      { ringMs: 5, cell: 2, key: 'b' },
      { ringMs: 5, cell: 3, key: 'a' },
      { ringMs: 5, cell: 3, key: 'b' },
      { ringMs: 6, cell: 0, key: 'a' },
    ]
    for (const [i, a] of order.entries())
      for (const [j, b] of order.entries()) expect(Math.sign(compareFrontiers(a, b))).toBe(Math.sign(i - j))
  })
})
