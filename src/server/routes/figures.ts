/** Routes for stats, forecast, nodes and audit. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { checkTopic, seenBy } from '../access.ts'
import { knownTopic, route, type ServerParts } from '../parts.ts'
import { answer, FIELDS, instant, list, object, ref, text } from '../schemas.ts'
import { topicStats } from '../topic-stats.ts'

const { AT, COUNTS } = FIELDS
const TOPIC = text('Only this topic.')

export function figureRoutes(app: FastifyInstance, parts: ServerParts): void {
  const { toc, clock } = parts

  /** Returns the topic of the query, or all topics that the caller may see. */
  const topicsOf = async (request: FastifyRequest): Promise<string[]> => {
    const { topic } = request.query as { topic?: string }
    if (topic === undefined) {
      await toc.refreshTopics()
      return seenBy(request.access, toc.topicNames())
    }
    if (request.access !== null) checkTopic(request.access, topic)
    await knownTopic(parts, topic, request.access)
    return [topic]
  }

  route(app, {
    method: 'GET',
    url: '/v1/stats',
    name: 'getStats',
    tag: 'figures',
    scope: 'read',
    reach: 'filtered',
    summary: 'Count pending, due, claimed and dead tasks',
    query: object({ topic: TOPIC }, []),
    answers: {
      200: answer({
        at: instant('When the tasks were counted.'),
        topics: list(ref('TopicStats')),
        total: answer(COUNTS),
      }),
    },
    handler: async (request) => {
      const topics = await Promise.all(
        (await topicsOf(request)).map((name) => topicStats(toc.handle(name), name)),
      )
      const total = { pending: 0, due: 0, claimed: 0, dead: 0 }
      for (const one of topics)
        for (const name of Object.keys(total) as (keyof typeof total)[]) total[name] += one[name]
      return { at: new Date(clock.now()), topics, total }
    },
  })

  route(app, {
    method: 'GET',
    url: '/v1/forecast',
    name: 'getForecast',
    tag: 'figures',
    scope: 'read',
    reach: 'filtered',
    summary: 'Count the tasks that ring in each future step of time',
    query: object({ topic: TOPIC, from: AT, to: AT, step: text("Length of one step; '1m' by default.") }, [
      'to',
    ]),
    answers: {
      200: answer({
        topics: list(answer({ topic: text('The name of the topic.'), steps: list(ref('ForecastStep')) })),
      }),
    },
    handler: async (request) => {
      const { topic: _, ...span } = request.query as {
        topic?: string
        from?: string
        to: string
        step?: string
      }
      const names = await topicsOf(request)
      const forecasts = await Promise.all(names.map((name) => toc.handle(name).forecast(span)))
      return { topics: names.map((topic, i) => ({ topic, steps: forecasts[i] })) }
    },
  })

  route(app, {
    method: 'GET',
    url: '/v1/nodes',
    name: 'listNodes',
    tag: 'figures',
    scope: 'read',
    reach: 'whole',
    summary: 'List the live processes of the cluster',
    answers: { 200: answer({ nodes: list(ref('NodeInfo')) }) },
    handler: async () => ({ nodes: await toc.nodes() }),
  })

  route(app, {
    method: 'GET',
    url: '/v1/audit',
    name: 'audit',
    tag: 'figures',
    scope: 'admin',
    reach: 'filtered',
    summary: 'Check that the books balance, and repair what does not match',
    answers: {
      200: answer({
        balances: { type: 'boolean', description: 'True if the books of all topics balance.' },
        topics: list(ref('TopicAudit')),
      }),
    },
    handler: async (request) => {
      const audits = await toc.audit()
      const seen = new Set(
        seenBy(
          request.access,
          audits.map(({ topic }) => topic),
        ),
      )
      const topics = audits.filter(({ topic }) => seen.has(topic))
      return { balances: topics.every(({ balances }) => balances), topics }
    },
  })
}
