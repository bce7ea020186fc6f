/**
 * Claim, settle and extend over HTTP. The shape of a claimed task is defined in three places: ClaimedTask in
 * schemas.ts, #task in pull/http-pull.ts, and ClaimedTask in client/claims.ts.
 */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { durationMs } from '../../values/duration.ts'
import { badOption } from '../../values/options.ts'
import type { Verdict } from '../../consume/verdict.ts'
import { boundedText } from '../../errors.ts'
import { knownTopic, route, type ServerParts } from '../parts.ts'
import { answer, FIELDS, list, object, ref, TASKS_MAX } from '../schemas.ts'

const CLAIM = 100
const WAIT_MS_MAX = 60_000
/** The minimum lease. A shorter lease may expire before the answer arrives. */
const LEASE_MS_MIN = 1_000
const LEASE_MS_MAX = 86_400_000

interface Settlement {
  readonly key: string
  readonly token: string
  readonly outcome: 'done' | 'retry' | 'snooze' | 'dead'
  readonly delay?: string
  readonly reason?: string
}

const { KEY, CLAIM_TOKEN, LEASE, WAIT } = FIELDS
const resultOf = (...outcomes: string[]) =>
  answer({ results: list(answer({ key: KEY, outcome: { enum: outcomes } })) })

export function pullRoutes(app: FastifyInstance, parts: ServerParts): void {
  const topicOf = (request: FastifyRequest) =>
    knownTopic(parts, (request.params as { topic: string }).topic, request.access)

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/claim',
    name: 'claimTasks',
    tag: 'work',
    scope: 'consume',
    summary: 'Claim tasks that are due, or wait for them',
    body: object(
      { limit: { type: 'integer', minimum: 1, maximum: BATCH_MAX }, wait: WAIT, lease: LEASE },
      [],
    ),
    answers: { 200: answer({ tasks: list(ref('ClaimedTask')) }) },
    handler: async (request, reply) => {
      const topic = await topicOf(request)
      const {
        limit = CLAIM,
        wait = '0s',
        lease,
      } = request.body as { limit?: number; wait?: string; lease?: string }
      const waitMs = durationMs(wait, 'wait')
      if (waitMs > WAIT_MS_MAX) throw badOption('wait', 'expected at most 60s; poll again if no task came')
      const { httpPull } = topic
      const leaseMs = await leaseOf(topic, lease)
      const gone = new AbortController()
      reply.raw.once('close', () => gone.abort())
      const tasks = await httpPull.claim(
        limit,
        leaseMs,
        waitMs,
        AbortSignal.any([gone.signal, parts.closing]),
      )
      // If the answer was not delivered, give the tasks back now, so that they need not wait until their leases expire.
      if (tasks.length > 0)
        reply.raw.once('close', () => {
          if (!reply.raw.writableFinished) void httpPull.giveBack(tasks)
        })
      return { tasks }
    },
  })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/settle',
    name: 'settleTasks',
    tag: 'work',
    scope: 'consume',
    summary: 'Settle claimed tasks',
    body: object({ tasks: list(ref('Settlement'), { minItems: 1, maxItems: TASKS_MAX }) }),
    answers: { 200: resultOf('settled', 'stale') },
    handler: async (request) => {
      const topic = await topicOf(request)
      const { tasks } = request.body as { tasks: Settlement[] }
      const items = tasks.map(({ key, token, ...settlement }, i) => ({
        key,
        token,
        verdict: verdictOf(settlement, i),
      }))
      const answers = await topic.httpPull.settle(items)
      return { results: tasks.map(({ key }, i) => ({ key, outcome: answers[i] })) }
    },
  })

  route(app, {
    method: 'POST',
    url: '/v1/topics/:topic/extend',
    name: 'extendLeases',
    tag: 'work',
    scope: 'consume',
    summary: 'Extend the leases of claimed tasks',
    body: object(
      {
        tasks: list(object({ key: KEY, token: CLAIM_TOKEN }), { minItems: 1, maxItems: TASKS_MAX }),
        lease: LEASE,
      },
      ['tasks'],
    ),
    answers: { 200: resultOf('extended', 'stale') },
    handler: async (request) => {
      const topic = await topicOf(request)
      const { tasks, lease } = request.body as { tasks: { key: string; token: string }[]; lease?: string }
      const answers = await topic.httpPull.extend(tasks, await leaseOf(topic, lease))
      return { results: tasks.map(({ key }, i) => ({ key, outcome: answers[i] })) }
    },
  })
}

async function leaseOf(
  topic: Awaited<ReturnType<typeof knownTopic>>,
  lease: string | undefined,
): Promise<number> {
  const given = lease ?? (await topic.config()).effective.lease ?? '30s'
  const ms = durationMs(given, 'lease')
  if (ms >= LEASE_MS_MIN && ms <= LEASE_MS_MAX) return ms
  if (lease === undefined) return Math.max(ms, LEASE_MS_MIN)
  throw badOption('lease', 'expected 1s to 1d')
}

function verdictOf({ outcome, delay, reason }: Omit<Settlement, 'key' | 'token'>, i: number): Verdict {
  const at = (field: string) => `tasks[${i}].${field}`
  const delayMs = delay === undefined ? null : durationMs(delay, at('delay'))
  const why = boundedText(reason ?? '')
  switch (outcome) {
    case 'done':
      return { kind: 'done' }
    case 'snooze':
      if (delayMs === null) throw badOption(at('delay'), "is missing: say for how long, like '5m'")
      return { kind: 'snooze', delayMs }
    case 'retry':
      return { kind: 'failed', delayMs, error: why || 'retry requested by its consumer' }
    case 'dead':
      return { kind: 'dead', error: why || 'rejected by its consumer' }
  }
}
