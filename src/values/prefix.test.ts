import { expect, it } from 'vitest'
import { checkPrefix, DEFAULT_PREFIX } from './prefix.ts'

// Stored data is found by this name.
it("is 'toc' by default", () => {
  expect([checkPrefix(), checkPrefix(undefined), DEFAULT_PREFIX]).toEqual(['toc', 'toc', 'toc'])
})

it.each(['a', 'Z', '0', '._-', 'team.orders-1_eu', 'p'.repeat(64)])('may be %s', (prefix) => {
  expect(checkPrefix(prefix)).toBe(prefix)
})

it.each([
  ['nothing', ''],
  ['65 characters', 'p'.repeat(65)],
  ['a colon, which separates it from the rest of a key', 'a:b'],
  ['braces, a hash tag of Redis Cluster', '{a}'],
  ['a letter outside of ASCII', 'é'],
  ['a line end', 'a\n'],
  ['a space before it', ' a'],
  ['null', null],
  ['a number', 7],
])('may not be %s', (_, prefix) => {
  expect(() => checkPrefix(prefix)).toThrow(
    expect.objectContaining({
      code: 'bad-option',
      message: expect.stringMatching(/^prefix: expected 1 to 64 letters, digits, '\.', '_' or '-', got /),
      details: expect.objectContaining({ field: 'prefix' }),
    }),
  )
})
