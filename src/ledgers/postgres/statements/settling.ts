/** The statements that settle tasks, many tasks in one statement. */
import { LAST_INSTANT_MS } from '../../../values/instant.ts'
import { LOSSES_OF_A_SUSPECT, RESCUE_DOUBLINGS_MAX, RESCUE_SPREAD_MS } from '../../../values/rescue.ts'
import { CANCELLED, DEAD, DONE, OBSOLETE, STARTED_ALONE } from '../../rows.ts'
import {
  CARRIED,
  CTID_SEPARATOR,
  eachRow,
  FREE,
  graves,
  GRAVES_EMPTIED,
  groups,
  input,
  prefixed,
  SAME,
  t,
  texts,
} from './fragments.ts'
import { HASHES, IS_PLAIN } from './batches.ts'
import {
  LOCK_TIMEOUT_MS,
  param,
  POISON_FORMAT,
  SESSION,
  STAMPS,
  type Statement,
  TASKS,
  TOPIC,
} from './statement.ts'

const FINISH_COLUMNS = [
  { name: 'my_stamp', array: '$4::bigint[]' },
  { name: 'state', array: '$5::smallint[]' },
  { name: 'size', array: '$6::integer[]' },
  { name: 'ctids', array: '$9::text[]' },
]

/**
 * Removes the live rows of tasks that end, for whole groups. A group has the tasks of one claim call that end in the same
 * state. A row is found where its claim left it, or by its key if that is not known, and deleted by its ctid without being
 * locked before: that would write each row twice. So the conditions are in the DELETE, which checks them again if it waited
 * for another transaction. The sums hide the columns from the planner, which would take an index if it plans while the
 * table is empty. Another transaction may have locked rows in another order: then the lock timeout, which is shorter than
 * `deadlock_timeout`, ends the wait.
 */
const removed = (returning: string): string => `removed AS (
    DELETE FROM tocsin.live l USING (
      SELECT g.n, g.cell, g.my_stamp, g.state, g.size, k.key, coalesce(k.ctid::tid, (
        SELECT l.ctid FROM tocsin.live l WHERE l.topic = $1 AND l.cell = g.cell AND l.key = k.key
      )) AS at
      ${groups(FINISH_COLUMNS)}
      CROSS JOIN LATERAL unnest(string_to_array(g.keys, E'\\x1e'), string_to_array(g.ctids, '${CTID_SEPARATOR}')) AS k (key, ctid)
      OFFSET 0
    ) i WHERE l.ctid = i.at AND l.session = $7 AND l.stamp = i.my_stamp
      AND l.key = i.key AND l.cell + 0 = i.cell AND l.topic + 0 = $1
    RETURNING i.n, i.state, ${returning}
  )`

const FINISH_TAKES = [
  TOPIC,
  param('cells', 'smallint[]', 'cell of each group'),
  param('keys', 'text[]', 'keys of each group, separated by \\x1e'),
  STAMPS,
  param('states', 'smallint[]', `of each group; ${DONE}: done, ${OBSOLETE}: obsolete`),
  param('sizes', 'integer[]', 'number of keys of each group'),
  SESSION,
  LOCK_TIMEOUT_MS,
  param('ctids', 'text[]', `ctid of each row, separated by '${CTID_SEPARATOR}'; NULL: not known`),
] as const

const FINISH_RETURNS =
  'One value: null if all tasks ended. Otherwise the tasks that ended, separated by \\x1e: number of the group, \\x1f, key.'

const WHAT_ENDED = `SELECT CASE WHEN (SELECT count(*) FROM removed) < (SELECT sum(size) FROM unnest($6::integer[]) AS s (size))
    THEN (SELECT coalesce(string_agg(n || E'\\x1f' || key, E'\\x1e'), '') FROM removed) END`

export const finish: Statement = {
  does:
    'Ends tasks as done or obsolete, which is the common case, for whole groups: one input row per group, not per task. Tasks ' +
    'as most are, of a group that is large enough, become one row of tocsin.ended_batch. Skips tasks whose claim is no longer ' +
    'held; settle handles those.',
  sentBy: 'FinishWrites.finish',
  takes: [
    ...FINISH_TAKES,
    param('batch_min', 'integer', 'smallest group that becomes a batch; NULL: none does'),
  ],
  returns: FINISH_RETURNS,
  text: `WITH ${t({ lockTimeoutMs: '$8' })},
  ${removed(`i.size >= $10::integer AND ${IS_PLAIN} AS is_batched, ${prefixed('l', CARRIED)}, l.failures, l.error`)},
  batched AS (
    INSERT INTO tocsin.ended_batch
      (topic, cell, state, ended_ms, count, due_from_ms, due_to_ms, hashes, keys, generations, dues_ms, created_ms, bodies)
    SELECT $1, cell, state, (SELECT now_ms FROM t), count(*), min(due_ms), max(due_ms), ${HASHES}, ${texts('key')},
      array_agg(generation), array_agg(due_ms), array_agg(created_ms), ${texts('body')}
    FROM removed WHERE is_batched GROUP BY n, cell, state
  ),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, ${CARRIED})
    SELECT state, (SELECT now_ms FROM t), failures, error, ${CARRIED} FROM removed WHERE is_batched IS NOT TRUE
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done, obsolete, claimed)
    SELECT $1, count(*) FILTER (WHERE state = ${DONE}), count(*) FILTER (WHERE state = ${OBSOLETE}), -count(*)
    FROM removed HAVING count(*) > 0
  )
  ${WHAT_ENDED}`,
}

export const finishUnkept: Statement = {
  does:
    'Like finish, for a topic that keeps no ended tasks: deletes the tasks, and counts them as ended and deleted. The dead task ' +
    'of their key stays superseded.',
  sentBy: 'FinishWrites.finish',
  takes: FINISH_TAKES,
  returns: FINISH_RETURNS,
  text: `WITH ${t({ lockTimeoutMs: '$8' })},
  ${removed('l.cell, l.key')},
  outranked AS (
    UPDATE tocsin.ended d SET outranked = true FROM removed r
    WHERE (SELECT true FROM tocsin.ended WHERE topic = $1 AND state = ${DEAD} LIMIT 1)
      AND d.topic = $1 AND d.cell = r.cell AND d.key = r.key AND d.state = ${DEAD} AND NOT d.outranked
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done, done_swept, obsolete, obsolete_swept, claimed)
    SELECT $1, done, done, obsolete, obsolete, -(done + obsolete) FROM (
      SELECT count(*) FILTER (WHERE state = ${DONE}) AS done, count(*) FILTER (WHERE state = ${OBSOLETE}) AS obsolete FROM removed
    ) AS r WHERE done + obsolete > 0
  )
  ${WHAT_ENDED}`,
}

export const settle: Statement = {
  does: 'Settles claims with any outcome. Also handles the tasks that finish skipped.',
  sentBy: 'Writes.settle',
  takes: [
    ...TASKS,
    STAMPS,
    param('kinds', 'text[]', "'done', 'obsolete', 'dead', 'retry', 'snooze', 'return' or 'lost'"),
    param(
      'delays',
      'double precision[]',
      "milliseconds; for 'lost', a fraction from 0 to 1 of the maximum delay",
    ),
    param('errors', 'text[]'),
    param('causes', 'text[]', 'why a task is dead'),
    param('failed', 'boolean[]', "whether a 'dead' task counts one more failure"),
    SESSION,
    POISON_FORMAT,
  ],
  returns:
    "A row for each task: n, 'settled' | 'stale' | 'locked' (another transaction holds the row), the fate " +
    'of the task, ring_ms, failures, priority, lost.',
  text: `WITH ${t({})},
  ${input([
    { name: 'my_stamp', array: '$4::bigint[]' },
    { name: 'kind', array: '$5::text[]' },
    { name: 'delay', array: '$6::double precision[]' },
    { name: 'told', array: '$7::text[]' },
    { name: 'cause', array: '$8::text[]' },
    { name: 'failed', array: '$9::boolean[]' },
  ])},
  locked AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.kind, i.delay, i.told, i.cause, i.failed, i.now_ms,
      l.marked, l.started, l.lost, l.ring_ms, l.failures, l.priority, l.lease_ms
    ${eachRow('FOR UPDATE SKIP LOCKED')} WHERE l.session = $10 AND l.stamp = i.my_stamp
  ),
  judged AS MATERIALIZED (
    SELECT locked.*,
      CASE
        WHEN kind IN ('done', 'obsolete', 'dead') THEN kind
        WHEN kind = 'lost' AND lease_ms > now_ms THEN 'stale'
        WHEN marked THEN 'cancelled'
        WHEN kind = 'lost' AND started = ${STARTED_ALONE} AND lost >= ${LOSSES_OF_A_SUSPECT} THEN 'poison'
        ELSE kind
      END AS fate,
      CASE kind
        WHEN 'return' THEN ring_ms
        WHEN 'lost' THEN now_ms + ceil(delay * ${RESCUE_SPREAD_MS} * 2 ^ least(lost + 1, ${RESCUE_DOUBLINGS_MAX}))::bigint
        ELSE least(now_ms + delay::bigint, ${LAST_INSTANT_MS})
      END AS rings_ms,
      failures + CASE WHEN kind = 'retry' OR (kind = 'dead' AND failed) THEN 1 ELSE 0 END AS failed_times,
      CASE kind WHEN 'return' THEN lost WHEN 'lost' THEN lost + 1 ELSE 0 END AS losses
    FROM locked
  ),
  again AS (
    UPDATE tocsin.live l SET ring_ms = i.rings_ms, failures = i.failed_times, lost = i.losses,
      error = CASE i.kind WHEN 'retry' THEN i.told ELSE l.error END,
      updated_ms = CASE i.kind WHEN 'return' THEN l.updated_ms ELSE i.now_ms END,
      deliveries = l.deliveries - CASE i.kind WHEN 'return' THEN 1 ELSE 0 END, ${FREE}
    FROM judged i WHERE i.fate IN ('retry', 'snooze', 'return', 'lost') AND ${SAME}
  ),
  removed AS (
    DELETE FROM tocsin.live l USING judged i
    WHERE i.fate IN ('done', 'obsolete', 'cancelled', 'dead', 'poison') AND ${SAME}
    RETURNING l.*, i.fate, i.now_ms, i.failed_times, i.told, i.cause
  ),
  ${graves("fate IN ('dead', 'poison')")},
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, cause, ${CARRIED})
    SELECT CASE fate WHEN 'done' THEN ${DONE} WHEN 'obsolete' THEN ${OBSOLETE} WHEN 'cancelled' THEN ${CANCELLED}
        ELSE ${DEAD} END,
      now_ms, CASE fate WHEN 'dead' THEN failed_times ELSE failures END,
      CASE fate WHEN 'dead' THEN told WHEN 'poison' THEN format($11, lost + 1) ELSE error END,
      CASE fate WHEN 'dead' THEN cause WHEN 'poison' THEN 'poison' END, ${CARRIED}
    FROM removed WHERE ${GRAVES_EMPTIED}
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, claimed, done, obsolete, cancelled, dead, purged)
    SELECT $1, -count(*), count(*) FILTER (WHERE fate = 'done'), count(*) FILTER (WHERE fate = 'obsolete'),
      count(*) FILTER (WHERE fate = 'cancelled'),
      count(*) FILTER (WHERE fate IN ('dead', 'poison')) - (SELECT count(*) FROM graves), (SELECT count(*) FROM graves)
    FROM judged WHERE fate <> 'stale' HAVING count(*) > 0
  )
  SELECT n, CASE fate WHEN 'stale' THEN 'stale' ELSE 'settled' END AS answer, fate, rings_ms, failed_times, priority, losses
  FROM judged
  -- Tasks without a row in "judged": the claim is no longer valid, or another transaction has locked the row.
  UNION ALL SELECT i.n, CASE WHEN (
      SELECT l.session = $10 AND l.stamp = i.my_stamp FROM tocsin.live l WHERE ${SAME}
    ) THEN 'locked' ELSE 'stale' END, NULL, NULL, NULL, NULL, NULL
    FROM input i LEFT JOIN judged k ON k.n = i.n WHERE k.n IS NULL`,
}
