/** Routes for liveness, readiness, metrics and the OpenAPI document. */
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { withDeadline } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { route, type ServerParts } from '../parts.ts'
import { answer, ref, text } from '../schemas.ts'

const READY_WITHIN_MS = 2_000

export function systemRoutes(
  app: FastifyInstance,
  { toc, clock, closing }: ServerParts,
  registry: Registry,
): void {
  route(app, {
    method: 'GET',
    url: '/healthz',
    name: 'isAlive',
    tag: 'system',
    scope: null,
    summary: 'Liveness: the process runs',
    answers: { 200: answer({ status: { const: 'ok' } }) },
    handler: async () => ({ status: 'ok' }),
  })

  route(app, {
    method: 'GET',
    url: '/readyz',
    name: 'isReady',
    tag: 'system',
    scope: null,
    summary: 'Readiness: the stores answer, and the server is not shutting down',
    answers: { 200: answer({ status: { const: 'ready' } }), 503: ref('Error') },
    handler: async () => {
      if (closing.aborted) throw new TocsinError('closed', 'the server is shutting down')
      const late = () => new TocsinError('timetable-unavailable', 'the stores do not answer')
      await withDeadline(clock, READY_WITHIN_MS, toc.recordMs(), late)
      return { status: 'ready' }
    },
  })

  route(app, {
    method: 'GET',
    url: '/metrics',
    name: 'getMetrics',
    tag: 'system',
    scope: 'read',
    reach: 'whole',
    summary: 'Metrics for Prometheus',
    answers: { 200: { content: { 'text/plain': { schema: text('In the Prometheus exposition format.') } } } },
    handler: async (_request, reply) => {
      const figures = await registry.metrics()
      return reply.type(registry.contentType).send(figures)
    },
  })

  route(app, {
    method: 'GET',
    url: '/openapi.json',
    name: 'getDocument',
    tag: 'system',
    scope: null,
    summary: 'This document',
    answers: { 200: { type: 'object', additionalProperties: true } },
    handler: async () => app.swagger(),
  })
}
