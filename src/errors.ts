/**
 * All error codes. Programs branch on a code, so a code never gets a second meaning.
 *
 * `means` describes the code. docs/errors.md repeats this description, and a test compares the two. The message of an
 * error is written where the error is thrown. `status` is the HTTP status of a server's answer. `retryable` is true if
 * the same call may succeed later.
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
    means: 'the topic does not exist yet, so its slotBy is unknown',
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
  'bad-outcome': {
    status: 400,
    retryable: false,
    means: 'a handler returned an outcome that is misspelt, ambiguous or out of place',
  },
  'outcome-count': {
    status: 400,
    retryable: false,
    means: 'a batch handler or a guard returned the wrong number of results',
  },
  'version-conflict': {
    status: 412,
    retryable: false,
    means: 'the live configuration changed since it was read',
  },
  interrupted: {
    status: 503,
    retryable: true,
    means: 'a bulk call failed part of the way; the first details.accepted tasks were written',
  },
  'ledger-required': {
    status: 400,
    retryable: false,
    means: 'the call needs a ledger, and this Tocsin has none',
  },
  unsupported: {
    status: 400,
    retryable: false,
    means: 'this version does not support the call or the option',
  },
  'unknown-outcome': {
    status: 503,
    retryable: false,
    means: 'the call was sent and its reply was lost; it may have taken effect, and was not retried',
  },
  'timetable-unavailable': {
    status: 503,
    retryable: true,
    means: 'the timetable cannot be reached or cannot answer now; the call did not take effect',
  },
  'timetable-full': {
    status: 503,
    retryable: true,
    means: 'the timetable is out of memory and takes no new tasks; existing tasks still fire',
  },
  'timetable-refused': {
    status: 503,
    retryable: false,
    means: 'the timetable cannot be used: wrong password, version, setting, database or certificate',
  },
  'ledger-in-use': {
    status: 503,
    retryable: true,
    means: 'another process, or another Tocsin in this process, has the embedded ledger open',
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
    means: 'the ledger, or a task in it, is corrupt; corrupt data is never delivered',
  },
  'ledger-refused': {
    status: 503,
    retryable: false,
    means: 'the ledger cannot be used: wrong user, privileges, version, database or shard',
  },
  'driver-missing': {
    status: 500,
    retryable: false,
    means: 'a package that the timetable or the ledger needs is not installed',
  },
  'ledger-too-new': {
    status: 503,
    retryable: false,
    means: 'the ledger was written by a newer version of Tocsin',
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
    means: 'the request has no access token, or an invalid or expired one',
  },
  forbidden: {
    status: 403,
    retryable: false,
    means: 'the access token is valid, but does not allow the request',
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
    means: 'a consumer holds the task; if it was cancelled, no attempt follows the current one',
  },
  'request-timeout': {
    status: 408,
    retryable: true,
    means: 'the body of the request did not arrive in time',
  },
  'too-large': { status: 413, retryable: false, means: 'the request is over the size limit' },
  'bad-media-type': {
    status: 415,
    retryable: false,
    means: 'the route does not accept the content type of the request',
  },
  'headers-too-large': { status: 431, retryable: false, means: 'the headers of the request are too large' },
  'rate-limited': { status: 429, retryable: true, means: 'too many requests; see Retry-After' },
  internal: {
    status: 500,
    retryable: false,
    means: 'a bug in Tocsin; the log has the error under the request id',
  },
  unreachable: {
    status: 503,
    retryable: true,
    means: 'the server cannot be reached, or did not answer in time',
  },
  'bad-token': {
    status: 400,
    retryable: false,
    means: 'the token is not one that a claim returned',
  },
  closed: { status: 503, retryable: false, means: 'the Tocsin or the consumer was closed' },
  timeout: { status: 504, retryable: true, means: 'a handler, or a schema, did not answer in time' },
  cancelled: { status: 409, retryable: false, means: 'the task was cancelled while its handler ran' },
  'lease-lost': {
    status: 409,
    retryable: false,
    means: 'the lease has expired or the task was replaced; the outcome of this attempt is ignored',
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

  /**
   * Returns whether `error` is a TocsinError, and has the given `code` if there is one. Compares the name of the error:
   * `instanceof TocsinError` would be false if a process has loaded two copies of the package.
   */
  static is(error: unknown, code?: ErrorCode): error is TocsinError {
    if (!(error instanceof Error) || error.name !== 'TocsinError') return false
    return code === undefined || (error as TocsinError).code === code
  }
}

/** Describes a thrown value, an Error or not, in one line of bounded length. Never throws. */
export function describeError(thrown: unknown): string {
  let text: string
  try {
    text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `thrown: ${describeValue(thrown)}`
  } catch {
    // The value's own toString or getter threw. Describing a failure must not cause a second failure.
    text = 'thrown: a value that cannot be described'
  }
  return boundedText(text)
}

const ERROR_TEXT_LIMIT = 500

/**
 * Returns the text in one line of bounded length, without control characters and lone surrogates. A task stores the
 * text of its last error, and some stores reject these characters.
 */
export function boundedText(text: string): string {
  const line = text.slice(0, ERROR_TEXT_LIMIT * 2).replace(/\p{Cc}+/gu, ' ')
  const cut = line.length > ERROR_TEXT_LIMIT ? `${line.slice(0, ERROR_TEXT_LIMIT - 1)}…` : line
  return cut.toWellFormed()
}

/** Describes a value for an error message: short and quoted. Never throws. */
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

/** Shortens the text, and escapes control characters: input from a caller must not add lines to a log. */
function short(text: string): string {
  const cut = text.length > 60 ? `${text.slice(0, 57).toWellFormed()}…` : text
  return cut.replace(/\p{Cc}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
