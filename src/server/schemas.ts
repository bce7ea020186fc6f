/** What goes in and out, in JSON Schema: requests are validated by it, answers are written by it, and the OpenAPI document is made of it. */
import { ERROR_TABLE } from '../errors.ts'
import { EVENT_NAMES } from '../telemetry/events.ts'
import { SCOPES } from '../values/access-token.ts'

/** At most so many in one JSON body; NDJSON has no end. */
export const TASKS_MAX = 10_000

const text = (description: string, more: object = {}) => ({ type: 'string', description, ...more })
const instant = (description: string) => text(description, { format: 'date-time' })
const duration = (description: string) => text(`${description} With a unit: '250ms', '30s', '1h30m', '7d'.`)
const count = (description: string) => ({ type: 'integer', minimum: 0, description })
export const ref = (name: string) => ({ $ref: `${name}#` })
export const list = (items: object, more: object = {}) => ({ type: 'array', items, ...more })

/** Unknown fields are refused, by name. */
export function object(properties: Record<string, object>, required = Object.keys(properties)): object {
  return { type: 'object', additionalProperties: false, required, properties }
}

/** Of answers: within v1 they only gain fields, so that clients must let them pass. */
function answer(properties: Record<string, object>, required = Object.keys(properties)): object {
  return { type: 'object', required, properties }
}

const named = (name: string, schema: object) => ({ $id: name, title: name, ...schema })

const KEY = text('The business key: it alone finds the task. 1–256 bytes of UTF-8.', { minLength: 1 })
const DELAY = duration('From now.')
const AT = instant('RFC 3339, with its offset. What lies in the past fires at once.')
const TAGS = list(text('What it belongs to.'), { maxItems: 4 })
const PRIORITY = { enum: ['high', 'normal', 'low'] }
const PAYLOAD = { description: 'Any JSON, 64 KiB at most.' }
const TOKEN = text(
  'Opaque: what proves the claim. It lasts the whole claim, also when the lease is extended.',
)
const STATE = { enum: ['pending', 'claimed', 'done', 'cancelled', 'obsolete', 'dead'] }

const CONFIG_FIELDS: Record<string, object> = {
  slots: { type: 'integer', description: '1–64, a power of two: how many shares the topic is dealt in.' },
  slotBy: { enum: ['key', 'prefix'], description: 'What places a task. Fixed at creation.' },
  batchSize: { type: 'integer', description: 'Most tasks in one call of a batch handler.' },
  lease: duration('How long a claim is trusted.'),
  timeout: duration('How long a handler may run.'),
  merge: duration('Times are rounded up to a multiple of this.'),
  resident: duration('How far ahead tasks are kept in the timetable.'),
  retention: duration('How long ended tasks are kept.'),
  retry: object(
    {
      maxAttempts: { type: 'integer' },
      backoff: { enum: ['exponential', 'fixed'] },
      min: duration('The first wait.'),
      max: duration('The longest wait.'),
      jitter: { type: 'number' },
    },
    [],
  ),
  rate: object({ limit: { type: 'integer' }, per: duration('The span.') }),
  late: object({ after: duration('So late.'), then: { enum: ['fire', 'drop', 'dead'] } }),
  objective: object({ p99: duration('The lateness that is promised.') }),
}

const orNull = (schema: object) => ({ anyOf: [schema, { type: 'null' }] })
const LIVE_FIELDS = Object.fromEntries(
  Object.entries(CONFIG_FIELDS)
    .filter(([name]) => name !== 'slotBy')
    .map(([name, schema]) => [name, orNull(schema)]),
)

const TASK_FIELDS: Record<string, object> = {
  topic: text('Its kind.'),
  key: KEY,
  payload: PAYLOAD,
  dueAt: instant('When it was to fire. Retries and snoozes do not move it.'),
  attempt: count('Failures so far + 1.'),
  deliveries: count('How often it was handed out.'),
  tags: TAGS,
  priority: PRIORITY,
}

const COUNTS: Record<string, object> = {
  pending: count('Waiting, due or not.'),
  due: count('Of these, the ones whose time has come.'),
  claimed: count('In somebody’s hands.'),
  dead: count('Given up.'),
}

const TOKEN_FIELDS: Record<string, object> = {
  id: text('Names the token; not secret.'),
  name: text('What it is for.'),
  scopes: list({ enum: [...SCOPES] }),
  topicPrefix: orNull(text('It is good for topics whose names begin so; null: for all.')),
  createdAt: instant('When it was made.'),
  expiresAt: orNull(instant('When it ends; null: never.')),
  rate: orNull(object({ limit: count('Requests.'), per: duration('In any such span.') })),
  bodyBytesMax: orNull(count('The largest body that it may send.')),
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
        smear: duration('Fires somewhere in [due, due + smear].'),
        onConflict: { enum: ['replace', 'keep'], description: 'When the key has a live task.' },
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
    answer({
      id: orNull(text('The same at every attempt; null until the first claim where no ledger keeps it.')),
      ...TASK_FIELDS,
      state: STATE,
      createdAt: instant('When it was scheduled.'),
      updatedAt: instant('When it last changed.'),
      lastError: orNull(text('Of the last attempt that failed.')),
      deadCause: orNull({ enum: ['attempts', 'handler', 'poison', 'payload', 'late'] }),
    }),
  ),
  named(
    'ClaimedTask',
    answer({
      id: text('The same at every attempt: the idempotency key.'),
      ...TASK_FIELDS,
      latenessMs: count('fired − due.'),
      token: TOKEN,
      leaseUntil: instant('Settled or extended later than this, it may be somebody else’s.'),
    }),
  ),
  named(
    'BulkLine',
    answer(
      {
        line: count('Of the body, from 1.'),
        error: answer({ code: text('Stable.'), message: text('Why.'), retryable: { type: 'boolean' } }),
        key: KEY,
        outcome: { enum: ['created', 'replaced', 'kept'] },
        dueAt: AT,
        inFlight: { type: 'boolean' },
        summary: answer({
          created: count('New.'),
          replaced: count('In the place of another.'),
          kept: count('There before.'),
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
        token: TOKEN,
        outcome: { enum: ['done', 'retry', 'snooze', 'dead'] },
        delay: duration(
          'Until the retry (by the topic’s backoff otherwise), or of the snooze (which needs one).',
        ),
        reason: text('Why, of a retry or a death.'),
      },
      ['key', 'token', 'outcome'],
    ),
  ),
  named('TopicConfig', object(CONFIG_FIELDS, [])),
  named('LiveConfig', object(LIVE_FIELDS, [])),
  named(
    'ConfigView',
    answer({
      version: count('Raised by every change.'),
      effective: ref('TopicConfig'),
      live: ref('TopicConfig'),
      code: ref('TopicConfig'),
      paused: { type: 'boolean' },
    }),
  ),
  named(
    'TopicStats',
    answer({
      topic: text('Its name.'),
      ...COUNTS,
      paused: { type: 'boolean' },
      oldestOverdueMs: count('For how long the oldest of the due ones has waited; 0: none is due.'),
    }),
  ),
  named(
    'ForecastStep',
    answer({ at: instant('Where the step begins.'), due: count('Tasks that ring within it.') }),
  ),
  named(
    'NodeInfo',
    answer({
      name: text('What the process calls itself.'),
      host: text('Where it runs.'),
      pid: count('Its process id.'),
      version: text('Of Tocsin.'),
      startedAt: instant('By its own clock.'),
      isSelf: { type: 'boolean', description: 'It is the one that answers.' },
      capacity: count('Handlers at a time.'),
      slots: { type: 'object', additionalProperties: list({ type: 'integer' }), description: 'By topic.' },
      inFlight: count('Tasks in its hands.'),
      handled: count('Tasks since its start.'),
      clockAheadMs: orNull({ type: 'number' }),
    }),
  ),
  named(
    'TopicAudit',
    answer({
      topic: text('Its name.'),
      books: answer(BOOKS),
      counted: answer(COUNTED),
      balances: { type: 'boolean' },
      missing: count('Not in the timetable, and put there.'),
      orphaned: count('In the timetable without a task, and taken out.'),
      rescued: count('Put back by the sweeper since the start.'),
    }),
  ),
  named('Token', answer(TOKEN_FIELDS)),
  named('NewToken', answer({ ...TOKEN_FIELDS, token: text('The secret. It is shown this once.') })),
  named(
    'Error',
    answer({
      error: answer(
        {
          code: { type: 'string', examples: Object.keys(ERROR_TABLE).slice(0, 5), description: 'Stable.' },
          message: text('What was wrong, and what to do.'),
          retryable: { type: 'boolean', description: 'The same call may succeed later.' },
          field: text('What it is about.'),
          index: count('Which of several.'),
          hint: text('A likely correction.'),
          accepted: count('So many of a bulk call are in.'),
          requestId: text('As in the log, and in x-request-id.'),
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
  TAG: text('All live tasks with it.'),
  PREFIX: text('All live tasks whose key begins with it and a colon.'),
  TOKEN,
  STATE,
  COUNTS,
  SHIFT: text("From where each is: '+10m', '-1h'."),
  LEASE: duration('How long the claim is trusted; the topic’s lease by default.'),
  WAIT: duration('How long to wait for the first task, 60s at most.'),
  EVENT: { enum: [...EVENT_NAMES] },
} as const
export { answer, count, duration, instant, orNull, text }
