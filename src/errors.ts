/**
 * Every error a user can meet, in one table. A code is stable: it is documented in docs/errors.md, it is what
 * programs branch on, and it is never given a second meaning. `status` is the HTTP status a server answers with;
 * `retryable` says whether the same call may succeed later without being changed.
 */
export const ERROR_TABLE = {
  'bad-topic': {
    status: 400,
    retryable: false,
    means: 'a topic name, or a second declaration of a topic, is not acceptable',
  },
  'unknown-topic': {
    status: 404,
    retryable: false,
    means: 'nobody has declared or used the topic yet, so that nobody knows how its keys are placed',
  },
  'bad-config': {
    status: 400,
    retryable: false,
    means: 'a topic setting has a wrong type or is out of range',
  },
  'bad-key': {
    status: 400,
    retryable: false,
    means: 'a key is not 1–256 bytes of UTF-8 without control characters',
  },
  'bad-tags': { status: 400, retryable: false, means: 'tags are too many, too long, or not text' },
  'bad-payload': { status: 400, retryable: false, means: 'a payload is not JSON, or its schema refuses it' },
  'payload-too-large': {
    status: 413,
    retryable: false,
    means: 'a payload is over the size limit once it is JSON',
  },
  'bad-time': { status: 400, retryable: false, means: 'an instant is malformed, ambiguous or out of range' },
  'bad-duration': { status: 400, retryable: false, means: 'a duration is malformed or out of range' },
  'bad-option': { status: 400, retryable: false, means: 'an option is unknown or has a wrong value' },
  'bad-cursor': { status: 400, retryable: false, means: 'a cursor was not made by this listing' },
  'bad-outcome': { status: 400, retryable: false, means: 'a handler returned something that is no outcome' },
  'outcome-count': {
    status: 400,
    retryable: false,
    means: 'a batch handler or a guard returned a wrong number of answers',
  },
  'version-conflict': {
    status: 412,
    retryable: false,
    means: 'the live configuration changed since it was read',
  },
  interrupted: {
    status: 503,
    retryable: true,
    means: 'a bulk call failed part of the way; details.accepted are in',
  },
  'ledger-required': {
    status: 400,
    retryable: false,
    means: 'the call needs a ledger, and this composition has none',
  },
  unsupported: { status: 400, retryable: false, means: 'this version cannot do that yet' },
  'unknown-outcome': {
    status: 503,
    retryable: false,
    means: 'the call was sent and its answer is lost: it may have taken effect, and was not sent again',
  },
  'timetable-unavailable': {
    status: 503,
    retryable: true,
    means: 'the timetable cannot be reached or cannot answer now; the call did not take effect',
  },
  'timetable-full': {
    status: 503,
    retryable: true,
    means: 'the timetable has no memory for new tasks; what is in it goes on',
  },
  'timetable-refused': {
    status: 503,
    retryable: false,
    means: 'the timetable cannot be used as it is: password, version, setting, database or certificate',
  },
  'ledger-in-use': {
    status: 503,
    retryable: true,
    means: 'another process, or another Tocsin of this one, has the embedded ledger open',
  },
  'ledger-unavailable': {
    status: 503,
    retryable: true,
    means: 'the ledger cannot be opened, or cannot write now; the call did not take effect',
  },
  'ledger-full': {
    status: 503,
    retryable: true,
    means: 'the disk of the ledger is full; the call did not take effect',
  },
  'ledger-damaged': {
    status: 500,
    retryable: false,
    means: 'the ledger, or a task in it, is not what was written; nothing of it is delivered',
  },
  'ledger-refused': {
    status: 503,
    retryable: false,
    means: 'the ledger cannot be used as it is: user, rights, version, database, or its part in a larger one',
  },
  'driver-missing': {
    status: 500,
    retryable: false,
    means: 'a package that this composition needs is not installed',
  },
  'ledger-too-new': {
    status: 503,
    retryable: false,
    means: 'the ledger was written by a newer version',
  },
  'bad-tx': {
    status: 400,
    retryable: false,
    means: "tx is not an open transaction of the ledger's database",
  },
  'bad-request': {
    status: 400,
    retryable: false,
    means: 'a request is not what the API describes: malformed, of a wrong type, or with an unknown field',
  },
  unauthorized: {
    status: 401,
    retryable: false,
    means: 'the request has no token, or one that is not valid, or not any more',
  },
  forbidden: {
    status: 403,
    retryable: false,
    means: 'the token is valid, and does not allow this',
  },
  'not-found': { status: 404, retryable: false, means: 'there is no such task, token or route' },
  'method-not-allowed': {
    status: 405,
    retryable: false,
    means: 'the path does not take this method; the Allow header lists those that it takes',
  },
  'in-flight': {
    status: 409,
    retryable: false,
    means: 'somebody has the task right now; cancelled so, no attempt follows this one',
  },
  'request-timeout': {
    status: 408,
    retryable: true,
    means: 'the body of the request did not come in time',
  },
  'too-large': { status: 413, retryable: false, means: 'the request is larger than is taken' },
  'bad-media-type': {
    status: 415,
    retryable: false,
    means: 'the body of the request is of a type that is not taken here',
  },
  'headers-too-large': { status: 431, retryable: false, means: 'the headers of the request are too large' },
  'rate-limited': { status: 429, retryable: true, means: 'too many requests; see Retry-After' },
  internal: {
    status: 500,
    retryable: false,
    means: 'a mistake of ours; the log has it under the request id',
  },
  unreachable: {
    status: 503,
    retryable: true,
    means: 'the server cannot be reached, or did not answer in time',
  },
  'bad-token': {
    status: 400,
    retryable: false,
    means: 'what was given as the token of a claim is none',
  },
  closed: { status: 503, retryable: false, means: 'the Tocsin or the consumer was closed' },
  timeout: { status: 504, retryable: true, means: 'a handler, or a schema, did not answer in time' },
  cancelled: { status: 409, retryable: false, means: 'the task was cancelled while its handler ran' },
  'lease-lost': {
    status: 409,
    retryable: false,
    means: 'the claim is not ours any more; its outcome will not count',
  },
} as const satisfies Record<string, { status: number; retryable: boolean; means: string }>

export type ErrorCode = keyof typeof ERROR_TABLE

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

export class TocsinError extends Error {
  override readonly name = 'TocsinError'
  readonly code: ErrorCode
  readonly retryable: boolean
  readonly status: number
  readonly details: Record<string, Json>

  constructor(code: ErrorCode, message: string, details: Record<string, Json> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.retryable = ERROR_TABLE[code].retryable
    this.status = ERROR_TABLE[code].status
    this.details = details
  }

  /** By name, not by `instanceof`: two copies of the package in one process still know each other's errors. */
  static is(error: unknown, code?: ErrorCode): error is TocsinError {
    if (!(error instanceof Error) || error.name !== 'TocsinError') return false
    return code === undefined || (error as TocsinError).code === code
  }
}

/** What to keep of anything a handler may throw: one line that helps, of bounded length, never a crash. */
export function describeError(thrown: unknown): string {
  let text: string
  try {
    text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `thrown: ${describeValue(thrown)}`
  } catch {
    // A hostile toString or getter: describing a failure must not become a second failure.
    text = 'thrown: a value that cannot be described'
  }
  return boundedText(text)
}

const ERROR_TEXT_LIMIT = 500

/** Error texts are kept with the task, in stores that refuse control characters and half pairs: one short, clean line. */
export function boundedText(text: string): string {
  const line = text.slice(0, ERROR_TEXT_LIMIT * 2).replace(/\p{Cc}+/gu, ' ')
  const cut = line.length > ERROR_TEXT_LIMIT ? `${line.slice(0, ERROR_TEXT_LIMIT - 1)}…` : line
  return cut.toWellFormed()
}

/** A value as an error message shows it: short, quoted, never throwing. */
export function describeValue(value: unknown): string {
  try {
    if (typeof value === 'string') return `'${short(value)}'`
    if (typeof value === 'function') return 'a function'
    if (value === null || typeof value !== 'object') return short(String(value))
    if (Array.isArray(value)) return `an array of ${value.length}`
    return Object.prototype.toString.call(value) === '[object Object]'
      ? 'an object'
      : `a ${value.constructor?.name ?? 'value'}`
  } catch {
    return 'a value that cannot be described'
  }
}

/** Control characters are shown as escapes: what a caller sent must not break into the lines of a log. */
function short(text: string): string {
  const cut = text.length > 60 ? `${text.slice(0, 57).toWellFormed()}…` : text
  return cut.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
