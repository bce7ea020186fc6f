import type { FastifyInstance, RouteOptions } from 'fastify'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import { nearest } from '../values/options.ts'
import type { Tocsin } from '../api/tocsin.ts'
import type { TopicHandle } from '../api/topic-handle.ts'
import type { Scope } from '../values/access-token.ts'
import { type Access, seenBy } from './access.ts'
import { SHARED_RESPONSES, type TAGS } from './document.ts'
import { ref } from './schemas.ts'

/** The objects that route handlers need. */
export interface ServerParts {
  readonly toc: Tocsin
  readonly clock: Clock
  /** Aborts when the server shuts down, so that waiting requests are answered at once. */
  readonly closing: AbortSignal
}

export interface RouteDescription {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  /** The operationId. Generated clients use it as a method name. */
  readonly name: string
  readonly tag: keyof typeof TAGS
  readonly scope: Scope | null
  readonly reach?: 'topic' | 'filtered' | 'whole'
  readonly summary: string
  readonly body?: object
  readonly query?: object
  /** Schemas of the answers by status. Error answers are added to every route. */
  readonly answers: Readonly<Record<number, object>>
  readonly consumes?: readonly string[]
  readonly handler: RouteOptions['handler']
}

const REFUSED = { description: SHARED_RESPONSES.Refused, ...ref('Error') }
const TOPIC_PARAM = { type: 'string', description: 'The name of the topic.' }
const KEY_PARAM = { type: 'string', description: 'The key of the task, percent-encoded.' }
const ID_PARAM = { type: 'string', description: 'The id of the token.' }
const PARAMS: Readonly<Record<string, object>> = { topic: TOPIC_PARAM, key: KEY_PARAM, id: ID_PARAM }

/** Registers a route. Its description determines access, validation, serialization and the OpenAPI document. */
export function route(app: FastifyInstance, description: RouteDescription): void {
  const { method, url, name, tag, scope, reach, summary, body, query, answers, consumes, handler } =
    description
  const names = [...url.matchAll(/:(\w+)/g)].map(([, name]) => name as string)
  const failures = scope === null ? [400] : [400, 401, 403, 404, 408, 409, 412, 413, 415, 429, 503]
  app.route({
    method,
    url,
    config: { scope, ...(reach === undefined ? {} : { reach }) },
    schema: {
      operationId: name,
      tags: [tag],
      summary,
      ...(scope === null ? { security: [] } : { description: `Scope: ${scope}.` }),
      ...(names.length === 0
        ? {}
        : {
            params: {
              type: 'object',
              required: names,
              properties: Object.fromEntries(names.map((name) => [name, PARAMS[name] ?? { type: 'string' }])),
            },
          }),
      ...(query === undefined ? {} : { querystring: query }),
      ...(body === undefined ? {} : { body }),
      ...(consumes === undefined ? {} : { consumes: [...consumes] }),
      response: {
        ...Object.fromEntries(
          Object.entries(answers).map(([status, schema]) => [
            status,
            { description: 'Answered.', ...schema },
          ]),
        ),
        ...Object.fromEntries(
          failures.filter((status) => !(status in answers)).map((status) => [status, REFUSED]),
        ),
        default: { ...REFUSED, description: SHARED_RESPONSES.Failed },
      },
    },
    handler,
  })
}

/**
 * Returns a topic that was declared or used before. A misspelled name throws instead of creating a topic. The error's
 * 'did you mean' suggests only topics that the caller may see.
 */
export async function knownTopic(
  { toc }: ServerParts,
  name: string,
  access: Access | null,
): Promise<TopicHandle<unknown, unknown>> {
  if (!toc.knows(name)) await toc.refreshTopics()
  if (toc.knows(name)) return toc.handle(name)
  const near = nearest(name, seenBy(access, toc.topicNames()))
  const hint = near === null ? 'declare it first: PUT /v1/topics/{topic}' : `did you mean '${near}'?`
  throw new TocsinError('unknown-topic', `there is no topic '${name}'; ${hint}`, { field: 'topic', hint })
}
