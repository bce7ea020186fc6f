/**
 * Authentication and authorization. Every route declares the scope that it requires. The scope 'admin' includes all
 * scopes.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import { checkTopicName } from '../values/key.ts'
import { RateLimiter, type Rate } from '../lib/rate-limiter.ts'
import type { Scope } from '../values/access-token.ts'
import { PathTable } from './path-table.ts'
import type { TokenBook } from './token-book.ts'

export interface Access {
  /**
   * The id of the access token. Null for a request without a token, which is allowed only on loopback before the first
   * token was created.
   */
  readonly tokenId: string | null
  readonly scopes: readonly Scope[]
  readonly topicPrefix: string | null
  readonly rate: Rate | null
  readonly bodyBytesMax: number | null
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The scope that each route requires, by method and path. Null if the route needs no token. */
    readonly scopes: ReadonlyMap<string, Scope | null>
  }
  interface FastifyRequest {
    access: Access | null
  }
  interface FastifyContextConfig {
    /**
     * Null for a route that needs no token. If the scope is undefined, building the server fails, so that no route is
     * public by accident.
     */
    scope?: Scope | null
    /**
     * How a route treats a token with a topic prefix. 'topic': the route is about one topic, whose name must begin with
     * the prefix. 'filtered': the answer has only topics with the prefix. 'whole': the token gets 403.
     */
    reach?: 'topic' | 'filtered' | 'whole'
  }
}

/** The access on loopback before the first token was created. */
const OPEN: Access = { tokenId: null, scopes: ['admin'], topicPrefix: null, rate: null, bodyBytesMax: null }
const HERE = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i

export interface AccessParts {
  readonly book: TokenBook
  readonly clock: Clock
  readonly isLoopback: boolean
  /** The rate limit of tokens that have no limit of their own. Null for no limit. */
  readonly rate: Rate | null
}

export function useAccess(app: FastifyInstance, { book, clock, isLoopback, rate: usual }: AccessParts): void {
  const rateLimiters = new Map<string, RateLimiter>()
  app.decorateRequest('access', null)

  const scopes = new Map<string, Scope | null>()
  app.decorate('scopes', scopes)
  const paths = new PathTable()
  app.addHook('onRoute', ({ config, method, url }) => {
    if (config?.scope === undefined) throw new Error(`${String(method)} ${url} declares no scope`)
    // Fastify adds a HEAD route to each GET route, with the same scope, so HEAD is not listed separately.
    if (method !== 'HEAD') scopes.set(`${String(method)} ${url}`, config.scope)
    paths.add(String(method), url, config.scope)
  })

  app.addHook('onRequest', async (request, reply) => {
    const { scope, reach } = request.routeOptions.config
    if (scope === undefined) return answerWithoutRoute(request, reply)
    if (scope === null) return
    const access = await admit(request, reply)
    if (!access.scopes.includes('admin') && !access.scopes.includes(scope))
      throw new TocsinError('forbidden', `this needs a token with the scope '${scope}'`, { field: 'scope' })
    if (reach === 'whole' && access.topicPrefix !== null)
      throw new TocsinError('forbidden', 'this is about all topics, and the token has a topic prefix')
    const { topic } = request.params as { topic?: string }
    if (topic !== undefined) checkTopic(access, topic)
  })

  /**
   * Answers a request that no route matches, without reading its body, which may be of any size. If the path needs a
   * token, a caller without a token gets 401.
   */
  async function answerWithoutRoute(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { method } = request
    const path = paths.find(request.url)
    if (path === null)
      throw new TocsinError('not-found', `there is no ${method} here; GET /openapi.json lists what there is`)
    if (!path.isPublic) await admit(request, reply)
    void reply.header('allow', path.allow)
    if (method === 'OPTIONS') return reply.code(204).send()
    throw new TocsinError('method-not-allowed', `this path does not take ${method}; use ${path.allow}`)
  }

  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<Access> {
    const access = await accessOf(request, reply)
    request.access = access
    limit(access)
    return access
  }

  async function accessOf(request: FastifyRequest, reply: FastifyReply): Promise<Access> {
    const { authorization } = request.headers
    if (authorization === undefined) {
      if (isLoopback) await book.refresh()
      if (isLoopback && !book.isLocked) return openly(request)
      void reply.header('www-authenticate', 'Bearer')
      throw new TocsinError(
        'unauthorized',
        'this needs a token: send Authorization: Bearer <token>. If you have none, start the server with TOCSIN_ADMIN_TOKEN, and create one with that',
      )
    }
    const token = /^Bearer ([^\s]+)$/i.exec(authorization)?.[1]
    const record = token === undefined ? null : await book.find(token)
    if (record === null) {
      void reply.header('www-authenticate', 'Bearer error="invalid_token"')
      throw new TocsinError(
        'unauthorized',
        token === undefined
          ? "authorization: write 'Bearer', a space, and the token"
          : 'this token is unknown, expired or revoked',
      )
    }
    const { id, scopes, topicPrefix, rate, bodyBytesMax } = record
    return { tokenId: id, scopes, topicPrefix, rate: rate ?? usual, bodyBytesMax }
  }

  function limit({ tokenId, rate }: Access): void {
    if (tokenId === null || rate === null) return
    const nowMs = clock.monotonicNow()
    const rateLimiter = rateLimiters.get(tokenId) ?? new RateLimiter()
    rateLimiters.set(tokenId, rateLimiter)
    if (rateLimiter.take(1, rate, nowMs) === 1) return
    const retryInMs = Math.max(0, rateLimiter.nextMs(rate, nowMs) - nowMs)
    throw new TocsinError('rate-limited', `this token may send ${rate.limit} requests in ${rate.perMs} ms`, {
      retryInMs,
    })
  }
}

/**
 * Admits a request without a token, if it comes from a program on this machine. Rejects pages of other sites that are
 * open in a browser on this machine.
 */
function openly(request: FastifyRequest): Access {
  const { host = '', origin, 'sec-fetch-site': site } = request.headers
  if (!HERE.test(host))
    throw new TocsinError(
      'forbidden',
      'without tokens this server answers only to localhost; create a token first',
    )
  // Browsers request the images and scripts of a page without Origin, but they send Sec-Fetch-Site.
  if ((origin !== undefined && origin !== `http://${host}`) || site === 'cross-site')
    throw new TocsinError('forbidden', 'without tokens this server does not answer to pages of other sites')
  return OPEN
}

/**
 * Throws 'forbidden' if the token is restricted to a topic prefix that this topic does not have. Routes also call this
 * for topics in a query.
 */
export function checkTopic({ topicPrefix }: Access, topic: string): void {
  checkTopicName(topic)
  if (topicPrefix !== null && !topic.startsWith(topicPrefix))
    throw new TocsinError('forbidden', `this token is for topics that begin with '${topicPrefix}'`, {
      field: 'topic',
    })
}

/** Returns the topics that the caller may see: all topics, or only topics with the token's topic prefix. */
export function seenBy(access: Access | null, topics: readonly string[]): string[] {
  const prefix = access?.topicPrefix ?? null
  return topics.filter((topic) => prefix === null || topic.startsWith(prefix))
}
