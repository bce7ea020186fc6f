/** Converts error answers, lost answers and connection failures to TocsinErrors. */
import { boundedText, describeError, ERROR_TABLE, type ErrorCode, type Json, TocsinError } from '../errors.ts'

/** A request that was sent, as error messages describe it. */
export interface SentRequest {
  readonly method: string
  /** The URL without secrets. */
  readonly url: string
  /** True if the call may be retried after a lost answer. */
  readonly isRepeatable: boolean
}

export interface Refusal {
  readonly status: number
  /** The body as JSON; null if it is not JSON, and therefore not from Tocsin. */
  readonly body: unknown
  readonly retryAfter: string | null
}

const DETAILS = ['field', 'index', 'hint', 'accepted', 'requestId'] as const

/** Returns the error for an answer that is not 2xx. */
export function refused(
  sent: SentRequest,
  { status, body, retryAfter }: Refusal,
  nowMs: number,
): TocsinError {
  const reported = (body as { error?: Record<string, Json> } | null)?.error
  const code = reported?.['code']
  const retryInMs = retryMs(retryAfter, nowMs)
  const wait = retryInMs === null ? {} : { retryInMs }
  if (reported === undefined || typeof code !== 'string')
    return new TocsinError(
      codeByStatus(sent, status),
      `${sent.method} ${sent.url} was answered with ${status}, and not by Tocsin; is another server at this address, or a proxy in between?`,
      { status, ...wait },
    )
  const message = boundedText(typeof reported['message'] === 'string' ? reported['message'] : code)
  const details = Object.fromEntries(
    DETAILS.flatMap((name) => (name in reported ? [[name, reported[name] as Json]] : [])),
  )
  if (isKnown(code)) return new TocsinError(code, message, { ...details, ...wait })
  // A newer server may send codes that this client does not know.
  return new TocsinError(status >= 500 ? 'unreachable' : 'bad-request', `${boundedText(code)}: ${message}`, {
    ...details,
    ...wait,
    status,
  })
}

/** Returns the error for an answer that is missing, incomplete or unreadable. */
export function lost(sent: SentRequest, why: string, cause?: unknown): TocsinError {
  const what = `${sent.method} ${sent.url}: ${why}`
  return sent.isRepeatable
    ? new TocsinError('unreachable', what, {}, cause)
    : new TocsinError('unknown-outcome', `${what}; it may have taken effect`, {}, cause)
}

/** Returns the error for a `fetch` that threw. */
export function failed(sent: SentRequest, thrown: unknown): TocsinError {
  const cause = (thrown as { cause?: unknown } | null)?.cause ?? thrown
  const why = wordsOf(cause)
  const mistake = MISTAKES[(cause as Partial<Error> | null)?.message ?? '']
  if (mistake !== undefined)
    return new TocsinError('bad-option', `url: ${sent.url} ${mistake}`, { field: 'url' }, thrown)
  return lost(wasNeverSent(cause) ? { ...sent, isRepeatable: true } : sent, why, thrown)
}

/** Mistakes in the configured URL, by the error message of `fetch`. */
const MISTAKES: Readonly<Record<string, string | undefined>> = {
  'unexpected redirect': 'redirects: use the URL of the server itself',
  'bad port': 'has a port that fetch blocks',
}

const BEFORE_TLS = /^(CERT_|ERR_TLS_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_SSL_WRONG_VERSION)/

interface SystemError {
  readonly code?: unknown
  readonly syscall?: unknown
  readonly errors?: unknown
}

/** Returns true if no connection was established. Then even a write had no effect. */
function wasNeverSent(cause: unknown): boolean {
  const { code, syscall, errors } = (cause ?? {}) as SystemError
  // If the host has several addresses, there is one error per connection attempt.
  if (Array.isArray(errors) && errors.length > 0) return errors.every(wasNeverSent)
  return (
    syscall === 'connect' ||
    syscall === 'getaddrinfo' ||
    code === 'UND_ERR_CONNECT_TIMEOUT' ||
    (typeof code === 'string' && BEFORE_TLS.test(code))
  )
}

function wordsOf(cause: unknown): string {
  const { code } = (cause ?? {}) as SystemError
  switch (code) {
    case 'ECONNREFUSED':
      return 'connection refused (ECONNREFUSED); is the server running?'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `host not found (${code})`
    default:
      return `the connection failed: ${describeError(cause)}${typeof code === 'string' ? ` (${code})` : ''}`
  }
}

/**
 * Returns an error code for an answer that is not from Tocsin, by its status. Among the 5xx statuses, only 503 means
 * that a write had no effect.
 */
function codeByStatus({ isRepeatable }: SentRequest, status: number): ErrorCode {
  if (status === 429) return 'rate-limited'
  if (status < 500) return 'bad-request'
  return isRepeatable || status === 503 ? 'unreachable' : 'unknown-outcome'
}

function isKnown(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_TABLE, code)
}

/**
 * Returns Retry-After in ms from now; null if it is absent or invalid. It is a number of seconds, or a proxy's date.
 */
function retryMs(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000
  const atMs = Date.parse(header)
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}
