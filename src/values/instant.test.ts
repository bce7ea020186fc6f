import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Instant, instantMs, LAST_INSTANT_MS } from './instant.ts'

const refusal = (says: string | RegExp) =>
  expect.objectContaining({
    code: 'bad-time',
    details: { field: 'at' },
    message: expect.stringMatching(says),
  })

const SINGLES_DAY_MS = Date.UTC(2026, 10, 11)

describe('RFC 3339', () => {
  test.each([
    ['2026-11-11T00:00:00Z', SINGLES_DAY_MS],
    ['2026-11-11t00:00:00z', SINGLES_DAY_MS],
    ['2026-11-11 00:00:00Z', SINGLES_DAY_MS],
    ['2026-11-11T08:00:00+08:00', SINGLES_DAY_MS],
    ['2026-11-10T18:30:00-05:30', SINGLES_DAY_MS],
    ['2026-11-11T23:59:00+23:59', SINGLES_DAY_MS],
    ['2026-11-11T00:00:00+00:00', SINGLES_DAY_MS],
    ['2026-11-11T00:00:00-00:00', SINGLES_DAY_MS],
    ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
    ['1970-01-01T00:00:00Z', 0],
    ['1970-01-01T00:00:00.0000001Z', 1],
    ['1969-12-31T23:00:00-01:00', 0],
    ['2255-06-05T23:47:34.739Z', LAST_INSTANT_MS],
  ])('%s', (text, ms) => expect(instantMs(text, 'at')).toBe(ms))

  test.each([
    ['5', 500],
    ['123', 123],
    ['000', 0],
    ['0001', 1],
    ['1230000', 123],
    ['123000001', 124],
    ['999999999', 1_000],
    // More digits than a double holds.
    ['1230000000000000000001', 124],
  ])('a fraction of .%s s is rounded up to %s ms', (fraction, ms) =>
    expect(instantMs(`2026-11-11T00:00:00.${fraction}Z`, 'at') - SINGLES_DAY_MS).toBe(ms),
  )

  test('every fraction of up to five digits is exact', () => {
    for (let digits = 1; digits <= 5; digits++)
      for (let i = 0; i < 10 ** digits; i++) {
        const text = `2026-11-11T00:00:00.${String(i).padStart(digits, '0')}Z`
        const expected = Number((BigInt(i) * 1_000n + 10n ** BigInt(digits) - 1n) / 10n ** BigInt(digits))
        if (instantMs(text, 'at') - SINGLES_DAY_MS !== expected) expect.fail(`${text} is not ${expected} ms`)
      }
  })

  test('what a Date prints is read back', () => {
    for (let i = 0; i < 1_000; i++) {
      const ms = Math.floor((LAST_INSTANT_MS * i) / 1_000)
      expect(instantMs(new Date(ms).toISOString(), 'at')).toBe(ms)
    }
  })

  test.each(['2026-11-11T00:00:00', '2026-11-11T00:00', '2026-11-11 00:00:00.5'])(
    'refuses %s: without an offset it is another moment on every machine',
    (text) => expect(() => instantMs(text, 'at')).toThrow(refusal(/no offset.*add 'Z' or '\+08:00'/)),
  )

  test.each([
    '2026-11-11',
    '',
    'now',
    'tomorrow',
    '1794355200000',
    '20261111T000000Z',
    '2026-11-11T00:00Z',
    '2026-11-11T00:00:00.Z',
    '2026-11-11T00:00:00,5Z',
    '2026-11-11T00:00:00+08',
    '2026-11-11T00:00:00+0800',
    '2026-11-11T00:00:00 Z',
    ' 2026-11-11T00:00:00Z',
    '2026-11-11T00:00:00Z\n',
    '+002026-11-11T00:00:00Z',
    '2026-11-11T00:00:00+08:00[Asia/Shanghai]',
    'Wed, 11 Nov 2026 00:00:00 GMT',
  ])('refuses %j and shows the form', (text) =>
    expect(() => instantMs(text, 'at')).toThrow(refusal(/^at: [^]*RFC 3339 with its offset, like '2026-/)),
  )

  test.each([
    ['30 February', '2026-02-30T00:00:00Z'],
    ['29 February in a common year', '2026-02-29T00:00:00Z'],
    ['month 13', '2026-13-01T00:00:00Z'],
    ['month 0', '2026-00-01T00:00:00Z'],
    ['day 0', '2026-11-00T00:00:00Z'],
    ['24:00', '2026-11-11T24:00:00Z'],
    ['minute 60', '2026-11-11T00:60:00Z'],
    ['a leap second', '2016-12-31T23:59:60Z'],
  ])('refuses %s', (_, text) => expect(() => instantMs(text, 'at')).toThrow(refusal(/no such moment/)))

  test.each(['+24:00', '-24:00', '+08:60', '+99:99'])('refuses the offset %s', (offset) =>
    expect(() => instantMs(`2026-11-11T00:00:00${offset}`, 'at')).toThrow(refusal(/no such offset/)),
  )
})

describe('the form that programs print is read as every other form', () => {
  /** Returns the time, or the hint of the error. */
  const read = (text: string): number | string => {
    try {
      return instantMs(text, 'at')
    } catch (error) {
      return (error as Error).message.replace(text, '')
    }
  }
  // A lower-case letter, a space and an offset are read in the general way. The text means the same.
  const others = (text: string) => [
    text.replace('T', 't'),
    text.replace('T', ' '),
    text.replace(/Z$/, 'z'),
    text.replace(/Z$/, '+00:00'),
  ]
  const expectSame = (text: string) => {
    const expected = read(text)
    for (const other of others(text)) if (read(other) !== expected) expect(read(other), other).toBe(expected)
  }
  const padded = (value: number, length: number) => String(value).padStart(length, '0')
  const fields = (max: number, length: number) => fc.nat({ max }).map((value) => padded(value, length))
  const fraction = fc.oneof(
    fc.constant(''),
    fc.nat({ max: 999 }).map((ms) => `.${padded(ms, 3)}`),
  )

  test('every day of the years 1968 to 2260, and days that do not exist', () => {
    for (let year = 1968; year <= 2260; year++)
      for (let month = 0; month <= 13; month++)
        for (const day of [0, 1, 2, 15, 27, 28, 29, 30, 31, 32]) {
          const text = `${year}-${padded(month, 2)}-${padded(day, 2)}T12:34:56.789Z`
          const real = new Date(text)
          const exists =
            real.getTime() >= 0 && real.toISOString() === text && real.getTime() <= LAST_INSTANT_MS
          if (exists ? read(text) !== real.getTime() : typeof read(text) !== 'string')
            expect.fail(`${text} is read as ${read(text)}`)
        }
  })

  test('the leap days of years that are a multiple of 100 or 400', () => {
    expect(read('2000-02-29T00:00:00Z')).toBe(Date.UTC(2000, 1, 29))
    expect(read('2100-02-29T00:00:00Z')).toMatch(/no such moment/)
    expect(read('2100-03-01T00:00:00Z')).toBe(Date.UTC(2100, 2, 1))
  })

  test('a text that was read before, and another one in between', () => {
    const [first, second] = ['2026-11-11T00:00:00Z', '2026-11-12T00:00:00.001Z']
    const [firstMs, secondMs] = [Date.UTC(2026, 10, 11), Date.UTC(2026, 10, 12) + 1]
    expect([first, first, second, first].map(read)).toEqual([firstMs, firstMs, secondMs, firstMs])
    // A text that is read in the general way, or refused, is not taken for the one before.
    expect(read('2026-11-11T00:00:00+00:00')).toBe(firstMs)
    expect(read('2026-02-30T00:00:00Z')).toMatch(/no such moment/)
    expect(read('2026-02-30T00:00:00Z')).toMatch(/no such moment/)
    expect(read(first)).toBe(firstMs)
  })

  test('generated dates and times, also such that do not exist', () =>
    fc.assert(
      fc.property(
        fields(9999, 4),
        fields(14, 2),
        fields(33, 2),
        fields(25, 2),
        fields(62, 2),
        fields(62, 2),
        fraction,
        (year, month, day, hour, minute, second, ms) =>
          expectSame(`${year}-${month}-${day}T${hour}:${minute}:${second}${ms}Z`),
      ),
      { numRuns: 2_000 },
    ))

  test('generated moments', () =>
    fc.assert(
      fc.property(fc.integer({ min: -86_400_000, max: LAST_INSTANT_MS + 86_400_000 }), (ms) => {
        const text = new Date(ms).toISOString()
        expectSame(text)
        if (ms >= 0 && ms <= LAST_INSTANT_MS) expect(read(text)).toBe(ms)
      }),
      { numRuns: 2_000 },
    ))

  test('texts with one other character', () =>
    fc.assert(
      fc.property(
        fc.constantFrom('2026-11-11T08:09:10Z', '2024-02-29T23:59:59.999Z'),
        fc.nat({ max: 23 }),
        fc.oneof(
          fc.constantFrom('/', ':', '０', '٣', '-', '+', ' ', '\u0000', ''),
          fc.string({ maxLength: 2 }),
        ),
        (text, at, other) => {
          const changed = text.slice(0, at) + other + text.slice(at + 1)
          // Without the form's letters, none of the other texts is changed alike: compare with the strict form itself.
          const isForm = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/.test(changed)
          if (isForm) expectSame(changed)
          else expect(typeof read(changed)).toBe('string')
        },
      ),
      { numRuns: 2_000 },
    ))
})

describe('numbers', () => {
  test.each([
    [SINGLES_DAY_MS, SINGLES_DAY_MS],
    [SINGLES_DAY_MS + 0.25, SINGLES_DAY_MS + 1],
    [100_000_000_000, 100_000_000_000],
    [LAST_INSTANT_MS, LAST_INSTANT_MS],
  ])('%s', (value, ms) => expect(instantMs(value, 'at')).toBe(ms))

  test.each([SINGLES_DAY_MS / 1000, 99_999_999_999, 1, 0])('refuses %s as seconds', (value) =>
    expect(() => instantMs(value, 'at')).toThrow(refusal(/looks like seconds; instants are in milliseconds/)),
  )

  test('tells the milliseconds that were meant', () =>
    expect(() => instantMs(SINGLES_DAY_MS / 1000, 'at')).toThrow(refusal(`${SINGLES_DAY_MS}`)))

  test.each([
    ['NaN', Number.NaN, /not a valid moment/],
    ['a negative one', -1, /before 1970 are refused/],
    ['-Infinity', Number.NEGATIVE_INFINITY, /before 1970 are refused/],
    ['Infinity', Number.POSITIVE_INFINITY, /last possible instant is 2255-06-05T/],
    ['microseconds', SINGLES_DAY_MS * 1000, /last possible instant is 2255-06-05T/],
    ['one past the end', LAST_INSTANT_MS + 1, /last possible instant is 2255-06-05T/],
    ['a fraction past the end', LAST_INSTANT_MS + 0.5, /last possible instant is 2255-06-05T/],
  ])('refuses %s', (_, value, says) => expect(() => instantMs(value, 'at')).toThrow(refusal(says)))
})

describe('objects', () => {
  test.each<[string, Instant, number]>([
    ['a Date', new Date(SINGLES_DAY_MS), SINGLES_DAY_MS],
    ['a Date in 1970, which cannot be mistaken for seconds', new Date(5), 5],
    ['epochMilliseconds', { epochMilliseconds: SINGLES_DAY_MS }, SINGLES_DAY_MS],
    [
      'a ZonedDateTime-like class',
      new (class {
        readonly epochMilliseconds = SINGLES_DAY_MS
      })(),
      SINGLES_DAY_MS,
    ],
  ])('%s', (_, value, ms) => expect(instantMs(value, 'at')).toBe(ms))

  test.each([
    [0n, 0],
    [1n, 1],
    [999_999n, 1],
  ])('%s ns past the millisecond are rounded up', (ns, more) => {
    const temporal = {
      epochMilliseconds: SINGLES_DAY_MS,
      epochNanoseconds: BigInt(SINGLES_DAY_MS) * 1_000_000n + ns,
    }
    expect(instantMs(temporal, 'at')).toBe(SINGLES_DAY_MS + more)
  })

  test.each<[string, unknown, RegExp]>([
    ['an invalid Date', new Date(Number.NaN), /not a valid moment/],
    ['a Date before 1970', new Date(-1), /before 1970/],
    ['a Date in the year 3000', new Date('3000-01-01T00:00:00Z'), /last possible instant is 2255/],
    ['text in the year 3000', '3000-01-01T00:00:00Z', /last possible instant is 2255/],
    ['text before 1970', '1969-12-31T23:59:59.999Z', /before 1970/],
    ['epochMilliseconds NaN', { epochMilliseconds: Number.NaN }, /not a valid moment/],
    ['epochMilliseconds as text', { epochMilliseconds: '1' }, /use a Date/],
    ['an object', {}, /use a Date, milliseconds since 1970, RFC 3339 text/],
    ['null', null, /use a Date/],
    ['undefined', undefined, /use a Date/],
    ['a BigInt', BigInt(SINGLES_DAY_MS), /use a Date/],
    ['true', true, /use a Date/],
    ['a function', () => SINGLES_DAY_MS, /use a Date/],
  ])('refuses %s', (_, value, says) => expect(() => instantMs(value as Instant, 'at')).toThrow(refusal(says)))
})

test('the last instant leaves room for 999 failures in an exact score', () => {
  expect(Number.isSafeInteger(LAST_INSTANT_MS * 1000 + 999)).toBe(true)
  expect(new Date(LAST_INSTANT_MS).getUTCFullYear()).toBe(2255)
})
