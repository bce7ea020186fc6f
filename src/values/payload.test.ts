import { describe, expect, test } from 'vitest'
import { decodePayload, encodePayload, PAYLOAD_BYTES_MAX } from './payload.ts'

const refusal = (says: string | RegExp) =>
  expect.objectContaining({
    code: 'bad-payload',
    details: { field: 'payload' },
    message: expect.stringMatching(says),
  })

function nestedArrays(levels: number): unknown {
  let value: unknown[] = []
  for (let level = 1; level < levels; level++) value = [value]
  return value
}

function nestedObjects(levels: number): unknown {
  let value: object = {}
  for (let level = 1; level < levels; level++) value = { a: value }
  return value
}

function cyclic(): object {
  const value: { self?: object } = {}
  value.self = value
  return value
}

describe('what is stored', () => {
  test.each<[unknown, string]>([
    [null, 'null'],
    [false, 'false'],
    [0, '0'],
    ['', '""'],
    [{ orderId: '42', lines: [1, 2] }, '{"orderId":"42","lines":[1,2]}'],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [{ kept: 1, gone: undefined }, '{"kept":1}'],
    [{ toJSON: () => ({ as: 'said' }) }, '{"as":"said"}'],
  ])('%o', (payload, text) => expect(encodePayload(payload)).toBe(text))

  test.each<[string, unknown]>([
    ['nothing', null],
    ['text of every kind', 'a "quoted" \\ line\n\u0000\u007f\u2028 é 😀'],
    ['numbers', [0, -1, 1.5, 1e300, 5e-324, Number.MAX_SAFE_INTEGER]],
    ['objects in arrays in objects', { a: [{ b: [] }, {}], '': { '"': null } }],
    ['keys that Object.prototype has', { constructor: 1, toString: 2, hasOwnProperty: 3 }],
    ['lone surrogates', ['\ud800', 'a\udc00b', { '\ud83d': 1 }]],
  ])('%s comes back as it went', (_, payload) =>
    expect(decodePayload(encodePayload(payload))).toStrictEqual(payload),
  )

  test('is well-formed text though the payload is not', () =>
    expect(encodePayload({ '\ud800': '\udc00' }).isWellFormed()).toBe(true))
})

describe('size', () => {
  test.each([
    ['x', 1],
    ['é', 2],
    ['€', 3],
    ['😀', 4],
  ])('is counted in bytes of UTF-8: %s', (letter, bytesEach) => {
    const room = PAYLOAD_BYTES_MAX - 2 // The quotes.
    const longest = 'x'.repeat(room % bytesEach) + letter.repeat(Math.floor(room / bytesEach))
    expect(Buffer.byteLength(encodePayload(longest))).toBe(PAYLOAD_BYTES_MAX)
    expect(() => encodePayload(`x${longest}`)).toThrow(
      expect.objectContaining({
        code: 'payload-too-large',
        details: { field: 'payload', bytes: PAYLOAD_BYTES_MAX + 1, limit: PAYLOAD_BYTES_MAX },
        message: expect.stringMatching(/^payload: 65537 bytes of JSON; at most 65536.*in your own store/),
      }),
    )
  })

  test('is counted after escaping', () =>
    expect(() => encodePayload('\u0001'.repeat(11_000))).toThrow(
      expect.objectContaining({ code: 'payload-too-large' }),
    ))
})

describe('depth', () => {
  test.each([
    ['arrays', nestedArrays],
    ['objects', nestedObjects],
    ['both', (levels: number) => ({ list: [nestedObjects(levels - 2)] })],
  ])('%s may be 100 deep, not 101', (_, nested) => {
    expect(decodePayload(encodePayload(nested(100)))).toEqual(nested(100))
    expect(() => encodePayload(nested(101))).toThrow(refusal(/nested more than 100 levels deep/))
  })

  test.each([
    ['brackets', '['.repeat(1_000)],
    ['a quote, then brackets', `"${'[{'.repeat(500)}`],
    ['a backslash, a quote, then brackets', `\\"${'[{'.repeat(500)}`],
  ])('%s inside of text are no depth', (_, text) => {
    expect(decodePayload(encodePayload({ text, [text]: [text] }))).toEqual({ text, [text]: [text] })
  })

  test.each([
    ['a backslash', '\\'],
    ['a quote', '"'],
    ['a backslash and a quote', '\\"'],
    ['closing brackets', ']}'.repeat(200)],
    ['an escaped letter', '\n\u0001'],
  ])('%s inside of text does not hide depth', (_, text) =>
    expect(() => encodePayload([text, nestedArrays(100)])).toThrow(
      refusal(/nested more than 100 levels deep/),
    ),
  )

  test('the deepest place counts, not the last', () =>
    expect(() => encodePayload([nestedArrays(100), []])).toThrow(refusal(/nested more than 100 levels deep/)))

  test('many shallow things side by side are not deep', () => {
    const wide = Array.from({ length: 1_000 }, () => [{ a: [] }])
    expect(decodePayload(encodePayload(wide))).toEqual(wide)
  })

  test.each([5_000, 100_000])('%s levels are refused for their depth, not with a crash', (levels) =>
    expect(() => encodePayload(nestedArrays(levels))).toThrow(refusal(/nested/)),
  )
})

describe('what is no JSON', () => {
  const thrown = new RangeError('no such order')

  test.each<[string, unknown, RegExp]>([
    ['undefined', undefined, /JSON has no undefined; use null for 'nothing'/],
    ['a function', () => {}, /JSON has no function; use null for 'nothing'/],
    ['a symbol', Symbol('s'), /JSON has no symbol; use null for 'nothing'/],
    ['toJSON that gives nothing', { toJSON: () => undefined }, /use null for 'nothing'/],
    ['a cycle', cyclic(), /circular/],
    ['a cycle below', [{ a: cyclic() }], /circular/],
    ['a BigInt', 42n, /BigInt/],
    ['a BigInt below', { a: [1n] }, /BigInt/],
    [
      'toJSON that throws',
      {
        toJSON: () => {
          throw thrown
        },
      },
      /RangeError: no such order/,
    ],
    [
      'a getter that throws',
      {
        get a(): never {
          throw thrown
        },
      },
      /RangeError: no such order/,
    ],
  ])('refuses %s', (_, payload, says) => expect(() => encodePayload(payload)).toThrow(refusal(says)))

  test('keeps what was thrown as the cause', () =>
    expect(() =>
      encodePayload({
        toJSON: () => {
          throw thrown
        },
      }),
    ).toThrow(expect.objectContaining({ cause: thrown })))

  test('says it in one line', () =>
    expect(() => encodePayload(cyclic())).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^.+$/) }),
    ))

  test('names the field that it was asked about', () =>
    expect(() => encodePayload(undefined, 'tasks[3].payload')).toThrow(
      expect.objectContaining({
        details: { field: 'tasks[3].payload' },
        message: expect.stringMatching(/^tasks\[3\]\.payload: /),
      }),
    ))
})

describe('__proto__', () => {
  test.each([
    ['at the top', '{"__proto__":{"admin":true}}'],
    ['below', '{"a":[1,{"b":{"__proto__":null}}]}'],
    ['escaped in what it was parsed from', '{"a":{"\\u005f_proto__":1}}'],
    ['beside the text', '{"a":"__proto__","__proto__":1}'],
  ])('as a key %s is refused', (_, text) =>
    expect(() => encodePayload(JSON.parse(text))).toThrow(refusal(/a key named '__proto__'/)),
  )

  test('as a key that toJSON brings in is refused', () =>
    expect(() => encodePayload({ toJSON: (): unknown => JSON.parse('{"__proto__":1}') })).toThrow(
      refusal(/a key named '__proto__'/),
    ))

  test.each<[string, unknown]>([
    ['a value', { name: '__proto__' }],
    ['part of a key', { my__proto__: 1 }],
    ['text that looks like JSON', { text: '{"__proto__":1}' }],
    ['an item', ['__proto__', ['__proto__']]],
  ])('as %s is fine', (_, payload) => expect(decodePayload(encodePayload(payload))).toEqual(payload))

  test('an object that inherits is sent as its own properties', () =>
    expect(encodePayload(Object.assign(Object.create({ admin: true }), { a: 1 }))).toBe('{"a":1}'))
})
