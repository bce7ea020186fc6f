import { describe, expect, test } from 'vitest'
import { durationMs, durationText, LONGEST_DURATION_MS } from './duration.ts'

const refusal = (says: string | RegExp) =>
  expect.objectContaining({
    code: 'bad-duration',
    details: { field: 'delay' },
    message: expect.stringMatching(says),
  })

/** Whole numbers from 0 to `max`, small ones as likely as large ones; the same at every run. */
function* wholeNumbers(max: number, count: number): Generator<number> {
  let state = 1
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    yield Math.floor(max ** (state / 2 ** 32))
  }
}

describe('durationMs', () => {
  test.each<[string | number, number]>([
    ['250ms', 250],
    ['30s', 30_000],
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
    ['2w', 1_209_600_000],
    ['1w2d3h4m5s6ms', 788_645_006],
    ['1m1ms', 60_001],
    ['1s500ms', 1_500],
    ['90m', 5_400_000],
    ['0s', 0],
    ['007s', 7_000],
    ['36500d', LONGEST_DURATION_MS],
    [0, 0],
    [90_000, 90_000],
    [LONGEST_DURATION_MS, LONGEST_DURATION_MS],
  ])('%s', (value, ms) => expect(durationMs(value, 'delay')).toBe(ms))

  test.each([
    [0.001, 1],
    [1.000001, 2],
    [999.5, 1_000],
  ])('%s ms is rounded up to %s', (value, ms) => expect(durationMs(value, 'delay')).toBe(ms))

  test.each<[unknown]>([
    ['-5m'],
    ['+5m'],
    [' 5m'],
    ['5m '],
    ['5m\n'],
    [''],
    ['1.5h'],
    ['1e3ms'],
    ['h'],
    ['30m1h'],
    ['1ms1s'],
    ['1h1h'],
    ['PT5M'],
    ['Infinity'],
    ['٣s'],
    [Number.NaN],
    [-1],
    [-0.001],
    [Number.NEGATIVE_INFINITY],
    [null],
    [undefined],
    [true],
    [5n],
    [{}],
    [['5m']],
    [new Date(0)],
    [Object('5m')],
    [Symbol('5m')],
  ])('refuses %o and shows what to write', (value) =>
    expect(() => durationMs(value as string, 'delay')).toThrow(
      refusal(/^delay: [^]*'250ms', '30s', '1h30m'/),
    ),
  )

  test.each([
    ['5 min', '5m'],
    ['5 m', '5m'],
    ['5min', '5m'],
    ['30 seconds', '30s'],
    ['10 milliseconds', '10ms'],
    ['2 Weeks', '2w'],
  ])('refuses %o and says to write %o', (value, better) =>
    expect(() => durationMs(value, 'delay')).toThrow(refusal(new RegExp(`write '${better}'$`))),
  )

  test('refuses a capital M, which may mean either', () =>
    expect(() => durationMs('5M', 'delay')).toThrow(refusal(/write '5m' for minutes; a month/)))

  test('refuses a bare number as text and asks for its unit', () =>
    expect(() => durationMs('30', 'delay')).toThrow(refusal(/which unit: '30s', '30ms', or the number 30/)))

  test.each<[number | string]>([
    [Number.POSITIVE_INFINITY],
    [LONGEST_DURATION_MS + 1],
    ['36501d'],
    ['36500d1ms'],
    [`${'9'.repeat(400)}w`],
  ])('refuses %s as too long and names the longest', (value) =>
    expect(() => durationMs(value, 'delay')).toThrow(refusal(/the longest is 36500d/)),
  )

  test('names the field that it was asked about', () =>
    expect(() => durationMs('soon', 'retry.min')).toThrow(
      expect.objectContaining({
        details: { field: 'retry.min' },
        message: expect.stringMatching(/^retry\.min: 'soon'/),
      }),
    ))

  test.each(['1', 'x'])('a long wrong text of %s does not make a long message', (letter) => {
    let message = ''
    try {
      durationMs(letter.repeat(100_000), 'delay')
    } catch (error) {
      message = (error as Error).message
    }
    expect(message.length).toBeGreaterThan(0)
    expect(message.length).toBeLessThan(400)
  })
})

describe('durationText', () => {
  test.each([
    [0, '0ms'],
    [1, '1ms'],
    [1_000, '1s'],
    [90_000, '1m30s'],
    [5_400_000, '1h30m'],
    [604_800_000, '1w'],
    [788_645_006, '1w2d3h4m5s6ms'],
    [LONGEST_DURATION_MS, '5214w2d'],
  ])('%s', (ms, text) => expect(durationText(ms)).toBe(text))

  test('is read back as the same number', () => {
    for (const ms of wholeNumbers(LONGEST_DURATION_MS, 10_000))
      expect(durationMs(durationText(ms), 'delay')).toBe(ms)
  })
})
