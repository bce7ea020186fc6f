/**
 * Sends HTTP calls to a server, with an access token and a timeout. Every failure is a TocsinError, but if the caller's
 * signal aborts, the reason of the signal is thrown.
 */
import type { Clock } from '../clock.ts'
import { durationText } from '../values/duration.ts'
import { TocsinError } from '../errors.ts'
import { badOption, withoutSecret } from '../values/options.ts'
import { VERSION } from '../values/version.ts'
import { CallDeadline } from './call-deadline.ts'
import { type SentRequest, failed, lost, refused } from './failure.ts'
import { withoutFetchTimeout } from './no-fetch-timeout.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  /**
   * How long the server may wait before it answers (long poll). This time is added to the timeout. Null removes the
   * timeout. 0 by default.
   */
  readonly waitMs?: number | null | undefined
  /** True if the call may be retried after a lost answer. */
  readonly isRepeatable?: boolean | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

export interface OpenOptions extends CallOptions {
  readonly body?: ReadableStream<Uint8Array> | undefined
}

/** A streamed answer. */
export interface Opened {
  readonly body: AsyncIterable<Uint8Array>
  /** Returns the error to throw if reading the body failed. */
  failure(thrown: unknown): Error
  /** Ends the call, also if the answer is incomplete. */
  close(): void
}

export interface HttpOptions {
  readonly url: string
  readonly token: string | undefined
  readonly timeoutMs: number
}

const JSON_TYPE = 'application/json'
const TOKEN = /^[\x21-\x7e]+$/

export class Http {
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #timeoutMs: number
  readonly #clock: Clock

  constructor({ url, token, timeoutMs }: HttpOptions, clock: Clock) {
    this.#base = checkUrl(url)
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    this.#headers = {
      accept: `${JSON_TYPE}, */*`,
      'user-agent': `tocsin-client/${VERSION}`,
      ...(token === undefined ? {} : { authorization: `Bearer ${checkToken(token)}` }),
    }
  }

  get url(): string {
    return this.#base
  }

  /**
   * Sends a GET request. `read` converts the JSON of the answer. If `read` throws, the call fails: the answer is not
   * from Tocsin.
   */
  get<T>(path: string, read: (json: never) => T, options?: CallOptions): Promise<T> {
    return this.#call('GET', path, null, (response, sent) => jsonOf(response, sent, read), options)
  }

  text(path: string): Promise<string> {
    return this.#call('GET', path, null, (response) => response.text())
  }

  /** Sends a request. `json` is the body as text; null for no body. */
  send<T>(
    method: Method,
    path: string,
    json: string | null,
    read: (json: never) => T,
    options?: CallOptions,
  ): Promise<T> {
    return this.#call(method, path, json, (response, sent) => jsonOf(response, sent, read), options)
  }

  /** Sends a request and resolves when the answer begins. The caller must close the answer. */
  async open(method: Method, path: string, options: OpenOptions = {}): Promise<Opened> {
    const sent = this.#sent(method, path, options)
    const deadline = new CallDeadline(this.#clock, options.signal)
    const failure = (thrown: unknown) => this.#failure(sent, deadline, thrown)
    try {
      deadline.set(this.#deadlineMs(options))
      const response = await this.#answer(sent, deadline, options.body ?? null, options)
      deadline.set(null)
      return { body: response.body ?? empty(), failure, close: () => deadline.abort() }
    } catch (thrown) {
      deadline.abort()
      throw failure(thrown)
    }
  }

  async #call<T>(
    method: Method,
    path: string,
    json: string | null,
    take: (response: Response, sent: SentRequest) => Promise<T>,
    options: CallOptions = {},
  ): Promise<T> {
    const sent = this.#sent(method, path, options)
    const deadline = new CallDeadline(this.#clock, options.signal)
    try {
      deadline.set(this.#deadlineMs(options))
      const headers = { ...(json === null ? {} : { 'content-type': JSON_TYPE }), ...options.headers }
      const response = await this.#answer(sent, deadline, json, { ...options, headers })
      return await take(response, sent)
    } catch (thrown) {
      throw this.#failure(sent, deadline, thrown)
    } finally {
      deadline.release()
    }
  }

  /** Sends a request. Returns a 2xx answer before its body is read; throws for any other answer. */
  async #answer(
    sent: SentRequest,
    deadline: CallDeadline,
    body: string | ReadableStream<Uint8Array> | null,
    options: CallOptions,
  ): Promise<Response> {
    const response = await fetch(sent.url, {
      method: sent.method,
      headers: new Headers({ ...this.#headers, ...options.headers }),
      signal: deadline.signal,
      // A redirect must not send the token to another server.
      redirect: 'error',
      ...(body === null ? {} : { body, duplex: 'half' as const }),
      ...(options.waitMs === null ? withoutFetchTimeout() : {}),
    })
    if (response.ok) return response
    deadline.set(this.#timeoutMs)
    throw await this.#refusal(sent, response)
  }

  async #refusal(sent: SentRequest, response: Response): Promise<TocsinError> {
    const { status, headers } = response
    const retryAfter = headers.get('retry-after')
    const text = isJson(response) ? await response.text() : await dropped(response)
    return refused(sent, { status, body: parsed(text), retryAfter }, this.#clock.now())
  }

  #failure(sent: SentRequest, deadline: CallDeadline, thrown: unknown): Error {
    // If the caller's signal aborted, throw its reason unchanged.
    if (deadline.isAborted) return deadline.reason
    if (TocsinError.is(thrown)) return thrown
    if (deadline.isLate) return lost(sent, `no answer within ${durationText(this.#timeoutMs)}`, thrown)
    return failed(sent, thrown)
  }

  #sent(method: Method, path: string, { isRepeatable = method === 'GET' }: CallOptions): SentRequest {
    return { method, url: `${this.#base}${path}`, isRepeatable }
  }

  #deadlineMs({ waitMs = 0 }: CallOptions): number | null {
    return waitMs === null ? null : this.#timeoutMs + waitMs
  }
}

/** Checks the URL of the server. A path is allowed, because the server may be behind a reverse proxy. */
function checkUrl(given: string): string {
  const url = typeof given === 'string' && URL.canParse(given) ? new URL(given) : null
  if (url === null || !/^https?:$/.test(url.protocol))
    throw badOption('url', `${withoutSecret(given)} is not a URL; expected one like 'http://127.0.0.1:7420'`)
  if (url.username !== '' || url.password !== '')
    throw badOption('url', 'has a user or a password; pass the access token as `token`')
  if (url.search !== '' || url.hash !== '')
    throw badOption('url', "has a '?' or a '#'; leave out what follows")
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

/** Checks the token. The error message never contains the token, even if the token is invalid. */
function checkToken(token: unknown): string {
  if (typeof token === 'string' && TOKEN.test(token)) return token
  throw badOption('token', 'expected a token as it was shown: one word, without spaces or line ends')
}

async function jsonOf<T>(response: Response, sent: SentRequest, read: (json: never) => T): Promise<T> {
  const body = parsed(isJson(response) ? await response.text() : await dropped(response))
  try {
    // `read` throws if the JSON does not have the expected shape.
    if (body !== null && typeof body === 'object') return read(body as never)
  } catch (error) {
    throw lost(sent, 'the answer is not from Tocsin: its JSON is of another shape', error)
  }
  throw lost(sent, `the answer (${response.status}) is not from Tocsin: it is not JSON`)
}

function isJson({ headers }: Response): boolean {
  return headers.get('content-type')?.toLowerCase().startsWith(JSON_TYPE) ?? false
}

/** Parses JSON. Returns null if the text is not JSON. */
function parsed(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text)
  } catch {
    return null
  }
}

async function dropped(response: Response): Promise<null> {
  await response.body?.cancel()
  return null
}

async function* empty(): AsyncGenerator<Uint8Array> {}
