/** Routes that schedule, read, reschedule and cancel tasks, by key, tag or prefix. */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { TocsinError } from '../../errors.ts'
import { badOption } from '../../values/options.ts'
import type { NewTask, State, When } from '../../task.ts'
import type { By, Shift } from '../../api/topic.ts'
import { mediaTypeOf, NDJSON } from '../bodies.ts'
import { scheduleLines } from '../bulk-schedule.ts'
import { knownTopic, route, type ServerParts } from '../parts.ts'
import { answer, count, FIELDS, list, object, orNull, ref, TASKS_MAX, text } from '../schemas.ts'

type Named = { readonly topic: string; readonly key: string }
type Which = { readonly keys?: string[]; readonly tag?: string; readonly prefix?: string }

const { KEY, DELAY, AT, TAG, PREFIX, SHIFT, STATE } = FIELDS
const KEYS = list(KEY, { minItems: 1, maxItems: TASKS_MAX })

export function taskRoutes(app: FastifyInstance, parts: ServerParts): void {
  const topicOf = (request: FastifyRequest) =>
    knownTopic(parts, (request.params as Named).topic, request.access)

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/tasks',
    name: 'scheduleTask',
    tag: 'tasks',
    scope: 'schedule',
    summary: 'Schedule a task',
    body: ref('NewTask'),
    answers: { 200: ref('Scheduled'), 201: ref('Scheduled') },
    handler: async (request, reply) => {
      const topic = await topicOf(request)
      const scheduled = await topic.schedule(request.body as NewTask<unknown>)
      return reply.code(scheduled.outcome === 'created' ? 201 : 200).send(scheduled)
    },
  })

  route(app, {
    method: 'GET',
    url: '/v1/topics/:topic/tasks/:key',
    name: 'getTask',
    tag: 'tasks',
    scope: 'read',
    summary: 'Get a task',
    answers: { 200: ref('TaskInfo') },
    handler: async (request) => {
      const { key } = request.params as Named
      const info = await (await topicOf(request)).get(key)
      if (info === null) throw notFound(key)
      return info
    },
  })

  route(app, {
    method: 'PATCH',
    url: '/v1/topics/:topic/tasks/:key',
    name: 'rescheduleTask',
    tag: 'tasks',
    scope: 'schedule',
    summary: 'Reschedule a task',
    body: object({ delay: DELAY, at: AT }, []),
    answers: { 200: ref('Rescheduled') },
    handler: async (request) => {
      const { key } = request.params as Named
      const moved = await (await topicOf(request)).reschedule(key, request.body as When)
      refuseUndone(moved.outcome, key)
      return moved
    },
  })

  route(app, {
    method: 'DELETE',
    url: '/v1/topics/:topic/tasks/:key',
    name: 'cancelTask',
    tag: 'tasks',
    scope: 'schedule',
    summary: 'Cancel a task',
    answers: { 200: ref('Cancelled') },
    handler: async (request) => {
      const { key } = request.params as Named
      const cancelled = await (await topicOf(request)).cancel(key)
      refuseUndone(cancelled.outcome, key)
      return cancelled
    },
  })

  route(app, {
    method: 'GET',
    url: '/v1/topics/:topic/tasks',
    name: 'listTasks',
    tag: 'tasks',
    scope: 'read',
    summary: 'List tasks, soonest first, page by page',
    query: object(
      {
        state: STATE,
        tag: TAG,
        prefix: PREFIX,
        dueFrom: AT,
        dueTo: AT,
        limit: { type: 'integer', minimum: 1, maximum: BATCH_MAX },
        cursor: text('The cursor of the previous page.'),
      },
      [],
    ),
    answers: {
      200: answer({
        tasks: list(ref('TaskInfo')),
        cursor: orNull(text('For the next page; null on the last one.')),
      }),
    },
    handler: async (request) => {
      const query = request.query as { state?: State; limit?: number; cursor?: string }
      return (await topicOf(request)).list(query)
    },
  })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/schedule',
    name: 'scheduleTasks',
    tag: 'tasks',
    scope: 'schedule',
    summary: 'Schedule many tasks: an array, validated as a whole, or NDJSON of any length',
    query: object({ results: { enum: ['errors', 'all'] } }, []),
    consumes: ['application/json', NDJSON],
    body: {
      content: {
        'application/json': { schema: object({ tasks: list(ref('NewTask'), { maxItems: TASKS_MAX }) }) },
        [NDJSON]: { schema: { description: 'A NewTask on each line. Each line is validated by itself.' } },
      },
    },
    answers: {
      200: {
        content: {
          'application/json': { schema: answer({ results: list(ref('Scheduled')) }) },
          [NDJSON]: { schema: ref('BulkLine') },
        },
      },
    },
    handler: async (request, reply) => {
      const topic = await topicOf(request)
      if (mediaTypeOf(request) === NDJSON) return scheduleLines(parts, topic, request, reply)
      const { tasks } = request.body as { tasks: NewTask<unknown>[] }
      return { results: await topic.scheduleMany(tasks) }
    },
  })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/cancel',
    name: 'cancelTasks',
    tag: 'tasks',
    scope: 'schedule',
    summary: 'Cancel many tasks: by their keys, or all with a tag or a prefix',
    body: object({ keys: KEYS, tag: TAG, prefix: PREFIX }, []),
    answers: {
      200: answer(
        {
          results: list(ref('Cancelled')),
          cancelled: count('Tasks with the tag or the prefix.'),
          inFlight: count('Claimed tasks: this attempt runs to its end, and none follows.'),
        },
        [],
      ),
    },
    handler: async (request) => {
      const topic = await topicOf(request)
      const which = request.body as Which
      checkOneWay(which)
      if (which.keys === undefined) return topic.cancelBy(byOf(which))
      return { results: await topic.cancelMany(which.keys) }
    },
  })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/reschedule',
    name: 'rescheduleTasks',
    tag: 'tasks',
    scope: 'schedule',
    summary: 'Reschedule many tasks: by their keys, or all with a tag or a prefix',
    body: object({ keys: KEYS, tag: TAG, prefix: PREFIX, delay: DELAY, at: AT, shift: SHIFT }, []),
    answers: {
      200: answer(
        {
          results: list(ref('Rescheduled')),
          rescheduled: count('Tasks with the tag or the prefix.'),
          inFlight: count('Claimed tasks: they are not changed.'),
        },
        [],
      ),
    },
    handler: async (request) => {
      const topic = await topicOf(request)
      const { keys, tag: _tag, prefix: _prefix, ...when } = request.body as Which & Record<string, unknown>
      checkOneWay(request.body as Which)
      // The library validates `when`.
      if (keys === undefined) return topic.rescheduleBy(byOf(request.body as Which), when as unknown as Shift)
      const moved = keys.map((key) => topic.reschedule(key, when as unknown as When))
      return { results: await Promise.all(moved) }
    },
  })
}

function checkOneWay({ keys, tag, prefix }: Which): void {
  const ways = [keys, tag, prefix].filter((way) => way !== undefined)
  if (ways.length !== 1) throw badOption('keys', "give exactly one of 'keys', 'tag' and 'prefix'")
}

function byOf({ tag, prefix }: Which): By {
  return tag === undefined ? { prefix: prefix as string } : { tag }
}

function notFound(key: string): TocsinError {
  return new TocsinError('not-found', `there is no live task '${key}'`, { field: 'key' })
}

function refuseUndone(outcome: string, key: string): void {
  if (outcome === 'not-found') throw notFound(key)
  if (outcome === 'in-flight')
    throw new TocsinError(
      'in-flight',
      `task '${key}' is claimed by a consumer now: this attempt runs to its end`,
      {
        field: 'key',
      },
    )
}
