import { describeValue, TocsinError } from '../errors.ts'

/** A number of milliseconds, or text with units, the largest unit first: '250ms' '30s' '1h30m' '7d' '2w'. */
export type Duration = number | string

const UNIT_MS = { w: 604_800_000, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const

const PATTERN = /^(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/

/** A hundred years. A longer duration is a mistake, and `now + duration` must not exceed the last possible instant. */
export const LONGEST_DURATION_MS = 36_500 * UNIT_MS.d

/** The last parsed text, as a cache: a bulk call may have '30m' a million times. */
let lastText: string | null = null
let lastTextMs = Number.NaN

/** Returns whole milliseconds, rounded up: a timer may fire a fraction of a millisecond late, but never early. */
export function durationMs(value: Duration, field: string): number {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? textMs(value) : Number.NaN
  if (!(ms >= 0 && ms <= LONGEST_DURATION_MS)) throw refusal(value, field, ms)
  return Math.ceil(ms)
}

function textMs(text: string): number {
  if (text === lastText) return lastTextMs
  const parts = text === '' ? null : PATTERN.exec(text)
  const units = Object.values(UNIT_MS)
  lastTextMs =
    parts === null
      ? Number.NaN
      : units.reduce((sum, unitMs, i) => sum + Number(parts[i + 1] ?? 0) * unitMs, 0)
  lastText = text
  return lastTextMs
}

function refusal(value: unknown, field: string, ms: number): TocsinError {
  const hint = ms > LONGEST_DURATION_MS ? 'the longest is 36500d' : hintFor(value)
  return new TocsinError('bad-duration', `${field}: ${describeValue(value)} is not a duration; ${hint}`, {
    field,
  })
}

const LOOSELY_WRITTEN = /^(\d{1,15}) ?(ms|milli|s|m|h|d|w)[a-z]*$/i

function hintFor(value: unknown): string {
  const text = typeof value === 'string' ? value : ''
  if (/^\d{1,15}$/.test(text))
    return `say which unit: '${text}s', '${text}ms', or the number ${text} for milliseconds`
  const [, count, unit] = LOOSELY_WRITTEN.exec(text) ?? []
  if (count !== undefined && unit === 'M')
    return `write '${count}m' for minutes; a month is not a duration, give its instant`
  if (count !== undefined && unit !== undefined)
    return `write '${count}${unit.toLowerCase().replace('milli', 'ms')}'`
  return "use milliseconds (90000) or text like '250ms', '30s', '1h30m', '7d', '2w'"
}

/** Returns text that `durationMs` parses to the same number. Uses the largest units: '1m30s', not '90s'. */
export function durationText(ms: number): string {
  if (ms === 0) return '0ms'
  let left = ms
  let text = ''
  for (const [unit, unitMs] of Object.entries(UNIT_MS)) {
    const count = Math.floor(left / unitMs)
    left -= count * unitMs
    if (count > 0) text += `${count}${unit}`
  }
  return text
}
