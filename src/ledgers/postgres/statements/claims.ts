/** The statements that claim tasks, record the start of a task, and extend leases. */
import { BATCH_BYTES_MAX } from '../../../lib/batch-max.ts'
import { LOSSES_OF_A_SUSPECT } from '../../../values/rescue.ts'
import { ALONE, CANCELLED, DEAD, priorityNumber, STARTED_ALONE } from '../../rows.ts'
import { TOO_LARGE } from '../sql-states.ts'
import {
  AT,
  CARRIED,
  CTID_SEPARATOR,
  eachRow,
  eachRowOfGroups,
  eachRowWhere,
  FREE,
  graves,
  GRAVES_EMPTIED,
  input,
  numbers,
  SAME,
  t,
  texts,
} from './fragments.ts'
import {
  IS_FAST,
  LEASES_MS,
  LOCK_TIMEOUT_MS,
  param,
  POISON_FORMAT,
  SESSION,
  STAMPS,
  type Statement,
  TASKS,
  TOPIC,
} from './statement.ts'

const NORMAL = priorityNumber('normal')
const RANG_MS = param('rang_ms', 'bigint[]', 'time of the clock by which each task rang')

const TAKES = [
  ...TASKS,
  STAMPS,
  LEASES_MS,
  RANG_MS,
  param('alone', 'boolean[]', 'true if the consumer runs no other task, as required for a suspect'),
  SESSION,
] as const

/** The columns of a claim call, which are the same for all of its tasks. */
const CALL_COLUMNS = [
  { name: 'my_stamp', array: '$4::bigint[]' },
  { name: 'trusted_ms', array: '$5::bigint[]' },
  { name: 'rang_ms', array: '$6::bigint[]' },
]
const CLAIM_COLUMNS = [...CALL_COLUMNS, { name: 'alone', array: '$7::boolean[]' }]

const TAKING = `session = $8, stamp = i.my_stamp, lease_ms = i.now_ms + i.trusted_ms, deliveries = l.deliveries + 1,
      started = CASE WHEN i.alone THEN ${ALONE} ELSE 0 END`
const TASK = `l.generation, l.body, l.due_ms, l.ring_ms, l.failures, l.deliveries,
      array_to_string(l.tags, E'\\n') AS tags, l.priority`

/** The size of a payload. PostgreSQL knows it without reading or unpacking the payload. */
const BYTES = 'octet_length(l.body) AS bytes'

/**
 * Returns an expression for the size of the payloads of the tasks before this one, in the order of the call. Once it has
 * reached the limit, the statement is full, and leaves the task as it is.
 */
const bytesBefore = (bytes: string): string =>
  `sum(${bytes}) OVER (ORDER BY i.n ROWS UNBOUNDED PRECEDING) - ${bytes} AS bytes_before`

/** The separator of the columns of one task in the list `others`. No column can contain this character. */
export const FIELD_SEPARATOR = '\x1f'

/** The columns of a task that are nearly always the same. They are returned only if one of them differs. */
const OTHER = `CASE WHEN l.ring_ms = l.due_ms AND l.failures = 0 AND l.deliveries = 1 AND l.priority = ${NORMAL} AND l.tags IS NULL
        THEN NULL ELSE concat_ws(E'\\x1f', l.key, l.ring_ms, l.failures, l.deliveries, l.priority, array_to_string(l.tags, E'\\n'))
      END`

export const claimGroups: Statement = {
  does:
    'Claims pending tasks that are due, for whole claim calls: one input row per call, not per task. Skips all other tasks ' +
    'and suspects; claim_any handles those. Fails, and claims nothing, if a row stays locked (55P03), or if the payloads ' +
    `exceed ${BATCH_BYTES_MAX} bytes (${TOO_LARGE}); claim handles those calls.`,
  sentBy: 'ClaimWrites.claim',
  takes: [
    TOPIC,
    param('cells', 'smallint[]', 'cell of each call'),
    param('keys', 'text[]', 'keys of each call, separated by \\x1e'),
    STAMPS,
    LEASES_MS,
    RANG_MS,
    SESSION,
    LOCK_TIMEOUT_MS,
    IS_FAST,
  ],
  returns:
    'A row for each call that claimed a task: n; keys (separated by \\x1e); generations, due_ms (by commas); others, for each task of which another column is unusual: key, ring_ms, failures, deliveries, priority, tags (by \\x1f); bodies; ctids, where the rows are now.',
  // A row is found by its key, and updated by its ctid without being locked before: that would write each row twice. So
  // the conditions are in the UPDATE, which checks them again if it waited for another transaction. The sum hides ring_ms
  // from the planner, which would take the index of ring times if it plans while the table is empty.
  text: `WITH ${t({ lockTimeoutMs: '$8', isFast: '$9' })},
  taken AS (
    UPDATE tocsin.live l SET session = $7, stamp = i.my_stamp, lease_ms = i.now_ms + i.trusted_ms,
      deliveries = l.deliveries + 1, started = 0
    FROM (
      SELECT g.n, g.my_stamp, g.trusted_ms, g.rang_ms, t.now_ms, l.at, l.part
      ${eachRowOfGroups(CALL_COLUMNS)}
    ) i
    WHERE ${AT} AND l.session IS NULL AND l.ring_ms + 0 <= i.rang_ms AND l.lost < ${LOSSES_OF_A_SUSPECT}
    RETURNING i.n, l.key, l.ctid, l.generation, l.due_ms, ${OTHER} AS other, l.body, ${BYTES}
  ),
  size AS MATERIALIZED (SELECT tocsin.fits(coalesce(sum(bytes), 0)::bigint, ${BATCH_BYTES_MAX}) AS fits FROM taken),
  told AS (
    SELECT n, count(*) AS count, ${texts('key')} AS keys, string_agg(ctid::text, '${CTID_SEPARATOR}') AS ctids,
      ${numbers('generation')} AS generations, ${numbers('due_ms')} AS dues_ms,
      ${texts('other')} AS others, ${texts('body')} AS bodies
    FROM taken WHERE (SELECT fits FROM size) GROUP BY n
  ),
  booked AS (INSERT INTO tocsin.tally (topic, claimed) SELECT $1, sum(count) FROM told HAVING count(*) > 0)
  SELECT n::integer, keys, generations, dues_ms, others, bodies, ctids FROM told`,
}

export const claim: Statement = {
  does:
    'Claims pending tasks that are due, which is the common case, until their payloads reach ' +
    `${BATCH_BYTES_MAX} bytes. Skips all other tasks, locked rows, and ` +
    'suspects that are not claimed alone; claim_any handles those.',
  sentBy: 'ClaimWrites.claim',
  takes: [...TAKES, IS_FAST],
  returns:
    'One row of lists, nulls if nothing was claimed: n, generation, due_ms, ring_ms, failures, deliveries, priority (separated by commas); tags, body (separated by \\x1e); left_out, n of the due tasks that no longer fit.',
  text: `WITH ${t({ isFast: '$9' })},
  found AS MATERIALIZED (
    SELECT i.n, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, l.at, l.part, ${bytesBefore('l.bytes')}
    ${eachRowWhere(
      CLAIM_COLUMNS,
      `l.session IS NULL AND l.ring_ms <= i.rang_ms AND (i.alone OR l.lost < ${LOSSES_OF_A_SUSPECT})`,
      'FOR UPDATE SKIP LOCKED',
      `, ${BYTES}`,
    )}
  ),
  taken AS (UPDATE tocsin.live l SET ${TAKING} FROM found i
    WHERE i.bytes_before < ${BATCH_BYTES_MAX} AND ${AT} RETURNING i.n, ${TASK}),
  booked AS (INSERT INTO tocsin.tally (topic, claimed) SELECT $1, count(*) FROM taken HAVING count(*) > 0)
  SELECT ${['n', 'generation', 'due_ms', 'ring_ms', 'failures', 'deliveries', 'priority'].map(numbers).join(', ')},
    ${texts("coalesce(tags, '')")}, ${texts('body')},
    (SELECT ${numbers('n')} FROM found WHERE bytes_before >= ${BATCH_BYTES_MAX}) AS left_out FROM taken`,
}

export const claimAny: Statement = {
  does:
    'Handles the tasks that claim skipped, and returns a verdict for each task. If the lease of a task ' +
    'has expired, claims the task, ends it if it was cancelled in flight, makes it dead if it is poison, ' +
    'or makes it pending if it must be claimed alone. Claims no more tasks when their payloads have reached ' +
    `${BATCH_BYTES_MAX} bytes.`,
  sentBy: 'ClaimWrites.claim',
  takes: [...TAKES, POISON_FORMAT],
  returns:
    "A row for each task: n, verdict; if 'ours', the task; otherwise ring_ms, failures, priority, lost, milliseconds to the end of its lease.",
  text: `WITH ${t({})}, ${input(CLAIM_COLUMNS)},
  found AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, l.ring_ms, l.failures, l.priority, l.lost,
      l.lease_ms, l.session IS NOT NULL AS was_claimed, ${BYTES},
      CASE
        WHEN l.session IS NULL AND l.ring_ms > i.rang_ms THEN 'later'
        WHEN l.session IS NULL AND l.lost >= ${LOSSES_OF_A_SUSPECT} AND NOT i.alone THEN 'suspect'
        WHEN l.session IS NULL THEN 'take'
        WHEN l.lease_ms > i.now_ms AND l.session = $8 AND l.stamp = i.my_stamp THEN 'mine'
        WHEN l.lease_ms > i.now_ms THEN 'held'
        WHEN l.marked THEN 'cancelled'
        -- A task is poison only if its start was recorded while it ran alone, and this is at least its third lost
        -- lease in a row.
        WHEN l.started = ${STARTED_ALONE} AND l.lost >= ${LOSSES_OF_A_SUSPECT} THEN 'poison'
        WHEN l.lost + 1 >= ${LOSSES_OF_A_SUSPECT} AND NOT i.alone THEN 'release'
        ELSE 'retake'
      END AS verdict
    ${eachRow('FOR UPDATE SKIP LOCKED')}
  ),
  locked AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, i.ring_ms, i.failures, i.priority, i.lost,
      i.lease_ms, i.was_claimed,
      CASE WHEN i.verdict IN ('take', 'retake') AND i.bytes_before >= ${BATCH_BYTES_MAX} THEN 'full' ELSE i.verdict END
        AS verdict
    FROM (
      SELECT i.*, ${bytesBefore("CASE WHEN i.verdict IN ('take', 'retake') THEN i.bytes ELSE 0 END")} FROM found i
    ) i
  ),
  taken AS (
    UPDATE tocsin.live l SET ${TAKING}, lost = l.lost + CASE WHEN i.was_claimed THEN 1 ELSE 0 END
    FROM locked i WHERE i.verdict IN ('take', 'retake') AND ${SAME} RETURNING i.n, ${TASK}
  ),
  released AS (
    UPDATE tocsin.live l SET lost = l.lost + 1, ${FREE} FROM locked i WHERE i.verdict = 'release' AND ${SAME}
  ),
  removed AS (
    DELETE FROM tocsin.live l USING locked i WHERE i.verdict IN ('cancelled', 'poison') AND ${SAME}
    RETURNING l.*, i.verdict, i.now_ms
  ),
  ${graves("verdict = 'poison'")},
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, cause, ${CARRIED})
    SELECT CASE verdict WHEN 'poison' THEN ${DEAD} ELSE ${CANCELLED} END, now_ms, failures,
      CASE verdict WHEN 'poison' THEN format($9, lost + 1) ELSE error END,
      CASE verdict WHEN 'poison' THEN 'poison' END, ${CARRIED} FROM removed WHERE ${GRAVES_EMPTIED}
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, claimed, cancelled, dead, purged)
    SELECT $1, count(*) FILTER (WHERE verdict = 'take') - count(*) FILTER (WHERE verdict IN ('release', 'cancelled', 'poison')),
      count(*) FILTER (WHERE verdict = 'cancelled'),
      count(*) FILTER (WHERE verdict = 'poison') - (SELECT count(*) FROM graves), (SELECT count(*) FROM graves)
    FROM locked HAVING count(*) FILTER (WHERE verdict IN ('take', 'release', 'cancelled', 'poison')) > 0
  )
  SELECT n, 'ours' AS verdict, generation, body, due_ms, ring_ms, failures, deliveries, tags, priority,
    NULL::integer AS lost, NULL::bigint AS ends_in_ms FROM taken
  UNION ALL SELECT i.n, 'ours', ${TASK}, NULL, NULL FROM locked i JOIN tocsin.live l ON ${SAME} WHERE i.verdict = 'mine'
  UNION ALL SELECT n, verdict, NULL, NULL, NULL, ring_ms, failures, NULL, NULL, priority, lost, lease_ms - now_ms
    FROM locked WHERE verdict NOT IN ('take', 'retake', 'mine')
  -- A task without a row in "locked" does not exist, or another transaction has locked its row. The subquery looks it
  -- up by primary key.
  UNION ALL SELECT i.n, coalesce((SELECT 'locked' FROM tocsin.live l WHERE ${SAME}), 'gone'),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM input i LEFT JOIN locked k ON k.n = i.n WHERE k.n IS NULL`,
}

const HELD_BY_ME = 'l.topic = $1 AND l.cell = $2 AND l.key = $3 AND l.stamp = $4 AND l.session = $5'

export const begin: Statement = {
  does: 'Records that the handler of a suspect starts.',
  sentBy: 'Writes.begin',
  takes: [TOPIC, param('cell', 'smallint'), param('key', 'text'), param('stamp', 'bigint'), SESSION],
  returns:
    "One row: 'begun', or 'locked' if another transaction has locked the row. None if the claim is no longer held.",
  text: `WITH mine AS (
    SELECT l.cell, l.key FROM tocsin.live l WHERE ${HELD_BY_ME} FOR UPDATE SKIP LOCKED
  ),
  begun AS (
    UPDATE tocsin.live l SET started = CASE WHEN started = ${ALONE} THEN ${STARTED_ALONE} ELSE started END
    FROM mine m WHERE l.topic = $1 AND l.cell = m.cell AND l.key = m.key RETURNING 1
  )
  SELECT 'begun' FROM begun
  UNION ALL SELECT 'locked' FROM tocsin.live l WHERE ${HELD_BY_ME} AND NOT EXISTS (SELECT 1 FROM mine)`,
}

export const extend: Statement = {
  does: 'Extends the leases of claims that are still held.',
  sentBy: 'Writes.extend',
  takes: [...TASKS, STAMPS, LEASES_MS, SESSION],
  returns:
    "A row for each task that is still held: key, 'extended' or 'locked' (another transaction has locked the row).",
  text: `WITH ${t({})},
  ${input([
    { name: 'my_stamp', array: '$4::bigint[]' },
    { name: 'trusted_ms', array: '$5::bigint[]' },
  ])},
  locked AS MATERIALIZED (
    SELECT i.* ${eachRow('FOR UPDATE SKIP LOCKED')} WHERE l.session = $6 AND l.stamp = i.my_stamp
  ),
  extended AS (
    UPDATE tocsin.live l SET lease_ms = i.now_ms + i.trusted_ms FROM locked i WHERE ${SAME} RETURNING l.cell, l.key
  )
  SELECT key, 'extended' FROM extended
  UNION ALL SELECT i.key, 'locked' FROM input i LEFT JOIN extended e ON e.cell = i.cell AND e.key = i.key
    WHERE e.key IS NULL
      AND (SELECT l.session = $6 AND l.stamp = i.my_stamp FROM tocsin.live l WHERE ${SAME})`,
}
