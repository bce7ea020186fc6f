import { describeValue, type ErrorCode, TocsinError } from '../errors.ts'

const NAME_LENGTH_MAX = 64

/** Throws if `value` is not a plain object or has an unknown property, so that a typo is not ignored. */
export function checkOptions(
  value: unknown,
  known: readonly string[],
  where: string,
  code: ErrorCode = 'bad-option',
  /** The path of `value`, put before the name of an option in `details.field` of the error. '' for no path. */
  field: string = where,
): void {
  if (!isPlain(value))
    throw new TocsinError(
      code,
      `${where}: expected an object, got ${describeValue(value)}; write { ${known[0]}: … }`,
      field === '' ? {} : { field },
    )
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue
    const near = nearest(name, known)
    const hint = near === null ? `known: ${known.join(', ')}` : `did you mean '${near}'?`
    const shown = name.slice(0, NAME_LENGTH_MAX)
    throw new TocsinError(code, `${where}: unknown option ${describeValue(name)}; ${hint}`, {
      field: field === '' ? shown : `${field}.${shown}`,
      hint,
    })
  }
}

export function wholeNumber(
  value: unknown,
  min: number,
  max: number,
  field: string,
  code?: ErrorCode,
): number {
  if (Number.isInteger(value) && (value as number) >= min && (value as number) <= max) return value as number
  throw badOption(field, `expected a whole number from ${min} to ${max}, got ${describeValue(value)}`, code)
}

export function badOption(field: string, message: string, code: ErrorCode = 'bad-option'): TocsinError {
  return new TocsinError(code, `${field}: ${message}`, { field })
}

export function needsLedger(what: string): TocsinError {
  const message = `${what} needs a ledger (a SQL database that keeps the tasks); this Tocsin has none`
  return new TocsinError('ledger-required', message)
}

/**
 * Returns true for a plain object. Does not check the prototype, because an object literal of another realm (a test
 * runner's sandbox) has another prototype.
 */
function isPlain(value: unknown): value is object {
  return Object.prototype.toString.call(value) === '[object Object]'
}

/** Returns the known name that `name` probably misspells; null if there is no similar name. */
export function nearest(name: string, known: readonly string[]): string | null {
  // Skip long names: they are no misspellings, and computing the edit distance takes quadratic time.
  if (name.length > NAME_LENGTH_MAX) return null
  const lower = name.toLowerCase()
  let best: string | null = null
  let bestDistance = (name.length < 3 ? 1 : Math.max(2, Math.ceil(name.length / 3))) + 1
  for (const candidate of known) {
    // Skip names of very different length, because they are other words: 'data' is not a misspelt 'at'.
    if (Math.abs(candidate.length - name.length) > Math.max(1, Math.floor(name.length / 3))) continue
    const distance = editDistance(lower, candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substituted = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substituted, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/**
 * Describes a URL for an error message without its user and password (everything up to the last '@') and without its
 * parameters, which may have passwords, too.
 */
export function withoutSecret(value: unknown): string {
  if (typeof value !== 'string') return describeValue(value)
  const at = value.lastIndexOf('@')
  const query = value.indexOf('?')
  // The '@' may be in a parameter, or the '?' in a password: no part after the scheme is certain to be no secret.
  if (query >= 0 && query < at) return describeValue(`${value.slice(0, value.indexOf(':') + 1)}…`)
  const shown = value.slice(at + 1, query < 0 ? undefined : query)
  return describeValue(`${at < 0 ? '' : '…@'}${shown}${query < 0 ? '' : '?…'}`)
}
