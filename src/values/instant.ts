import { describeValue, TocsinError } from '../errors.ts'

/** A Date, ms since 1970, RFC 3339 text with an offset, or an object with `epochMilliseconds` (Temporal). */
export type Instant = Date | number | string | { readonly epochMilliseconds: number }

/**
 * The last possible instant: 2255-06-05. Tasks are sorted by a score, ms * 1000 + failures. A score must be an exact
 * integer in a double, in this process, in Redis and in Lua.
 */
export const LAST_INSTANT_MS = Math.floor(Number.MAX_SAFE_INTEGER / 1000) - 1

/** As milliseconds this is March 1973, as seconds the year 5138. A smaller number was probably meant as seconds. */
const SMALLEST_PLAUSIBLE_MS = 100_000_000_000

const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)$/

/** Returns whole ms since 1970, rounded up: a timer may fire a fraction of a millisecond late, but never early. */
export function instantMs(value: Instant, field: string): number {
  const ms = rawMs(value, field)
  if (!(ms >= 0 && ms <= LAST_INSTANT_MS)) throw refuse(value, field, rangeHint(ms))
  return Math.ceil(ms)
}

function rawMs(value: Instant, field: string): number {
  if (typeof value === 'number') {
    if (value >= 0 && value < SMALLEST_PLAUSIBLE_MS)
      throw refuse(value, field, `it looks like seconds; instants are in milliseconds: ${value * 1000}`)
    return value
  }
  if (typeof value === 'string') return textMs(value, field)
  if (value instanceof Date) return value.getTime()
  if (value !== null && typeof value === 'object' && typeof value.epochMilliseconds === 'number')
    return temporalMs(value)
  throw refuse(value, field, 'use a Date, milliseconds since 1970, RFC 3339 text, or a Temporal.Instant')
}

/** Rounds up to whole ms if the nanoseconds are readable. Temporal itself rounds `epochMilliseconds` down. */
function temporalMs(value: { epochMilliseconds: number; epochNanoseconds?: unknown }): number {
  const nanoseconds = value.epochNanoseconds
  const cut = typeof nanoseconds === 'bigint' && nanoseconds % 1_000_000n !== 0n
  return value.epochMilliseconds + (cut ? 1 : 0)
}

/** The last text in the form that programs print, and its time. The tasks of a bulk schedule often ring together. */
let lastText: string | null = null
let lastTextMs = 0

function textMs(text: string, field: string): number {
  if (text === lastText) return lastTextMs
  const ms = printedMs(text)
  if (Number.isNaN(ms)) return anyTextMs(text, field)
  lastText = text
  lastTextMs = ms
  return ms
}

/**
 * Reads the form that programs print, '2026-11-11T00:00:00Z' or '2026-11-11T00:00:00.000Z', in a tenth of the time that
 * `anyTextMs` takes: each task of a bulk schedule over HTTP has such a text. Returns NaN for any other text, also for a
 * moment that does not exist or is before 1970: `anyTextMs` then reads the text, or tells what is wrong with it.
 */
function printedMs(text: string): number {
  const { length } = text
  if (length !== SECONDS_LENGTH && length !== MILLISECONDS_LENGTH) return Number.NaN
  if (
    text.charCodeAt(4) !== DASH ||
    text.charCodeAt(7) !== DASH ||
    text.charCodeAt(10) !== LETTER_T ||
    text.charCodeAt(13) !== COLON ||
    text.charCodeAt(16) !== COLON ||
    text.charCodeAt(length - 1) !== LETTER_Z
  )
    return Number.NaN
  const year = twoDigits(text, 0) * 100 + twoDigits(text, 2)
  const month = twoDigits(text, 5)
  const day = twoDigits(text, 8)
  const hour = twoDigits(text, 11)
  const minute = twoDigits(text, 14)
  const second = twoDigits(text, 17)
  const ms = millisecondsIn(text)
  // A character that is not a digit makes its number negative.
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return Number.NaN
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 || ms < 0)
    return Number.NaN
  return daysUntil(year, month, day) * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1_000 + ms
}

/** Length of '2026-11-11T00:00:00Z'. */
const SECONDS_LENGTH = 20
/** Length of '2026-11-11T00:00:00.000Z'. */
const MILLISECONDS_LENGTH = 24
const DAY_MS = 86_400_000
/** Makes every number that is computed from it negative. */
const NO_DIGITS = -1_000_000
const [ZERO, DASH, DOT, COLON, LETTER_T, LETTER_Z] = [0x30, 0x2d, 0x2e, 0x3a, 0x54, 0x5a]

function millisecondsIn(text: string): number {
  if (text.length === SECONDS_LENGTH) return 0
  if (text.charCodeAt(19) !== DOT) return NO_DIGITS
  const last = text.charCodeAt(22) - ZERO
  return last < 0 || last > 9 ? NO_DIGITS : twoDigits(text, 20) * 10 + last
}

function twoDigits(text: string, at: number): number {
  const tens = text.charCodeAt(at) - ZERO
  const ones = text.charCodeAt(at + 1) - ZERO
  return tens < 0 || tens > 9 || ones < 0 || ones > 9 ? NO_DIGITS : tens * 10 + ones
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31
}

/**
 * Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that the leap
 * day is the last day of a year: (153 m + 2) / 5 is then the number of days before the month. (`Date.UTC` takes twice as
 * long.)
 */
function daysUntil(year: number, month: number, day: number): number {
  const years = month <= 2 ? year - 1 : year
  const leapDays = Math.floor(years / 4) - Math.floor(years / 100) + Math.floor(years / 400)
  const daysOfMonths = Math.floor((153 * (month <= 2 ? month + 9 : month - 3) + 2) / 5)
  return years * 365 + leapDays + daysOfMonths + day - DAYS_BEFORE_1970
}

/** The days from 0000-03-01 to 1970-01-01, and 1 because the first day of a month is 1. */
const DAYS_BEFORE_1970 = 719_469

/** Reads every text that Tocsin takes. Throws if it is no such text. */
function anyTextMs(text: string, field: string): number {
  const match = RFC3339.exec(text)
  if (match === null) {
    const local = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)
    const hint = local
      ? `it has no offset, so it means another moment on every machine; add 'Z' or '+08:00'`
      : "use RFC 3339 with its offset, like '2026-11-11T00:00:00Z' or '2026-11-11T08:00:00+08:00'"
    throw refuse(text, field, hint)
  }
  const [, year, month, day, hour, minute, second, fraction = '', offset = 'Z'] = match
  const wallMs = Date.UTC(
    Number(year),
    Number(month) - 1,
    Number(day),
    Number(hour),
    Number(minute),
    Number(second),
  )
  const back = new Date(wallMs).toISOString().slice(0, 19)
  if (back !== `${year}-${month}-${day}T${hour}:${minute}:${second}`)
    throw refuse(text, field, 'there is no such moment')
  return wallMs - offsetMs(offset, text, field) + fractionMs(fraction)
}

/** Rounds the digits of a fraction of a second up to whole ms. Compares digits: floating point is not exact. */
function fractionMs(digits: string): number {
  return Number(digits.slice(0, 3).padEnd(3, '0')) + (/[1-9]/.test(digits.slice(3)) ? 1 : 0)
}

function offsetMs(offset: string, text: string, field: string): number {
  if (offset === 'Z' || offset === 'z') return 0
  const hours = Number(offset.slice(1, 3))
  const minutes = Number(offset.slice(4, 6))
  if (hours > 23 || minutes > 59) throw refuse(text, field, 'there is no such offset')
  return (offset.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000
}

function rangeHint(ms: number): string {
  if (Number.isNaN(ms)) return 'it is not a valid moment'
  return ms < 0
    ? 'instants before 1970 are refused'
    : `the last possible instant is ${new Date(LAST_INSTANT_MS).toISOString()}`
}

function refuse(value: unknown, field: string, hint: string): TocsinError {
  return new TocsinError(
    'bad-time',
    `${field}: ${describeValue(value)} is not an instant Tocsin takes: ${hint}`,
    { field },
  )
}
