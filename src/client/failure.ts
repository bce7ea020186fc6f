/** What came back instead of an answer, or did not come back, as the error that a caller meets. */
import { boundedText, describeError, ERROR_TABLE, type ErrorCode, type Json, TocsinError } from '../errors.ts'

/** What was asked for. */
export interface Asked {
  readonly method: string
  /** Its address, without what is secret. */
  readonly url: string
  /** The same call may be sent again: it changes nothing, or nothing more than once. */
  readonly isRepeatable: boolean
}

export interface Refusal {
  readonly status: number
  /** Null: it is no JSON, and so none of ours. */
  readonly body: unknown
  readonly retryAfter: string | null
}

const DETAILS = ['field', 'index', 'hint', 'accepted', 'requestId'] as const

/** A server answered, and not as asked. */
export function refused(asked: Asked, { status, body, retryAfter }: Refusal, nowMs: number): TocsinError {
  const told = (body as { error?: Record<string, Json> } | null)?.error
  const code = told?.['code']
  const retryInMs = retryMs(retryAfter, nowMs)
  const wait = retryInMs === null ? {} : { retryInMs }
  if (told === undefined || typeof code !== 'string')
    return new TocsinError(
      codeOfStranger(asked, status),
      `${asked.method} ${asked.url} was answered with ${status}, and not by Tocsin; is something else at this address, or in between?`,
      { status, ...wait },
    )
  const message = boundedText(typeof told['message'] === 'string' ? told['message'] : code)
  const details = Object.fromEntries(
    DETAILS.flatMap((name) => (name in told ? [[name, told[name] as Json]] : [])),
  )
  if (isKnown(code)) return new TocsinError(code, message, { ...details, ...wait })
  // A newer server knows more codes than this client.
  return new TocsinError(status >= 500 ? 'unreachable' : 'bad-request', `${boundedText(code)}: ${message}`, {
    ...details,
    ...wait,
    status,
  })
}

/** No answer came, or not all of it, or none that can be read. */
export function lost(asked: Asked, why: string, cause?: unknown): TocsinError {
  const what = `${asked.method} ${asked.url}: ${why}`
  return asked.isRepeatable
    ? new TocsinError('unreachable', what, {}, cause)
    : new TocsinError('unknown-outcome', `${what}; it may have taken effect`, {}, cause)
}

/** `fetch` failed. */
export function failed(asked: Asked, thrown: unknown): TocsinError {
  const cause = (thrown as { cause?: unknown } | null)?.cause ?? thrown
  const why = wordsOf(cause)
  const mistake = MISTAKES[(cause as Partial<Error> | null)?.message ?? '']
  if (mistake !== undefined)
    return new TocsinError('bad-option', `url: ${asked.url} ${mistake}`, { field: 'url' }, thrown)
  return lost(wasNeverSent(cause) ? { ...asked, isRepeatable: true } : asked, why, thrown)
}

/** What `fetch` refuses by itself, in its own words. */
const MISTAKES: Readonly<Record<string, string | undefined>> = {
  'unexpected redirect': 'leads elsewhere: give the address of the server itself',
  'bad port': 'has a port that fetch does not speak to',
}

const BEFORE_TLS = /^(CERT_|ERR_TLS_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_SSL_WRONG_VERSION)/

interface SystemError {
  readonly code?: unknown
  readonly syscall?: unknown
  readonly errors?: unknown
}

/** There was no connection yet, so that also a write took no effect. */
function wasNeverSent(cause: unknown): boolean {
  const { code, syscall, errors } = (cause ?? {}) as SystemError
  // A name with several addresses: each of them was tried.
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
      return 'nobody listens there (ECONNREFUSED)'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `there is no host of this name (${code})`
    default:
      return `the connection failed: ${describeError(cause)}${typeof code === 'string' ? ` (${code})` : ''}`
  }
}

/** Proxies and strangers have no codes, only a status. Only 503 says that a write went nowhere. */
function codeOfStranger({ isRepeatable }: Asked, status: number): ErrorCode {
  if (status === 429) return 'rate-limited'
  if (status < 500) return 'bad-request'
  return isRepeatable || status === 503 ? 'unreachable' : 'unknown-outcome'
}

function isKnown(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_TABLE, code)
}

/** Seconds, or, from proxies, a date. */
function retryMs(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000
  const atMs = Date.parse(header)
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}
