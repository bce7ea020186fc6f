import { describe, expect, test } from 'vitest'
import { checkKey, checkPrefix, checkTag, checkTags, checkTopicName } from './key.ts'

const refusal = (code: string, field: string, says: string | RegExp) =>
  expect.objectContaining({ code, details: { field }, message: expect.stringMatching(says) })

/** What no key, tag or prefix may be, and what the message must say of it. */
const NO_TEXT: [name: string, value: unknown, says: RegExp][] = [
  ['empty text', '', /it is empty/],
  ['a number', 42, /it is not text/],
  ['null', null, /it is not text/],
  ['an object', {}, /it is not text/],
  ['an array of text', ['order-42'], /it is not text/],
  ['a String object', Object('order-42'), /it is not text/],
  ['a symbol', Symbol('order-42'), /it is not text/],
  ['U+0000', 'a\u0000b', /control character/],
  ['a tab', 'a\tb', /control character/],
  ['a newline at the end', 'order-42\n', /control character/],
  ['U+001F', '\u001f', /control character/],
  ['U+007F', 'a\u007f', /control character/],
  ['U+0080', 'a\u0080', /control character/],
  ['U+0085', 'a\u0085', /control character/],
  ['U+009F', 'a\u009f', /control character/],
  ['a lone high surrogate', 'a\ud83d', /half a surrogate pair/],
  ['a lone low surrogate', '\ude00a', /half a surrogate pair/],
  ['surrogates in the wrong order', '\ude00\ud83d', /half a surrogate pair/],
]

/** [characters, bytes of UTF-8 each]. */
const LETTERS = [
  ['x', 1],
  ['é', 2],
  ['€', 3],
  ['😀', 4],
] as const

/** Exactly `bytes` bytes, as many of `letter` as fit and the rest 'x' in front. */
const ofBytes = (letter: string, bytesEach: number, bytes: number): string =>
  'x'.repeat(bytes % bytesEach) + letter.repeat(Math.floor(bytes / bytesEach))

describe('keys', () => {
  test.each([
    'order-42',
    'user-9:coupon-77',
    ' ',
    '...',
    './a',
    'a/b',
    '%00',
    '~',
    'ключ',
    '订单-42',
    '😀',
    '\u00a0',
    '__proto__',
  ])('%j is one', (key) => expect(checkKey(key)).toBe(key))

  test.each(NO_TEXT)('refuses %s', (_, key, says) =>
    expect(() => checkKey(key)).toThrow(refusal('bad-key', 'key', says)),
  )

  test('refuses undefined', () =>
    expect(() => checkKey(undefined)).toThrow(refusal('bad-key', 'key', /it is not text/)))

  test.each(['.', '..'])('refuses %j, which is a way through folders in an address', (key) =>
    expect(() => checkKey(key)).toThrow(refusal('bad-key', 'key', /path/)),
  )

  test.each(LETTERS)('of %s have 256 bytes at most, not characters', (letter, bytesEach) => {
    const longest = ofBytes(letter, bytesEach, 256)
    expect(Buffer.byteLength(longest)).toBe(256)
    expect(checkKey(longest)).toBe(longest)
    expect(() => checkKey(`x${longest}`)).toThrow(
      refusal('bad-key', 'key', /it has 257 bytes, at most 256 are taken/),
    )
  })

  test('a key of a megabyte does not make a long message', () =>
    expect(() => checkKey('x'.repeat(1_000_000))).toThrow(refusal('bad-key', 'key', /^.{1,200}$/)))

  test('names the field that it was asked about', () =>
    expect(() => checkKey('', 'keys[3]')).toThrow(refusal('bad-key', 'keys[3]', /^keys\[3\]: /)))
})

describe('tags', () => {
  test('none is null, so that an untagged task carries nothing', () => {
    expect(checkTags(undefined)).toBeNull()
    expect(checkTags([])).toBeNull()
  })

  test('are sorted, each once, frozen; what was given is left as it is', () => {
    const given = ['shop:9', 'campaign:77', 'shop:9']
    const tags = checkTags(given)
    expect(tags).toEqual(['campaign:77', 'shop:9'])
    expect(Object.isFrozen(tags)).toBe(true)
    expect(given).toEqual(['shop:9', 'campaign:77', 'shop:9'])
  })

  test('four are kept, of five that differ none', () => {
    expect(checkTags(['d', 'c', 'b', 'a'])).toEqual(['a', 'b', 'c', 'd'])
    expect(() => checkTags(['e', 'd', 'c', 'b', 'a'])).toThrow(
      refusal('bad-tags', 'tags', /5 tags; at most 4/),
    )
  })

  test('five of which two are equal are four', () =>
    expect(checkTags(['a', 'b', 'c', 'd', 'a'])).toEqual(['a', 'b', 'c', 'd']))

  test.each<[string, unknown]>([
    ['text', 'campaign:77'],
    ['null', null],
    ['an object', { 0: 'a', length: 1 }],
    ['a Set', new Set(['a'])],
    ['a number', 1],
  ])('refuses %s in place of an array', (_, tags) =>
    expect(() => checkTags(tags)).toThrow(refusal('bad-tags', 'tags', /expected an array of text, got /)),
  )

  test.each([...NO_TEXT, ['undefined', undefined, /it is not text/] as const])(
    'refuses %s among them and says where',
    (_, tag, says) => expect(() => checkTags(['fine', tag])).toThrow(refusal('bad-tags', 'tags[1]', says)),
  )

  test('refuses a hole', () => {
    const holed: string[] = ['a']
    holed[2] = 'c'
    expect(() => checkTags(holed)).toThrow(refusal('bad-tags', 'tags[1]', /it is not text/))
    expect(() => checkTags(new Array(3))).toThrow(refusal('bad-tags', 'tags[0]', /it is not text/))
  })

  test.each(LETTERS)('of %s have 64 bytes at most', (letter, bytesEach) => {
    const longest = ofBytes(letter, bytesEach, 64)
    expect(Buffer.byteLength(longest)).toBe(64)
    expect(checkTag(longest)).toBe(longest)
    expect(() => checkTag(`x${longest}`)).toThrow(
      refusal('bad-tags', 'tag', /it has 65 bytes, at most 64 are taken/),
    )
  })

  test("'.' and '..' are tags like others", () => expect(checkTags(['..', '.'])).toEqual(['.', '..']))
})

describe('prefixes', () => {
  test.each(['user-9', 'a/b', '.', '😀'])('%j is one', (prefix) => expect(checkPrefix(prefix)).toBe(prefix))

  test.each(['user-9:', ':', 'user-9:coupon-77'])("refuses %j: it reaches past the first ':'", (prefix) =>
    expect(() => checkPrefix(prefix)).toThrow(refusal('bad-key', 'prefix', /before its first ':'/)),
  )

  test.each(NO_TEXT)('refuses %s', (_, prefix, says) =>
    expect(() => checkPrefix(prefix)).toThrow(refusal('bad-key', 'prefix', says)),
  )

  test('has 256 bytes at most', () => {
    expect(checkPrefix('x'.repeat(256))).toHaveLength(256)
    expect(() => checkPrefix('x'.repeat(257))).toThrow(refusal('bad-key', 'prefix', /257 bytes/))
  })
})

describe('topic names', () => {
  test.each(['a', 'order.unpaid', 'a1', 'a-b_c.d', 'x'.repeat(64), 'a..b', 'constructor'])(
    '%s is one',
    (name) => expect(checkTopicName(name)).toBe(name),
  )

  test.each<[unknown]>([
    [''],
    ['Order'],
    ['1a'],
    ['.a'],
    ['-a'],
    ['_a'],
    ['__proto__'],
    ['a b'],
    ['a:b'],
    ['a/b'],
    ['a\n'],
    ['é'],
    ['ſ'],
    ['x'.repeat(65)],
    ['x'.repeat(1_000_000)],
    [undefined],
    [null],
    [7],
    [['a']],
    [Object('a')],
  ])('refuses %j and shows one', (name) =>
    expect(() => checkTopicName(name)).toThrow(
      expect.objectContaining({
        code: 'bad-topic',
        message: expect.stringMatching(/^[^]{1,80} is not a topic name; use .*like 'order\.unpaid'$/),
      }),
    ),
  )
})
