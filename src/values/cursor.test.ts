import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeCursor, encodeCursor } from './cursor.ts'

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('a cursor', () => {
  // A caller may go on with a page of another version.
  it.each([
    [{ ringMs: 1_700_000_000_123, failures: 2, key: 'order-42' }, 'WzE3MDAwMDAwMDAxMjMsMiwib3JkZXItNDIiXQ'],
    [{ ringMs: 0, failures: 0, key: 'é:🔔' }, 'WzAsMCwiw6k68J-UlCJd'],
  ])('is this text', (position, text) => {
    expect(encodeCursor(position)).toBe(text)
    expect(decodeCursor(text)).toEqual(position)
  })

  it('gives back every position', () => {
    const key = fc
      .string({ unit: 'grapheme', maxLength: 20 })
      .filter((text) => !/\p{C}/u.test(text))
      .map((text) => `é${text}`)
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.maxSafeNat(), key, (ringMs, failures, text) => {
        const position = { ringMs, failures, key: text }
        expect(decodeCursor(encodeCursor(position))).toEqual(position)
      }),
    )
  })

  it.each([
    ['nothing', undefined],
    ['a number', 5],
    ['an empty text', ''],
    ['other text', 'hello'],
    ['an object', encoded({ ringMs: 1 })],
    ['a negative time', encoded([-1, 0, 'a'])],
    ['half a millisecond', encoded([0.5, 0, 'a'])],
    ['negative failures', encoded([1, -1, 'a'])],
    ['an empty key', encoded([1, 0, ''])],
    ['no key', encoded([1, 0])],
  ])('is refused if it is %s', (_, cursor) => {
    expect(() => decodeCursor(cursor)).toThrow(
      expect.objectContaining({ code: 'bad-cursor', details: { field: 'cursor' } }),
    )
  })
})
