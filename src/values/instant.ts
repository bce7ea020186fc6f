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

function textMs(text: string, field: string): number {
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
