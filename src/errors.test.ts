import { describe, expect, test, vi } from 'vitest'
import { describeError, describeValue, ERROR_TABLE, type ErrorCode, TocsinError } from './errors.ts'

/** Throws in every way in which being looked at can throw. */
const hostile = (): object =>
  new Proxy(
    {},
    {
      get: () => {
        throw new Error('get')
      },
      getPrototypeOf: () => {
        throw new Error('getPrototypeOf')
      },
    },
  )

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

/** An error one of whose properties throws when it is read. */
function errorWithThrowing(property: 'name' | 'message'): Error {
  return Object.defineProperty(new Error('outer'), property, {
    get: () => {
      throw new Error('inner')
    },
  })
}

/** Clients decide by these: a change of one breaks them. A new code may be added. */
const PROMISED: Readonly<Record<string, readonly [status: number, isRetryable: boolean]>> = {
  'bad-topic': [400, false],
  'unknown-topic': [404, false],
  'bad-config': [400, false],
  'bad-key': [400, false],
  'bad-tags': [400, false],
  'bad-payload': [400, false],
  'payload-too-large': [413, false],
  'bad-time': [400, false],
  'bad-duration': [400, false],
  'bad-option': [400, false],
  'bad-cursor': [400, false],
  'bad-outcome': [400, false],
  'outcome-count': [400, false],
  'version-conflict': [412, false],
  interrupted: [503, true],
  'ledger-required': [400, false],
  unsupported: [400, false],
  'unknown-outcome': [503, false],
  'timetable-unavailable': [503, true],
  'timetable-full': [503, true],
  'timetable-refused': [503, false],
  'ledger-in-use': [503, true],
  'ledger-unavailable': [503, true],
  'ledger-full': [503, true],
  'ledger-damaged': [500, false],
  'ledger-refused': [503, false],
  'driver-missing': [500, false],
  'ledger-too-new': [503, false],
  'bad-tx': [400, false],
  'bad-request': [400, false],
  unauthorized: [401, false],
  forbidden: [403, false],
  'not-found': [404, false],
  'method-not-allowed': [405, false],
  'in-flight': [409, false],
  'request-timeout': [408, true],
  'too-large': [413, false],
  'bad-media-type': [415, false],
  'headers-too-large': [431, false],
  'rate-limited': [429, true],
  internal: [500, false],
  unreachable: [503, true],
  'bad-token': [400, false],
  closed: [503, false],
  timeout: [504, true],
  cancelled: [409, false],
  'lease-lost': [409, false],
}

describe('the table', () => {
  test.each(Object.entries(PROMISED))(
    '%s keeps its status, and whether it may be retried',
    (code, [status, retryable]) =>
      expect(ERROR_TABLE[code as ErrorCode]).toMatchObject({ status, retryable }),
  )

  test.each(Object.entries(ERROR_TABLE))('%s can be served and explained', (code, { status, means }) => {
    expect(code).toMatch(/^[a-z]+(-[a-z]+)*$/)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(status).toBeLessThanOrEqual(599)
    expect(means).toMatch(/\S+ \S+/)
  })

  test.each(Object.entries(ERROR_TABLE).filter(([, { retryable }]) => retryable))(
    '%s may be tried again, so it is not the fault of the request, or only of its moment',
    (_, { status }) => expect(status >= 500 || [408, 429].includes(status)).toBe(true),
  )
})

describe('TocsinError', () => {
  test('carries what the table says of its code', () => {
    const cause = new Error('below')
    const error = new TocsinError('interrupted', 'stopped half way', { accepted: 3 }, cause)
    expect(error).toMatchObject({
      name: 'TocsinError',
      code: 'interrupted',
      message: 'stopped half way',
      status: ERROR_TABLE.interrupted.status,
      retryable: true,
      details: { accepted: 3 },
      cause,
    })
    expect(error).toBeInstanceOf(Error)
  })

  test('has empty details and no cause unless given', () => {
    const error = new TocsinError('closed', 'closed')
    expect(error.details).toEqual({})
    expect('cause' in error).toBe(false)
  })

  test('is told apart by its code', () => {
    const error: unknown = new TocsinError('bad-key', 'no')
    expect(TocsinError.is(error)).toBe(true)
    expect(TocsinError.is(error, 'bad-key')).toBe(true)
    expect(TocsinError.is(error, 'bad-tags')).toBe(false)
  })

  test('is known across two copies of the package', async () => {
    vi.resetModules()
    const copy = await import('./errors.ts')
    expect(copy.TocsinError).not.toBe(TocsinError)
    const theirs: unknown = new copy.TocsinError('bad-key', 'no')
    expect(theirs).not.toBeInstanceOf(TocsinError)
    expect(TocsinError.is(theirs, 'bad-key')).toBe(true)
    expect(copy.TocsinError.is(new TocsinError('closed', 'no'), 'closed')).toBe(true)
  })

  test.each([
    ['another error', new TypeError('x')],
    ['null', null],
    ['undefined', undefined],
    ['text', 'TocsinError'],
    ['an object that only looks like one', { name: 'TocsinError', code: 'bad-key', message: 'x' }],
  ])('is not %s', (_, value) => expect(TocsinError.is(value)).toBe(false))
})

describe('describeError', () => {
  class PaymentRefused extends Error {
    override name = 'PaymentRefused'
  }

  test.each<[string, unknown, string]>([
    ['an error', new Error('boom'), 'Error: boom'],
    ['a built-in subclass', new RangeError('too far'), 'RangeError: too far'],
    ['a subclass with a name', new PaymentRefused('no money'), 'PaymentRefused: no money'],
    ['text', 'boom', "thrown: 'boom'"],
    ['null', null, 'thrown: null'],
    ['undefined', undefined, 'thrown: undefined'],
    ['a number', 42, 'thrown: 42'],
    ['a BigInt', 42n, 'thrown: 42'],
    ['a symbol', Symbol('boom'), 'thrown: Symbol(boom)'],
    ['an object', { a: 1 }, 'thrown: an object'],
    ['an object without a prototype', Object.create(null), 'thrown: an object'],
    ['an array', [1, 2], 'thrown: an array of 2'],
    ['a Map', new Map(), 'thrown: a Map'],
  ])('%s', (_, thrown, text) => expect(describeError(thrown)).toBe(text))

  test.each<[string, unknown]>([
    ['a name that throws', errorWithThrowing('name')],
    ['a message that throws', errorWithThrowing('message')],
    ['a message that is a symbol', Object.assign(new Error('x'), { message: Symbol('x') })],
    ['a proxy that throws', hostile()],
    ['a revoked proxy', revoked()],
  ])('%s does not become a second failure', (_, thrown) =>
    expect(describeError(thrown)).toBe('thrown: a value that cannot be described'),
  )

  test('a very long message is cut, and says so', () => {
    const text = describeError(new Error('x'.repeat(100_000)))
    expect(text).toHaveLength(500)
    expect(text).toMatch(/^Error: x+…$/)
  })

  test('a message of just the longest length stays whole', () => {
    const message = 'x'.repeat(500 - 'Error: '.length)
    expect(describeError(new Error(message))).toBe(`Error: ${message}`)
    expect(describeError(new Error(`${message}x`))).toMatch(/…$/)
  })

  test('is one line', () => expect(describeError(new Error('first\nsecond\r\nthird'))).not.toMatch(/[\r\n]/))

  // The text is stored: PostgreSQL takes neither U+0000 nor half a surrogate pair.
  test.each([
    ['a cut through a surrogate pair', `${'x'.repeat(491)}${'😀'.repeat(50)}`],
    ['the same, one further', `${'x'.repeat(492)}${'😀'.repeat(50)}`],
    ['a lone surrogate in the message', 'bad \ud800 text'],
    ['a zero character in the message', 'bad \u0000 text'],
  ])('can be stored as text: %s', (_, message) => {
    const text = describeError(new Error(message))
    expect(text.isWellFormed()).toBe(true)
    expect(text).not.toContain('\u0000')
  })
})

describe('describeValue', () => {
  test.each<[unknown, string]>([
    ['text', "'text'"],
    ['', "''"],
    [1.5, '1.5'],
    [Number.NaN, 'NaN'],
    [true, 'true'],
    [null, 'null'],
    [undefined, 'undefined'],
    [Symbol('s'), 'Symbol(s)'],
    [[], 'an array of 0'],
    [{}, 'an object'],
    [new Date(0), 'a Date'],
    [Object.create(null, { [Symbol.toStringTag]: { value: 'Odd' } }), 'a value'],
  ])('%o', (value, text) => expect(describeValue(value)).toBe(text))

  test.each<[string, unknown]>([
    ['text', 'x'.repeat(100_000)],
    ['a BigInt', 10n ** 5_000n],
    ['a symbol', Symbol('x'.repeat(100_000))],
    ['a function', errorWithThrowing],
  ])('is short, however long the value: %s', (_, value) =>
    expect(describeValue(value).length).toBeLessThan(100),
  )

  test('text of 60 characters stays whole, longer text is cut', () => {
    expect(describeValue('x'.repeat(60))).toBe(`'${'x'.repeat(60)}'`)
    expect(describeValue('x'.repeat(61))).toMatch(/^'x+…'$/)
  })

  test.each<[string, () => unknown]>([
    ['a proxy that throws', hostile],
    ['a revoked proxy', revoked],
    [
      'a tag that throws',
      () => ({
        get [Symbol.toStringTag](): string {
          throw new Error('tag')
        },
      }),
    ],
  ])('never throws: %s', (_, make) => expect(describeValue(make())).toEqual(expect.any(String)))
})

test('describeValue escapes control characters, because input must not add lines to a log', () => {
  expect(describeValue('a\nb\u0000c')).toBe("'a\\u000ab\\u0000c'")
  expect(describeValue(() => 5)).toBe('a function')
})

test('describeValue shortens a long text to 58 characters', () => {
  expect(describeValue('é'.repeat(60))).toBe(`'${'é'.repeat(60)}'`)
  expect(describeValue(`b${'é'.repeat(60)}`)).toBe(`'b${'é'.repeat(56)}…'`)
})
