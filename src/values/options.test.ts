import { describe, expect, test } from 'vitest'
import { badOption, checkOptions, nearest, needsLedger, wholeNumber, withoutSecret } from './options.ts'

const KNOWN = ['concurrency', 'transaction', 'guard', 'tx']

const refusal = (says: string | RegExp, field = 'consume', code = 'bad-option') =>
  expect.objectContaining({
    code,
    details: expect.objectContaining({ field }),
    message: expect.stringMatching(says),
  })

describe('checkOptions', () => {
  test.each<[string, unknown]>([
    ['nothing given', {}],
    ['known names', { concurrency: 1, guard: undefined }],
    ['an object without a prototype', Object.assign(Object.create(null), { tx: 1 })],
  ])('takes %s', (_, options) => expect(() => checkOptions(options, KNOWN, 'consume')).not.toThrow())

  test.each<[string, unknown, string]>([
    ['null', null, 'null'],
    ['undefined', undefined, 'undefined'],
    ['text', 'fast', "'fast'"],
    ['a number', 64, '64'],
    ['an array', [1], 'an array of 1'],
    ['an empty array', [], 'an array of 0'],
    // Each of these has no names of its own: taken, it would be silence.
    ['a Map', new Map([['concurrency', 1]]), 'a Map'],
    ['a Date', new Date(0), 'a Date'],
    ['a promise that was not awaited', Promise.resolve({ concurrency: 1 }), 'a Promise'],
  ])('refuses %s', (_, options, got) =>
    expect(() => checkOptions(options, KNOWN, 'consume')).toThrow(
      refusal(new RegExp(`^consume: expected an object, got ${got}; write \\{ concurrency: … \\}$`)),
    ),
  )

  test('refuses an unknown name, says which and what was meant', () => {
    expect(() => checkOptions({ concurency: 1 }, KNOWN, 'consume')).toThrow(
      expect.objectContaining({
        code: 'bad-option',
        message: "consume: unknown option 'concurency'; did you mean 'concurrency'?",
        details: { field: 'consume.concurency', hint: "did you mean 'concurrency'?" },
      }),
    )
  })

  test('lists what is known where nothing is near', () =>
    expect(() => checkOptions({ parallelism: 1 }, KNOWN, 'consume')).toThrow(
      refusal(/'parallelism'; known: concurrency, transaction, guard, tx$/, 'consume.parallelism'),
    ))

  test('an unknown name is refused though its value is undefined', () =>
    expect(() => checkOptions({ gard: undefined }, KNOWN, 'consume')).toThrow(
      refusal(/did you mean 'guard'/, 'consume.gard'),
    ))

  test.each(['__proto__', 'constructor', 'toString'])('%s is no known name', (name) =>
    expect(() => checkOptions(JSON.parse(`{"${name}":1}`), KNOWN, 'consume')).toThrow(
      refusal(/unknown option/, `consume.${name}`),
    ),
  )

  test('uses the code that it is given', () =>
    expect(() => checkOptions({ gard: 1 }, KNOWN, 'consume', 'bad-config')).toThrow(
      refusal(/./, 'consume.gard', 'bad-config'),
    ))

  test('a name of a megabyte costs no long message', () => {
    let message = ''
    try {
      checkOptions({ ['x'.repeat(1_000_000)]: 1 }, KNOWN, 'consume')
    } catch (error) {
      message = (error as Error).message
    }
    expect(message.length).toBeGreaterThan(0)
    expect(message.length).toBeLessThan(400)
  })
})

describe('nearest', () => {
  test.each([
    ['concurency', 'concurrency'],
    ['Concurrency', 'concurrency'],
    ['CONCURRENCY', 'concurrency'],
    ['concurrencyLevel', 'concurrency'],
    ['transactions', 'transaction'],
    ['trasnaction', 'transaction'],
    ['gaurd', 'guard'],
    ['guards', 'guard'],
  ])('%s is likely %s', (name, meant) => expect(nearest(name, KNOWN)).toBe(meant))

  test.each(['parallelism', 'retries', 'onProgress'])('%s is like none', (name) =>
    expect(nearest(name, KNOWN)).toBeNull(),
  )

  test('takes the nearest of several near ones, the first of equally near ones, and finds nothing among none', () => {
    expect(nearest('mim', ['max', 'min'])).toBe('min')
    expect(nearest('max', ['min', 'max'])).toBe('max')
    expect(nearest('min', [])).toBeNull()
    expect(nearest('mxn', ['min', 'man'])).toBe('min')
  })
})

describe('wholeNumber', () => {
  test.each([1, 64, 1_000])('takes %s', (value) => expect(wholeNumber(value, 1, 1_000, 'limit')).toBe(value))

  test.each<[unknown]>([[0], [1_001], [1.5], [Number.NaN], [Number.POSITIVE_INFINITY], ['5'], [null], [5n]])(
    'refuses %o and tells the range',
    (value) =>
      expect(() => wholeNumber(value, 1, 1_000, 'limit')).toThrow(
        refusal(/^limit: expected a whole number from 1 to 1000, got /, 'limit'),
      ),
  )
})

test('badOption blames a field', () =>
  expect(badOption('limit', 'too small')).toMatchObject({
    code: 'bad-option',
    message: 'limit: too small',
    details: { field: 'limit' },
  }))

test('needsLedger says what needs one, and what one is', () =>
  expect(needsLedger('listing done tasks')).toMatchObject({
    code: 'ledger-required',
    message: expect.stringMatching(/^listing done tasks needs a ledger \(a SQL database/),
  }))

describe('withoutSecret', () => {
  test.each<[unknown, string]>([
    ['redis://localhost:6379', "'redis://localhost:6379'"],
    ['redis://user:pass@host/1', "'…@host/1'"],
    ['postgres://u:p@ss@host/db', "'…@host/db'"],
    ['@', "'…@'"],
    ['redis-sentinel://host/m?sentinelPassword=x', "'redis-sentinel://host/m?…'"],
    ['redis-sentinel://u:p@host/m?sentinelPassword=x', "'…@host/m?…'"],
    ['redis-sentinel://u:p@host/m?sentinelPassword=x@y', "'redis-sentinel:…'"],
    ['mysql://u:p?q@host/m', "'mysql:…'"],
    ['p?q@host', "'…'"],
    ['', "''"],
    [5, '5'],
    [{ password: 'x' }, 'an object'],
  ])('%j is shown as %s', (value, shown) => expect(withoutSecret(value)).toBe(shown))
})

describe('a misspelt name', () => {
  test.each([
    ['tx', 'tx'],
    ['t', 'tx'],
    ['txx', 'tx'],
    ['at', null],
    ['ab', null],
    ['gaurd', 'guard'],
    ['Guard', 'guard'],
    ['garden', null],
    ['concurency', 'concurrency'],
    ['transactional', 'transaction'],
    ['x'.repeat(65), null],
  ])('%s is nearest to %s', (name, known) => expect(nearest(name, KNOWN)).toBe(known))

  test('of 64 characters is still compared, and a longer one is not', () => {
    expect(nearest('x'.repeat(64), ['x'.repeat(64)])).toBe('x'.repeat(64))
    expect(nearest('x'.repeat(65), ['x'.repeat(65)])).toBeNull()
  })
})
