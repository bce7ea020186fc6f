import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeToken, encodeToken, type PullToken } from './pull-token.ts'

const token: PullToken = {
  cell: 63,
  stamp: 1_700_000_000_123,
  req: 'r-1',
  session: 7,
  failures: 2,
  id: 'é:1',
}

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('the token of a claim', () => {
  // A worker may settle at a server of another version than the one that it pulled from.
  it.each([
    [token, 'WzYzLDE3MDAwMDAwMDAxMjMsInItMSIsNywyLCLDqToxIl0'],
    [
      { ...token, cell: 0, session: null, failures: 0, id: '🔔' },
      'WzAsMTcwMDAwMDAwMDEyMywici0xIixudWxsLDAsIvCflJQiXQ',
    ],
  ])('is this text', (one, text) => {
    expect(encodeToken(one)).toBe(text)
    expect(decodeToken(text, 'token')).toEqual(one)
  })

  it('gives back every claim', () => {
    const count = fc.maxSafeNat()
    fc.assert(
      fc.property(
        fc.record<PullToken>({
          cell: fc.integer({ min: 0, max: 63 }),
          stamp: count,
          req: fc.string({ unit: 'grapheme' }),
          session: fc.option(count),
          failures: count,
          id: fc.string({ unit: 'grapheme' }),
        }),
        (one) => {
          expect(decodeToken(encodeToken(one), 'token')).toEqual({ ...one })
        },
      ),
    )
  })

  it.each([
    ['no text', ''],
    ['other text', 'hello'],
    ['other JSON', encoded({ cell: 1 })],
    ['an empty list', encoded([])],
    ['a cell that does not exist', encoded([64, 1, 'r', null, 0, 'id'])],
    ['a negative cell', encoded([-1, 1, 'r', null, 0, 'id'])],
    ['a cell that is no number', encoded(['1', 1, 'r', null, 0, 'id'])],
    ['half a stamp', encoded([1, 1.5, 'r', null, 0, 'id'])],
    ['a request that is no text', encoded([1, 1, 5, null, 0, 'id'])],
    ['a negative session', encoded([1, 1, 'r', -1, 0, 'id'])],
    ['no session', encoded([1, 1, 'r'])],
    ['failures that are no number', encoded([1, 1, 'r', null, null, 'id'])],
    ['no id', encoded([1, 1, 'r', null, 0])],
  ])('is refused with %s', (_, text) => {
    expect(() => decodeToken(text, 'tasks[3].token')).toThrow(
      expect.objectContaining({
        code: 'bad-token',
        message: expect.stringContaining('tasks[3].token'),
        details: { field: 'tasks[3].token' },
      }),
    )
  })
})
