/** Starts a server from its options. */
import type { AddressInfo } from 'node:net'
import { type DestinationStream, type Logger as PinoLogger, pino } from 'pino'
import { systemClock } from '../clock.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import { STORE_FIELDS, type StoreOptions } from '../api/open-store.ts'
import { badOption, checkOptions, wholeNumber } from '../values/options.ts'
import { systemRandom } from '../random.ts'
import { Tocsin } from '../api/tocsin.ts'
import { Metrics } from './metrics.ts'
import { buildServer } from './server.ts'
import { TokenBook } from './token-book.ts'

export interface ServeOptions extends StoreOptions {
  /** The name of this process in the cluster; 'host:pid' by default. */
  readonly node?: string | undefined
  /** The address to listen on; 127.0.0.1 by default. Any address other than loopback requires that a token exists. */
  readonly host?: string | undefined
  /** The port to listen on; 7420 by default; 0 for any free port. */
  readonly port?: number | undefined
  /** An access token with the scope 'admin' that is not stored. Use it to create the first stored tokens. */
  readonly adminToken?: string | undefined
  /** The rate limit of each token that has no limit of its own. By default there is no limit. */
  readonly rate?: { readonly limit: number; readonly per: Duration } | undefined
  /** The maximum size of a JSON body; 16 MiB by default. NDJSON streams are not limited. */
  readonly bodyBytesMax?: number | undefined
  /** The log level; 'info' by default. 'silent' disables logging. */
  readonly logLevel?: string | undefined
  /** The destination of log lines; standard output by default. */
  readonly logTo?: DestinationStream | undefined
}

export interface Served extends AsyncDisposable {
  readonly url: string
  readonly toc: Tocsin
  /** Answers waiting requests at once, lets other requests end, and closes the Tocsin. Idempotent. */
  close(): Promise<void>
}

export const PORT = 7420
const HOST = '127.0.0.1'
/** How long requests in progress may take during a shutdown. After this time their connections are closed. */
const CLOSE_MS = 5_000
const BODY_BYTES_MAX = 16 * 1_024 * 1_024
const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent']
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1)$/i
const OWN_FIELDS = ['node', 'host', 'port', 'adminToken', 'rate', 'bodyBytesMax', 'logLevel', 'logTo']

export async function serve(options: ServeOptions = {}): Promise<Served> {
  checkOptions(options, [...STORE_FIELDS, ...OWN_FIELDS], 'serve')
  const { host = HOST, adminToken, logTo, ...rest } = options
  const port = wholeNumber(options.port ?? PORT, 0, 65_535, 'port')
  const bodyBytesMax = wholeNumber(options.bodyBytesMax ?? BODY_BYTES_MAX, 1, 2 ** 30, 'bodyBytesMax')
  const rate = rateOf(options.rate)
  const logger = loggerOf(options.logLevel, logTo)
  const store = Object.fromEntries(Object.entries(rest).filter(([name]) => isOfStore(name)))
  const isLoopback = LOOPBACK.test(host)
  const clock = systemClock
  const metrics = new Metrics(clock)
  const toc = await Tocsin.open({ ...store, logger }, metrics)
  try {
    const book = new TokenBook(toc.accessTokenBoard, clock, systemRandom, adminToken ?? null)
    if (!isLoopback) await checkLocked(book, host, adminToken)
    const app = await buildServer({
      toc,
      book,
      metrics,
      clock,
      random: systemRandom,
      logger,
      isLoopback,
      rate,
      bodyBytesMax,
    })
    const close = once(async () => {
      const callOff = clock.after(CLOSE_MS, () => app.server.closeAllConnections(), true)
      await app.close()
      callOff()
      await toc.close()
    })
    await app.listen({ host, port }).catch((error: unknown) => {
      throw notListening(error, host, port)
    })
    const { port: bound } = app.server.address() as AddressInfo
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${bound}`
    return { url, toc, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await toc.close()
    throw error
  }
}

function isOfStore(name: string): boolean {
  return STORE_FIELDS.includes(name) || name === 'node'
}

/**
 * Throws if there is no valid token. Called for addresses other than loopback: there every request needs a token, so
 * without one the server would refuse all requests.
 */
async function checkLocked(book: TokenBook, host: string, adminToken: string | undefined): Promise<void> {
  if (adminToken !== undefined) return
  const nowMs = systemClock.now()
  const valid = (await book.list()).filter(({ expiresMs }) => expiresMs === null || expiresMs > nowMs)
  if (valid.length > 0) return
  throw badOption(
    'host',
    `${describeValue(host)} can be reached from other machines, and there is no token yet. Start on 127.0.0.1 and run 'tocsin tokens create', or set TOCSIN_ADMIN_TOKEN`,
  )
}

function rateOf(rate: ServeOptions['rate']): { limit: number; perMs: number } | null {
  if (rate === undefined) return null
  checkOptions(rate, ['limit', 'per'], 'rate')
  const perMs = durationMs(rate.per, 'rate.per')
  if (perMs < 1) throw badOption('rate.per', 'expected at least 1ms')
  return { limit: wholeNumber(rate.limit, 1, 1_000_000, 'rate.limit'), perMs }
}

function loggerOf(level = 'info', to: DestinationStream | undefined): PinoLogger {
  if (!LOG_LEVELS.includes(level))
    throw badOption('logLevel', `${describeValue(level)}; use ${LOG_LEVELS.join(', ')}`)
  const options = { level, serializers: { error: plainError } }
  return to === undefined ? pino(options) : pino(options, to)
}

/**
 * Returns the fields of an error that the log may contain. The error of a driver has other fields, which may include an
 * address with a password.
 */
function plainError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) }
  const { name, message, stack } = error
  return TocsinError.is(error) ? { code: error.code, message } : { name, message, stack }
}

function notListening(error: unknown, host: string, port: number): Error {
  const { code } = error as { code?: string }
  if (code === 'EADDRINUSE')
    return badOption('port', `${port} is in use on ${host}; choose another port with --port`)
  if (code === 'EACCES')
    return badOption('port', `this user may not listen on ${port}; choose one above 1023`)
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return badOption('host', `${describeValue(host)} is no address of this machine`)
  return error as Error
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | null = null
  return () => (done ??= work())
}
