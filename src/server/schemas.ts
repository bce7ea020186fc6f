/** JSON Schemas. They validate requests, serialize answers, and are part of the OpenAPI document. */
import { ERROR_TABLE } from '../errors.ts'
import { EVENT_NAMES } from '../telemetry/events.ts'
import { SCOPES } from '../values/access-token.ts'

/** The maximum number of tasks in one JSON body. NDJSON is not limited. */
export const TASKS_MAX = 10_000

const text = (description: string, more: object = {}) => ({ type: 'string', description, ...more })
const instant = (description: string) => text(description, { format: 'date-time' })
const duration = (description: string) => text(`${description} With a unit: '250ms', '30s', '1h30m', '7d'.`)
const count = (description: string) => ({ type: 'integer', minimum: 0, description })
export const ref = (name: string) => ({ $ref: `${name}#` })
export const list = (items: object, more: object = {}) => ({ type: 'array', items, ...more })

/** Returns the schema of an object in a request. Unknown fields are rejected. */
export function object(properties: Record<string, object>, required = Object.keys(properties)): object {
  return { type: 'object', additionalProperties: false, required, properties }
}

/**
 * Returns the schema of an object in an answer. Within v1, answers may only gain fields, so clients must ignore unknown
 * fields.
 */
function answer(properties: Record<string, object>, required = Object.keys(properties)): object {
  return { type: 'object', required, properties }
}

const named = (name: string, schema: object) => ({ $id: name, title: name, ...schema })

const KEY = text('The business key, which identifies the task within its topic. 1–256 bytes of UTF-8.', {
  minLength: 1,
})
const DELAY = duration('From now.')
const AT = instant('RFC 3339, with an offset. A time in the past fires at once.')
const TAGS = list(text('A tag, by which tasks are cancelled or rescheduled together.'), { maxItems: 4 })
const PRIORITY = { enum: ['high', 'normal', 'low'] }
const PAYLOAD = { description: 'Any JSON, 64 KiB at most.' }
const CLAIM_TOKEN = text(
  'Opaque. Proves the claim, and stays valid when the lease is extended. Not an access token.',
)
const STATE = { enum: ['pending', 'claimed', 'done', 'cancelled', 'obsolete', 'dead'] }

const CONFIG_FIELDS: Record<string, object> = {
  slots: {
    type: 'integer',
    description: '1–64, a power of two: into how many shares the tasks of the topic are divided.',
  },
  slotBy: {
    enum: ['key', 'prefix'],
    description: 'Which part of the key decides the slot of a task. Fixed at creation.',
  },
  batchSize: { type: 'integer', description: 'Most tasks in one call of a batch handler.' },
  linger: duration('How long the first task of a batch waits for more, at most a minute.'),
  lease: duration('How long a claimed task is reserved for its consumer.'),
  timeout: duration('How long a handler may run.'),
  merge: duration('Times are rounded up to a multiple of this.'),
  resident: duration('How far ahead tasks are loaded into the timetable.'),
  retention: duration('How long ended tasks are kept.'),
  retry: object(
    {
      maxAttempts: { type: 'integer' },
      backoff: { enum: ['exponential', 'fixed'] },
      min: duration('The first delay.'),
      max: duration('The longest delay.'),
      jitter: { type: 'number' },
    },
    [],
  ),
  rate: object({ limit: { type: 'integer' }, per: duration('The window.') }),
  late: object({
    after: duration('A task is late if it is claimed later than this after its due time.'),
    then: { enum: ['fire', 'drop', 'dead'] },
  }),
  objective: object({ p99: duration('The promised lateness.') }),
  fastClaims: {
    type: 'boolean',
    description:
      'With PostgreSQL: claims do not wait for the disk. If PostgreSQL crashes within about 0.6 s after a claim, the task may be delivered again, and a cancel may answer cancelled although its handler has started.',
  },
}

const orNull = (schema: object) => ({ anyOf: [schema, { type: 'null' }] })
const LIVE_FIELDS = Object.fromEntries(
  Object.entries(CONFIG_FIELDS)
    .filter(([name]) => name !== 'slotBy')
    .map(([name, schema]) => [name, orNull(schema)]),
)

const TASK_FIELDS: Record<string, object> = {
  topic: text('The name of the topic.'),
  key: KEY,
  payload: PAYLOAD,
  dueAt: instant('The due time. Retries and snoozes do not change it.'),
  attempt: count('Failures so far + 1.'),
  deliveries: count('How often the task was handed out.'),
  tags: TAGS,
  priority: PRIORITY,
}

const TASK_INFO_FIELDS: Record<string, object> = {
  id: orNull(text('The same at every attempt; without a ledger, null until the first claim.')),
  ...TASK_FIELDS,
  state: STATE,
  createdAt: instant('When the task was scheduled.'),
  updatedAt: instant('When the task last changed.'),
  lastError: orNull(text('Error of the last failed attempt.')),
  deadCause: orNull({ enum: ['attempts', 'handler', 'poison', 'payload', 'late'] }),
}

const COUNTS: Record<string, object> = {
  pending: count('Pending tasks, due or not.'),
  due: count('Pending tasks whose due time has come.'),
  claimed: count('Tasks claimed by a consumer.'),
  dead: count('Dead tasks.'),
}

const ACCESS_TOKEN_FIELDS: Record<string, object> = {
  id: text('Identifies the token; not secret.'),
  name: text('What the token is for.'),
  scopes: list({ enum: [...SCOPES] }),
  topicPrefix: orNull(
    text('The token is valid for topics whose names start with this; null for all topics.'),
  ),
  createdAt: instant('When the token was created.'),
  expiresAt: orNull(instant('When the token expires; null if never.')),
  rate: orNull(object({ limit: count('Requests.'), per: duration('The window.') })),
  bodyBytesMax: orNull(count('Largest request body of this token.')),
}

const BOOKS = Object.fromEntries(
  ['scheduled', 'pending', 'claimed', 'dead', 'done', 'cancelled', 'obsolete', 'purged'].map((name) => [
    name,
    count(`Tasks: ${name}.`),
  ]),
)
const { scheduled: _scheduled, purged: _purged, ...COUNTED } = BOOKS

export const SHARED = [
  named(
    'NewTask',
    object(
      {
        key: KEY,
        delay: DELAY,
        at: AT,
        payload: PAYLOAD,
        tags: TAGS,
        priority: PRIORITY,
        smear: duration('Fires at a random time in [due, due + smear].'),
        onConflict: { enum: ['replace', 'keep'], description: 'What to do if the key has a live task.' },
      },
      ['payload'],
    ),
  ),
  named(
    'Scheduled',
    answer({
      key: KEY,
      outcome: { enum: ['created', 'replaced', 'kept'] },
      dueAt: AT,
      inFlight: { type: 'boolean' },
    }),
  ),
  named('Cancelled', answer({ key: KEY, outcome: { enum: ['cancelled', 'in-flight', 'not-found'] } })),
  named(
    'Rescheduled',
    answer({ key: KEY, outcome: { enum: ['rescheduled', 'in-flight', 'not-found'] }, dueAt: orNull(AT) }),
  ),
  named(
    'TaskInfo',
    answer(
      {
        ...TASK_INFO_FIELDS,
        superseded: {
          type: 'boolean',
          description:
            'Only of a dead task: true if its key was scheduled again since. Then only `keys` replays the task.',
        },
      },
      Object.keys(TASK_INFO_FIELDS),
    ),
  ),
  named(
    'ClaimedTask',
    answer({
      id: text('The same at every attempt: the idempotency key.'),
      ...TASK_FIELDS,
      latenessMs: count(
        'fired − ring time; the ring time is the due time, or the time set by a retry or a snooze.',
      ),
      token: CLAIM_TOKEN,
      leaseUntil: instant('End of the lease. After it the task may be handed to another consumer.'),
    }),
  ),
  named(
    'BulkLine',
    answer(
      {
        line: count('Line number in the request body, from 1.'),
        error: answer({
          code: text('A stable error code.'),
          message: text('Why.'),
          retryable: { type: 'boolean' },
        }),
        key: KEY,
        outcome: { enum: ['created', 'replaced', 'kept'] },
        dueAt: AT,
        inFlight: { type: 'boolean' },
        summary: answer({
          created: count('New tasks.'),
          replaced: count('Replaced a live task.'),
          kept: count('Left as they were.'),
          failed: count('Refused.'),
        }),
      },
      [],
    ),
  ),
  named(
    'Settlement',
    object(
      {
        key: KEY,
        token: CLAIM_TOKEN,
        outcome: { enum: ['done', 'retry', 'snooze', 'dead'] },
        delay: duration('Delay of a retry (by default, the topic’s backoff) or of a snooze (required).'),
        reason: text('Why: for retry and dead.'),
      },
      ['key', 'token', 'outcome'],
    ),
  ),
  named('TopicConfig', object(CONFIG_FIELDS, [])),
  named('LiveConfig', object(LIVE_FIELDS, [])),
  named(
    'ConfigView',
    answer({
      version: count('Incremented by every change.'),
      effective: ref('TopicConfig'),
      live: ref('TopicConfig'),
      code: ref('TopicConfig'),
      paused: { type: 'boolean' },
    }),
  ),
  named(
    'TopicStats',
    answer({
      topic: text('The name of the topic.'),
      ...COUNTS,
      paused: { type: 'boolean' },
      oldestOverdueMs: count('How long the oldest due task has been waiting; 0 if none is due.'),
    }),
  ),
  named(
    'ForecastStep',
    answer({ at: instant('Start of the step.'), due: count('Tasks that ring within it.') }),
  ),
  named(
    'NodeInfo',
    answer({
      name: text('Name of the process.'),
      host: text('Host name.'),
      pid: count('Process id.'),
      version: text('Version of Tocsin.'),
      startedAt: instant('By the clock of that process.'),
      isSelf: { type: 'boolean', description: 'True for the process that answers.' },
      capacity: count('Most handlers at a time.'),
      slots: {
        type: 'object',
        additionalProperties: list({ type: 'integer' }),
        description: 'Slots that the process pulls, by topic.',
      },
      inFlight: count('Tasks that its handlers are running.'),
      handled: count('Tasks handled since its start.'),
      clockAheadMs: orNull({ type: 'number' }),
    }),
  ),
  named(
    'TopicAudit',
    answer({
      topic: text('The name of the topic.'),
      books: answer(BOOKS),
      counted: answer(COUNTED),
      balances: { type: 'boolean' },
      missing: count('Tasks that were missing in the timetable, and were added.'),
      orphaned: count('Entries of the timetable without a task, which were removed.'),
      rescued: count('Tasks put back by the sweeper since the start.'),
    }),
  ),
  named('Token', answer(ACCESS_TOKEN_FIELDS)),
  named('NewToken', answer({ ...ACCESS_TOKEN_FIELDS, token: text('The secret. Shown only once.') })),
  named(
    'Error',
    answer({
      error: answer(
        {
          code: {
            type: 'string',
            examples: Object.keys(ERROR_TABLE).slice(0, 5),
            description: 'A stable error code.',
          },
          message: text('What was wrong, and what to do.'),
          retryable: { type: 'boolean', description: 'The same call may succeed later.' },
          field: text('The field that the error is about.'),
          index: count('Position in the list of the request.'),
          hint: text('A likely correction.'),
          accepted: count('Tasks of a bulk call that were accepted.'),
          requestId: text('The id of the request, as in the log and in x-request-id.'),
        },
        ['code', 'message', 'retryable'],
      ),
    }),
  ),
]

export const FIELDS = {
  KEY,
  DELAY,
  AT,
  TAG: text('All live tasks with this tag.'),
  PREFIX: text('All live tasks whose key starts with this and a colon.'),
  CLAIM_TOKEN,
  STATE,
  COUNTS,
  SHIFT: text("Relative to the current ring time of each task: '+10m', '-1h'."),
  LEASE: duration('How long the tasks are reserved; the topic’s lease by default.'),
  WAIT: duration('How long to wait for the first task; 60s at most.'),
  EVENT: { enum: [...EVENT_NAMES] },
} as const
export { answer, count, duration, instant, orNull, text }
