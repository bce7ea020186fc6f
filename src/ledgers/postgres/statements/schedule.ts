/** The statements that schedule tasks, many tasks in one statement. */
import { FREE, IN_ORDER, inTime, IS_HELD, notifyIfNear, ringAt, SAME, t } from './fragments.ts'
import {
  LOCK_TIMEOUT_MS,
  MERGE_MS,
  NOT_AFTER_MS,
  NOTIFY_WITHIN_MS,
  param,
  type Statement,
  TASKS,
  TOPIC_NAME,
  TRANSACTION_ID,
} from './statement.ts'

const TAKES = [
  ...TASKS,
  param('ms', 'bigint[]', 'instant or delay of each task'),
  param('are_delays', 'boolean[]', 'whether ms is a delay'),
  param('priorities', 'smallint[]'),
  param('tags', 'text[]', 'tags of each task, one per line'),
  param('bodies', 'text', 'payload of each task, as JSON, separated by \\x1e'),
  MERGE_MS,
  LOCK_TIMEOUT_MS,
  TRANSACTION_ID,
  NOTIFY_WITHIN_MS,
  TOPIC_NAME,
  param('expects_new', 'boolean', 'try schedule_new first (only in the function of prepared-steps.ts)'),
  NOT_AFTER_MS,
] as const

const RETURNS =
  'One row: now_ms; superseded, a JSON list of [key, state of the replaced task: 1 pending, 2 lease ' +
  'expired, 3 in flight]'

const NEW_TASKS = `
    SELECT i.*, ${ringAt('wanted', '$9::bigint')} AS due_ms FROM (
      SELECT i.*, t.now_ms, t.base + i.n AS generation, CASE WHEN i.is_delay THEN t.now_ms + i.ms ELSE i.ms END AS wanted
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::boolean[], $6::smallint[], $7::text[],
        string_to_array($8::text, E'\\x1e'))
        WITH ORDINALITY AS i (cell, key, ms, is_delay, priority, tags, body, n)
    ) i`

const SCHEDULE_T = t({
  lockTimeoutMs: '$10',
  transactionId: '$11',
  also: ", nextval('tocsin.generation') AS base, $14::boolean AS expects_new",
})

const inserted = (from: string): string => `INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, tags, body)
    SELECT $1::integer, cell, key, generation, due_ms, due_ms, priority, now_ms, now_ms,
      string_to_array(tags, E'\\n'), body
    FROM ${from} i ${IN_ORDER}`

const upsert = (keep: boolean): string => `WITH ${SCHEDULE_T},
  input AS MATERIALIZED (${NEW_TASKS}),
  written AS (
    ${inserted('input')}
    ON CONFLICT (topic, cell, key) DO UPDATE SET
      supersedes = CASE WHEN l.session IS NULL THEN 1 WHEN l.lease_ms <= excluded.updated_ms THEN 2 ELSE 3 END,
      generation = excluded.generation, due_ms = excluded.due_ms, ring_ms = excluded.ring_ms,
      priority = excluded.priority, created_ms = excluded.created_ms, updated_ms = excluded.updated_ms,
      tags = excluded.tags, body = excluded.body, error = NULL, failures = 0, lost = 0, deliveries = 0,
      marked = false, ${FREE}
    -- A task that was cancelled in flight has no further attempt, so there is nothing to keep.
    ${keep ? 'WHERE l.marked' : ''}
    RETURNING l.cell, l.key, l.supersedes
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, scheduled, claimed)
    SELECT $1, count(*) FILTER (WHERE supersedes = 0), -count(*) FILTER (WHERE supersedes > 1)
    FROM written HAVING count(*) FILTER (WHERE supersedes <> 1) > 0
  )
  SELECT t.now_ms::float8 AS now_ms,
    (SELECT json_agg(json_build_array(key, supersedes)) FROM written WHERE supersedes > 0)::text AS superseded,
    ${
      keep
        ? `(SELECT json_agg(key) FROM written)::text AS written,
    (SELECT json_agg(json_build_array(l.key, l.due_ms, ${IS_HELD})) FROM input i JOIN tocsin.live l ON ${SAME}
      LEFT JOIN written w ON w.cell = i.cell AND w.key = i.key WHERE w.key IS NULL)::text AS kept`
        : 'NULL::text AS written, NULL::text AS kept'
    },
    ${notifyIfNear('SELECT min(due_ms) FROM input', '$12::bigint', '$13')} AS told
  FROM t WHERE ${inTime('$15', 'written')}`

export const scheduleNew: Statement = {
  does:
    'Inserts tasks. Fails with unique_violation, and writes nothing, if a key has a live task. Takes a ' +
    'quarter less work than schedule, because no key is looked up before the insert.',
  sentBy: 'the function of prepared-steps.ts, if expects_new',
  takes: TAKES,
  returns: 'One row, as schedule returns it, with nulls.',
  text: `WITH ${SCHEDULE_T},
  written AS (${inserted(`(${NEW_TASKS})`)} RETURNING l.due_ms),
  booked AS (INSERT INTO tocsin.tally (topic, scheduled) SELECT $1, count(*) FROM written)
  SELECT t.now_ms::float8 AS now_ms, NULL::text AS superseded, NULL::text AS written, NULL::text AS kept,
    ${notifyIfNear('SELECT min(due_ms) FROM written', '$12::bigint', '$13')} AS told
  FROM t WHERE ${inTime('$15', 'written')} AND (SELECT count(*) FROM written) > 0`,
}

export const schedule: Statement = {
  does: 'Upserts tasks: a key that has a live task is replaced.',
  sentBy: 'Writes.schedule, tocsin.schedule()',
  takes: TAKES,
  returns: `${RETURNS}; two nulls.`,
  text: upsert(false),
}

export const scheduleKeeping: Statement = {
  does:
    "Inserts tasks with onConflict 'keep'. If a key has a live task, that task stays, unless it was " +
    'cancelled in flight.',
  sentBy: 'Writes.schedule, tocsin.schedule()',
  takes: TAKES,
  returns: `${RETURNS}; written, a JSON list of keys; kept, a JSON list of [key, due_ms, whether it is in flight].`,
  text: upsert(true),
}
