/** Routes that list, create, rotate and revoke access tokens. */
import type { FastifyInstance } from 'fastify'
import type { Clock } from '../../clock.ts'
import { durationMs, durationText } from '../../values/duration.ts'
import { TocsinError } from '../../errors.ts'
import type { Scope, AccessToken } from '../../values/access-token.ts'
import { SCOPES } from '../../values/access-token.ts'
import { route } from '../parts.ts'
import { answer, duration, list, object, ref, text } from '../schemas.ts'
import type { TokenBook } from '../token-book.ts'

const OVERLAP = '1d'
const RATE_MAX = 1_000_000
const BODY_BYTES_MAX = 1_073_741_824

interface CreateBody {
  readonly name: string
  readonly scopes: Scope[]
  readonly topicPrefix?: string
  readonly expiresIn?: string
  readonly rate?: { readonly limit: number; readonly per: string }
  readonly bodyBytesMax?: number
}

const CREATE_BODY = object(
  {
    name: text('What the token is for.', {
      minLength: 1,
      maxLength: 100,
      // Reject control characters and unpaired surrogates, because not every store accepts them.
      pattern: String.raw`^[^\p{Cc}\p{Cs}]+$`,
    }),
    scopes: list({ enum: [...SCOPES] }, { minItems: 1, uniqueItems: true }),
    topicPrefix: text('Only for topics whose names start with this.', {
      pattern: '^[a-z][a-z0-9._-]{0,63}$',
    }),
    expiresIn: duration('How long the token is valid; by default it does not expire.'),
    rate: object({
      limit: { type: 'integer', minimum: 1, maximum: RATE_MAX, description: 'Requests.' },
      per: duration('The window.'),
    }),
    bodyBytesMax: {
      type: 'integer',
      minimum: 1,
      maximum: BODY_BYTES_MAX,
      description: 'Largest request body.',
    },
  },
  ['name', 'scopes'],
)

export function tokenRoutes(app: FastifyInstance, book: TokenBook, clock: Clock): void {
  route(app, {
    method: 'GET',
    url: '/v1/tokens',
    name: 'listTokens',
    tag: 'tokens',
    scope: 'admin',
    reach: 'whole',
    summary: 'List access tokens, without their secrets',
    answers: { 200: answer({ tokens: list(ref('Token')) }) },
    handler: async () => ({ tokens: (await book.list()).map(shown) }),
  })

  route(app, {
    method: 'POST',
    url: '/v1/tokens',
    name: 'createToken',
    tag: 'tokens',
    scope: 'admin',
    reach: 'whole',
    summary: 'Create an access token; its secret is shown only once',
    body: CREATE_BODY,
    answers: { 201: ref('NewToken') },
    handler: async (request, reply) => {
      const {
        name,
        scopes,
        topicPrefix = null,
        expiresIn,
        rate,
        bodyBytesMax = null,
      } = request.body as CreateBody
      const lifeMs = expiresIn === undefined ? null : durationMs(expiresIn, 'expiresIn')
      if (lifeMs === 0)
        throw new TocsinError('bad-duration', 'expiresIn: expected at least 1ms', { field: 'expiresIn' })
      const perMs = rate === undefined ? 0 : durationMs(rate.per, 'rate.per')
      if (rate !== undefined && perMs === 0)
        throw new TocsinError('bad-duration', 'rate.per: expected at least 1ms', { field: 'rate.per' })
      const { record, token } = await book.create({
        name,
        scopes,
        topicPrefix,
        expiresMs: lifeMs === null ? null : clock.now() + lifeMs,
        rate: rate === undefined ? null : { limit: rate.limit, perMs },
        bodyBytesMax,
      })
      return reply.code(201).send({ ...shown(record), token })
    },
  })

  route(app, {
    method: 'POST',
    url: '/v1/tokens/:id/rotate',
    name: 'rotateToken',
    tag: 'tokens',
    scope: 'admin',
    reach: 'whole',
    summary: 'Replace an access token; the old one expires after the overlap',
    body: object({ overlap: duration("How long the old one stays valid; '1d' by default.") }, []),
    answers: { 201: ref('NewToken') },
    handler: async (request, reply) => {
      const { id } = request.params as { id: string }
      const { overlap = OVERLAP } = request.body as { overlap?: string }
      const { record, token } = await book.rotate(id, durationMs(overlap, 'overlap'))
      return reply.code(201).send({ ...shown(record), token })
    },
  })

  route(app, {
    method: 'DELETE',
    url: '/v1/tokens/:id',
    name: 'revokeToken',
    tag: 'tokens',
    scope: 'admin',
    reach: 'whole',
    summary: 'Revoke an access token',
    answers: { 200: answer({ id: text('The revoked token.') }) },
    handler: async (request) => {
      const { id } = request.params as { id: string }
      await book.revoke(id)
      return { id }
    },
  })
}

/** Returns a token as clients see it, that is, without its hash. */
function shown({
  id,
  name,
  scopes,
  topicPrefix,
  createdMs,
  expiresMs,
  rate,
  bodyBytesMax,
}: AccessToken): object {
  return {
    id,
    name,
    scopes,
    topicPrefix,
    createdAt: new Date(createdMs),
    expiresAt: expiresMs === null ? null : new Date(expiresMs),
    rate: rate === null ? null : { limit: rate.limit, per: durationText(rate.perMs) },
    bodyBytesMax,
  }
}
