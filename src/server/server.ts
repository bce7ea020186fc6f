/**
 * The HTTP API of a Tocsin:
 *
 *   request ──▶ access (token, scope, rate) ──▶ body ──▶ schema ──▶ route ──▶ Tocsin
 *
 * Routes are thin: they read the request, call the library as any program would, and build the answer.
 */
import swagger from '@fastify/swagger'
import fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
} from 'fastify'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Random } from '../random.ts'
import type { Rate } from '../lib/rate-limiter.ts'
import type { Tocsin } from '../api/tocsin.ts'
import { useAccess } from './access.ts'
import { asTocsinError, errorBody, foreseen, retryAfterSeconds } from './api-error.ts'
import { useBodies } from './bodies.ts'
import { refuseRaw } from './client-errors.ts'
import { documentOptions } from './document.ts'
import { headersOf } from './headers.ts'
import type { Metrics } from './metrics.ts'
import type { ServerParts } from './parts.ts'
import { eventRoutes } from './routes/events.ts'
import { figureRoutes } from './routes/figures.ts'
import { pullRoutes } from './routes/pull.ts'
import { systemRoutes } from './routes/system.ts'
import { taskRoutes } from './routes/tasks.ts'
import { tokenRoutes } from './routes/tokens.ts'
import { topicRoutes } from './routes/topics.ts'
import { SHARED } from './schemas.ts'
import type { TokenBook } from './token-book.ts'
import { useValidation } from './validation.ts'

export interface ServerOptions {
  readonly toc: Tocsin
  readonly book: TokenBook
  readonly metrics: Metrics
  readonly clock: Clock
  readonly random: Random
  readonly logger: FastifyBaseLogger
  /** True if the server listens only on loopback. Then no token is needed until the first token exists. */
  readonly isLoopback: boolean
  /** The rate limit of tokens that have no limit of their own. Null for no limit. */
  readonly rate: Rate | null
  readonly bodyBytesMax: number
}

/** The timeout for receiving a JSON body. */
const BODY_MS = 30_000
/** The timeout for receiving the headers. */
const HEADERS_MS = 20_000
/** A connection without traffic is closed after this time. It is longer than the longest long poll. */
const SILENCE_MS = 120_000
const KEEP_ALIVE_MS = 75_000
const HEADER_BYTES_MAX = 16_384
/**
 * The maximum length of a path parameter. A key has up to 256 bytes, and percent-encoding takes three characters per
 * byte.
 */
const PARAM_LENGTH_MAX = 1_024
const JSON_TYPE = 'application/json; charset=utf-8'
const REQUEST_ID = /^[\w.-]{1,64}$/

export async function buildServer(options: ServerOptions): Promise<FastifyInstance> {
  const { toc, book, metrics, clock, random, logger, isLoopback, rate, bodyBytesMax } = options
  const closing = new AbortController()
  const parts: ServerParts = { toc, clock, closing: closing.signal }
  const app = fastify({
    loggerInstance: logger,
    // The hook `onResponse` logs one line per request, without headers.
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: ({ headers }) => {
      const given = headers['x-request-id']
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : random.uniqueId()
    },
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX, ignoreTrailingSlash: false },
    forceCloseConnections: 'idle',
    connectionTimeout: SILENCE_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // NDJSON streams may take any time. JSON bodies have their own timeout.
    requestTimeout: 0,
    http: { maxHeaderSize: HEADER_BYTES_MAX, headersTimeout: HEADERS_MS },
    clientErrorHandler: refuseRaw,
    frameworkErrors: (error, request, reply) => {
      const known = asTocsinError(error) ?? new TocsinError('bad-request', 'the request cannot be parsed')
      const { raw } = reply as FastifyReply
      raw.writeHead(known.status, { ...headersOf(request), 'content-type': JSON_TYPE })
      raw.end(JSON.stringify(errorBody(known, request.id)))
    },
  })
  useValidation(app, SHARED)
  useBodies(app, clock, { bytesMax: bodyBytesMax, deadlineMs: BODY_MS })
  await app.register(swagger, documentOptions())
  useAnswers(app, metrics)
  useAccess(app, { book, clock, isLoopback, rate })
  // End long polls, streams and events before Fastify waits for its connections to close.
  app.addHook('preClose', async () => closing.abort())
  taskRoutes(app, parts)
  pullRoutes(app, parts)
  topicRoutes(app, parts)
  figureRoutes(app, parts)
  eventRoutes(app, parts)
  tokenRoutes(app, book, clock)
  systemRoutes(app, parts, metrics.registry)
  metrics.watch(toc)
  await app.ready()
  return app
}

/** Adds the headers of every answer, the request log, the request metrics, and the error answers. */
function useAnswers(app: FastifyInstance, metrics: Metrics): void {
  app.addHook('onSend', async (request, reply, payload) => {
    for (const [name, value] of Object.entries(headersOf(request))) void reply.header(name, value)
    // Add a line end, so that a terminal shows its prompt on a new line.
    return typeof payload === 'string' && payload.endsWith('}') ? `${payload}\n` : payload
  })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none'
    const { statusCode: status, elapsedTime: tookMs } = reply
    metrics.requested(request.method, route, status, tookMs)
    const token = request.access?.tokenId ?? null
    request.log.info({ method: request.method, route, status, tookMs: Math.round(tookMs), token }, 'answered')
  })
  app.setErrorHandler((thrown, request, reply) => {
    const error = foreseen(thrown, request.log)
    const seconds = retryAfterSeconds(error)
    if (seconds !== null) void reply.header('retry-after', seconds)
    // Close the connection, because the rest of the body will not be read.
    if (error.status === 413 || error.status === 408) void reply.header('connection', 'close')
    return reply.code(error.status).send(errorBody(error, request.id))
  })
}
