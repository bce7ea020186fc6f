/** Routes for topics, their settings, and their dead tasks. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ConfigView, LiveConfig, TopicConfig } from '../../values/config.ts'
import { TocsinError } from '../../errors.ts'
import type { Selector } from '../../api/topic.ts'
import { seenBy } from '../access.ts'
import { knownTopic, route, type ServerParts } from '../parts.ts'
import { answer, count, FIELDS, list, object, ref, TASKS_MAX, text } from '../schemas.ts'

const { KEY, TAG, PREFIX } = FIELDS
const NOTHING = object({}, [])
const SELECTOR = object(
  {
    keys: list(KEY, { minItems: 1, maxItems: TASKS_MAX }),
    tag: TAG,
    prefix: PREFIX,
    all: { const: true, description: 'All dead tasks.' },
  },
  [],
)

export function topicRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { toc } = parts
  const nameOf = (request: FastifyRequest) => (request.params as { topic: string }).topic
  const topicOf = (request: FastifyRequest) => knownTopic(parts, nameOf(request), request.access)

  route(app, {
    method: 'GET',
    url: '/v1/topics',
    name: 'listTopics',
    tag: 'topics',
    scope: 'read',
    reach: 'filtered',
    summary: 'List topics',
    answers: {
      200: answer({
        topics: list(
          answer({
            topic: text('The name of the topic.'),
            version: count('Version of the settings.'),
            paused: { type: 'boolean' },
          }),
        ),
      }),
    },
    handler: async (request) => {
      await toc.refreshTopics()
      const names = seenBy(request.access, toc.topicNames())
      const views = await Promise.all(names.map((name) => toc.handle(name).config()))
      return { topics: views.map(({ version, paused }, i) => ({ topic: names[i], version, paused })) }
    },
  })

  route(app, {
    method: 'GET',
    url: '/v1/topics/:topic',
    name: 'getTopic',
    tag: 'topics',
    scope: 'read',
    summary: 'Get the settings of a topic',
    answers: { 200: ref('ConfigView') },
    handler: async (request, reply) => tagged(reply, await (await topicOf(request)).config()),
  })

  route(app, {
    method: 'PUT',
    url: '/v1/topics/:topic',
    name: 'declareTopic',
    tag: 'topics',
    scope: 'admin',
    summary: 'Declare a topic with its settings',
    body: ref('TopicConfig'),
    answers: { 200: ref('ConfigView'), 201: ref('ConfigView') },
    handler: async (request, reply) => {
      await toc.refreshTopics()
      const isNew = !toc.knows(nameOf(request))
      const view = await toc.handle(nameOf(request)).declareForAll(request.body as TopicConfig)
      return tagged(reply.code(isNew ? 201 : 200), view)
    },
  })

  route(app, {
    method: 'PATCH',
    url: '/v1/topics/:topic',
    name: 'configureTopic',
    tag: 'topics',
    scope: 'admin',
    summary: 'Change the live settings of a topic; null resets a field',
    body: ref('LiveConfig'),
    consumes: ['application/json', 'application/merge-patch+json'],
    answers: { 200: ref('ConfigView') },
    handler: async (request, reply) => {
      const topic = await topicOf(request)
      const ifVersion = versionOf(request.headers['if-match'])
      return tagged(reply, await topic.configure(request.body as LiveConfig, { ifVersion }))
    },
  })

  for (const action of ['pause', 'resume'] as const)
    route(app, {
      method: 'POST',
      url: `/v1/topics/:topic/${action}`,
      name: `${action}Topic`,
      tag: 'topics',
      scope: 'admin',
      summary: action === 'pause' ? 'Stop handing out tasks, on all nodes' : 'Resume handing out tasks',
      body: NOTHING,
      answers: { 200: ref('ConfigView') },
      handler: async (request, reply) => {
        const topic = await topicOf(request)
        await topic[action]()
        return tagged(reply, await topic.config())
      },
    })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/dead/replay',
    name: 'replayDead',
    tag: 'topics',
    scope: 'admin',
    summary: 'Make dead tasks pending again, due now',
    body: SELECTOR,
    answers: {
      200: answer({
        replayed: count('Tasks that are pending again.'),
        superseded: count(
          'Tasks that stay dead, because their keys were scheduled again since. Replay them by `keys`.',
        ),
      }),
    },
    handler: async (request) => (await topicOf(request)).dead.replay(request.body as Selector),
  })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/dead/purge',
    name: 'purgeDead',
    tag: 'topics',
    scope: 'admin',
    summary: 'Delete dead tasks',
    body: SELECTOR,
    answers: { 200: answer({ purged: count('Tasks that were deleted.') }) },
    handler: async (request) => (await topicOf(request)).dead.purge(request.body as Selector),
  })
}

function tagged(reply: FastifyReply, view: ConfigView): ConfigView {
  void reply.header('etag', `"${view.version}"`)
  return view
}

function versionOf(ifMatch: string | undefined): number | undefined {
  if (ifMatch === undefined || ifMatch === '*') return undefined
  const version = /^"(\d{1,15})"$/.exec(ifMatch)?.[1]
  if (version !== undefined) return Number(version)
  throw new TocsinError('bad-request', 'If-Match: expected an ETag of this topic, like "3"', {
    field: 'if-match',
  })
}
