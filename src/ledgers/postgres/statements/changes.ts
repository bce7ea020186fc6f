/** The statements that cancel and reschedule tasks, many tasks in one statement. */
import { CANCELLED, DEAD } from '../../rows.ts'
import { CARRIED, eachRow, FREE, inTime, input, IS_HELD, notifyIfNear, ringAt, SAME, t } from './fragments.ts'
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

const CANCEL = {
  takes: [...TASKS, LOCK_TIMEOUT_MS, TRANSACTION_ID, NOT_AFTER_MS],
  returns: 'A row for each live task: key, whether it is in flight.',
} as const

/** `history` has the CTEs that keep the tasks in `removed`, or mark that they ended. `swept` is how many are not kept. */
const cancelText = (
  history: string,
  swept: string,
): string => `WITH ${t({ lockTimeoutMs: '$4', transactionId: '$5' })}, ${input()},
  locked AS MATERIALIZED (
    SELECT i.cell, i.key, ${IS_HELD} AS is_held, l.session IS NOT NULL AS was_claimed
    ${eachRow('FOR UPDATE')}
  ),
  marked AS (
    UPDATE tocsin.live l SET marked = true FROM locked i WHERE i.is_held AND NOT l.marked AND ${SAME}
  ),
  removed AS (DELETE FROM tocsin.live l USING locked i WHERE NOT i.is_held AND ${SAME} RETURNING l.*),
  ${history},
  booked AS (
    INSERT INTO tocsin.tally (topic, cancelled, cancelled_swept, claimed)
    SELECT $1, count(*), ${swept}, -count(*) FILTER (WHERE was_claimed) FROM locked WHERE NOT is_held HAVING count(*) > 0
  )
  SELECT key, is_held FROM locked WHERE ${inTime('$6', 'locked')}`

export const cancel: Statement = {
  does:
    'Cancels tasks. A task that is held is only marked: its current attempt may finish, but no further ' +
    'attempt follows.',
  sentBy: 'Writes.cancel, tocsin.cancel()',
  ...CANCEL,
  text: cancelText(
    `ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, ${CARRIED})
    SELECT ${CANCELLED}, t.now_ms, failures, error, ${CARRIED} FROM removed, t
  )`,
    '0',
  ),
}

export const cancelUnkept: Statement = {
  does:
    'Like cancel, for a topic that keeps no ended tasks. The dead task of a key stays superseded. Not for transactions of callers: ' +
    'it needs more privileges.',
  sentBy: 'Writes.cancel',
  ...CANCEL,
  text: cancelText(
    `outranked AS (
    UPDATE tocsin.ended d SET outranked = true FROM removed r
    WHERE d.topic = $1 AND d.cell = r.cell AND d.key = r.key AND d.state = ${DEAD} AND NOT d.outranked
  )`,
    'count(*)',
  ),
}

export const reschedule: Statement = {
  does:
    'Moves tasks to another time. If a task was cancelled in flight and its lease has expired, ends it as ' +
    'cancelled.',
  sentBy: 'Writes.reschedule, tocsin.reschedule()',
  takes: [
    ...TASKS,
    param('kind', 'text', "'at', 'delay', or 'shift' (from the time at which it rings now)"),
    param('ms', 'bigint', 'instant, delay or shift'),
    MERGE_MS,
    LOCK_TIMEOUT_MS,
    TRANSACTION_ID,
    NOTIFY_WITHIN_MS,
    TOPIC_NAME,
    NOT_AFTER_MS,
  ],
  returns: "A row for each live task: key, 'rescheduled' | 'in-flight' | 'not-found', due_ms, priority.",
  text: `WITH ${t({ lockTimeoutMs: '$7', transactionId: '$8' })}, ${input()},
  locked AS MATERIALIZED (
    SELECT i.cell, i.key, i.now_ms, l.priority, l.session IS NOT NULL AS was_claimed,
      CASE WHEN ${IS_HELD} THEN 'in-flight' WHEN l.marked THEN 'not-found' ELSE 'rescheduled' END AS outcome,
      CASE $4 WHEN 'at' THEN $5::bigint WHEN 'delay' THEN i.now_ms + $5::bigint ELSE l.ring_ms + $5::bigint END AS wanted
    ${eachRow('FOR UPDATE')}
  ),
  judged AS MATERIALIZED (SELECT locked.*, ${ringAt('wanted', '$6::bigint')} AS due_ms FROM locked),
  moved AS (
    UPDATE tocsin.live l SET due_ms = i.due_ms, ring_ms = i.due_ms, updated_ms = i.now_ms, failures = 0, lost = 0, ${FREE}
    FROM judged i WHERE i.outcome = 'rescheduled' AND ${SAME}
  ),
  removed AS (DELETE FROM tocsin.live l USING judged i WHERE i.outcome = 'not-found' AND ${SAME} RETURNING l.*),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, ${CARRIED})
    SELECT ${CANCELLED}, t.now_ms, failures, error, ${CARRIED} FROM removed, t
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, cancelled, claimed)
    SELECT $1, count(*) FILTER (WHERE outcome = 'not-found'), -count(*) FILTER (WHERE was_claimed)
    FROM judged WHERE outcome <> 'in-flight' HAVING count(*) FILTER (WHERE was_claimed OR outcome = 'not-found') > 0
  )
  SELECT key, outcome, due_ms::float8 AS due_ms, priority,
    ${notifyIfNear("SELECT min(due_ms) FROM judged WHERE outcome = 'rescheduled'", '$9::bigint', '$10')} AS told FROM judged
  WHERE ${inTime('$11', 'judged')}`,
}
