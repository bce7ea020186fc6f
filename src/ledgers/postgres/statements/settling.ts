/** The statements that settle tasks, many tasks in one statement. */
import { LAST_INSTANT_MS } from '../../../values/instant.ts'
import { LOSSES_OF_A_SUSPECT, RESCUE_DOUBLINGS_MAX, RESCUE_SPREAD_MS } from '../../../values/rescue.ts'
import { CANCELLED, DEAD, DONE, OBSOLETE, STARTED_ALONE } from '../../rows.ts'
import {
  AT,
  CARRIED,
  eachRow,
  eachRowWhere,
  FREE,
  graves,
  GRAVES_EMPTIED,
  input,
  numbers,
  prefixed,
  SAME,
  t,
} from './fragments.ts'
import { LOCK_TIMEOUT_MS, param, POISON_FORMAT, SESSION, STAMPS, type Statement, TASKS } from './statement.ts'

export const finish: Statement = {
  does:
    'Ends tasks as done or obsolete, which is the common case. Skips tasks whose claim is no longer held, ' +
    'or whose row has changed meanwhile; settle handles those.',
  sentBy: 'Writes.settle',
  takes: [
    ...TASKS,
    STAMPS,
    param('states', 'smallint[]', `${DONE}: done, ${OBSOLETE}: obsolete`),
    SESSION,
    LOCK_TIMEOUT_MS,
  ],
  returns:
    'One value: null if all tasks ended. Otherwise the numbers (n) of the tasks that ended, separated by commas.',
  text: `WITH ${t({ lockTimeoutMs: '$7' })},
  removed AS (
    DELETE FROM tocsin.live l USING (
      SELECT i.n, i.now_ms, i.state, l.at, l.part
      ${eachRowWhere(
        [
          { name: 'my_stamp', array: '$4::bigint[]' },
          { name: 'state', array: '$5::smallint[]' },
        ],
        'l.session = $6 AND l.stamp = i.my_stamp',
        // FOR UPDATE locks the row before the DELETE. If the DELETE itself waited for the lock, another transaction
        // could give the row a new ctid meanwhile, and not every version of PostgreSQL then checks the row again in a
        // DELETE by ctid. SKIP LOCKED is not used, so that a settlement waits for a short lock.
        'FOR UPDATE',
      )}
    ) i WHERE ${AT} RETURNING ${prefixed('l', CARRIED)}, l.failures, l.error, i.state, i.now_ms, i.n
  ),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, ${CARRIED})
    SELECT state, now_ms, failures, error, ${CARRIED} FROM removed
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done, obsolete, claimed)
    SELECT $1, count(*) FILTER (WHERE state = ${DONE}), count(*) FILTER (WHERE state = ${OBSOLETE}), -count(*)
    FROM removed HAVING count(*) > 0
  )
  SELECT CASE WHEN count(*) < cardinality($2::smallint[]) THEN coalesce(${numbers('n')}, '') END FROM removed`,
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
