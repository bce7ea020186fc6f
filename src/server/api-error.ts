/** Whatever went wrong, as a client is told: one shape, the right status, nothing of our insides. */
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

/** Also for answers that are no failure of ours, such as a key that is not there. */
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

/** What stores say, and where they are, is for whoever runs the server: the log has it, and nobody else. */
export function wordsOf({ code, status, message }: TocsinError): string {
  return status >= 500 ? ERROR_TABLE[code].means : message
}

/** What Fastify refuses by itself, in our words. */
const BY_FASTIFY: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['too-large', 'body: it is larger than is taken'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['bad-media-type', 'content-type: it is not one that is taken here'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['bad-request', 'body: it is not as long as its content-length says'],
  FST_ERR_BAD_URL: ['bad-request', 'the path is not percent-encoded UTF-8'],
  FST_ERR_MAX_PARAM_LENGTH: ['bad-request', 'a part of the path is longer than any name or key'],
}

/** Null: nobody foresaw it, and nobody outside is told more than that. */
export function asTocsinError(thrown: unknown): TocsinError | null {
  if (TocsinError.is(thrown)) return thrown
  const { code = '', statusCode = 500 } = (thrown ?? {}) as Partial<FastifyError>
  const [known, words] = BY_FASTIFY[code] ?? ['bad-request', ERROR_TABLE['bad-request'].means]
  // Its own words may repeat what was sent, at any length.
  return code.startsWith('FST_') && statusCode < 500 ? new TocsinError(known, words) : null
}

/** What nobody foresaw is a mistake of ours, and no more is said of it. */
export function orInternal(known: TocsinError | null): TocsinError {
  return known ?? new TocsinError('internal', ERROR_TABLE.internal.means)
}

/** Also for what nobody foresaw, which the log alone is told of. */
export function foreseen(thrown: unknown, log: FastifyBaseLogger): TocsinError {
  const known = asTocsinError(thrown)
  if (known === null) log.error({ error: thrown }, 'a request failed in a way that nobody foresaw')
  else if (known.status >= 500) log.warn({ error: known }, 'a request could not be carried out')
  return orInternal(known)
}

/** How long to wait before trying again, where it is worth it. */
export function retryAfterSeconds(error: TocsinError): number | null {
  if (!error.retryable) return null
  const { retryInMs } = error.details
  return Math.max(1, Math.ceil((typeof retryInMs === 'number' ? retryInMs : 1_000) / 1_000))
}
