/**
 * Converts errors to HTTP answers. All error answers have the same shape, have the status of their error code, and
 * reveal no internals of the server.
 */
import type { FastifyBaseLogger, FastifyError } from 'fastify'
import { ERROR_TABLE, type ErrorCode, TocsinError } from '../errors.ts'

export interface ErrorBody {
  readonly error: {
    readonly code: string
    readonly message: string
    readonly retryable: boolean
    readonly field?: string
    readonly index?: number
    readonly hint?: string
    readonly accepted?: number
    readonly requestId?: string
  }
}

/** Returns the body of an error answer. */
export function errorBody(error: TocsinError, requestId?: string): ErrorBody {
  const { code, retryable, details } = error
  return {
    error: {
      code,
      message: wordsOf(error),
      retryable,
      ...(typeof details['field'] === 'string' ? { field: details['field'] } : {}),
      ...(typeof details['index'] === 'number' ? { index: details['index'] } : {}),
      ...(typeof details['hint'] === 'string' ? { hint: details['hint'] } : {}),
      ...(typeof details['accepted'] === 'number' ? { accepted: details['accepted'] } : {}),
      ...(requestId === undefined ? {} : { requestId }),
    },
  }
}

/**
 * Returns the message that a client may see. The message of a 5xx error goes only to the log, because it may contain
 * the address of a store.
 */
export function wordsOf({ code, status, message }: TocsinError): string {
  return status >= 500 ? ERROR_TABLE[code].means : message
}

/** The error codes and messages for requests that Fastify itself rejects. */
const BY_FASTIFY: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['too-large', 'body: too large'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['bad-media-type', 'content-type: not supported here'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad-request', 'body: its length differs from content-length'],
  FST_ERR_BAD_URL: ['bad-request', 'the path is not percent-encoded UTF-8'],
  FST_ERR_MAX_PARAM_LENGTH: ['bad-request', 'a part of the path is longer than any name or key'],
}

/**
 * Converts a thrown value to a TocsinError. Returns null for an unexpected error; the client gets only 'internal' then.
 */
export function asTocsinError(thrown: unknown): TocsinError | null {
  if (TocsinError.is(thrown)) return thrown
  const { code = '', statusCode = 500 } = (thrown ?? {}) as Partial<FastifyError>
  const [known, words] = BY_FASTIFY[code] ?? ['bad-request', ERROR_TABLE['bad-request'].means]
  // Do not use Fastify's own message: it may quote the request, at any length.
  return code.startsWith('FST_') && statusCode < 500 ? new TocsinError(known, words) : null
}

/** Returns the given error. Null stands for an unexpected error and becomes an 'internal' error. */
export function orInternal(known: TocsinError | null): TocsinError {
  return known ?? new TocsinError('internal', ERROR_TABLE.internal.means)
}

/** Returns the error to answer with. Logs the thrown error if it is unexpected or a 5xx. */
export function foreseen(thrown: unknown, log: FastifyBaseLogger): TocsinError {
  const known = asTocsinError(thrown)
  if (known === null) log.error({ error: thrown }, 'request failed with an unexpected error')
  else if (known.status >= 500) log.warn({ error: known }, 'request failed')
  return orInternal(known)
}

/** Returns the value of the header Retry-After; null if a retry cannot succeed. */
export function retryAfterSeconds(error: TocsinError): number | null {
  if (!error.retryable) return null
  const { retryInMs } = error.details
  return Math.max(1, Math.ceil((typeof retryInMs === 'number' ? retryInMs : 1_000) / 1_000))
}
