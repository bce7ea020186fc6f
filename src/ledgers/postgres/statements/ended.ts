/** The statements for ended tasks. They replay and purge dead tasks, and delete old tasks. */
import { CANCELLED, DEAD, DONE, OBSOLETE } from '../../rows.ts'
import { IN_ORDER, inTime, input, newer, notifyIfNear, superseded, t } from './fragments.ts'
import {
  LIMIT,
  LOCK_TIMEOUT_MS,
  NOT_AFTER_MS,
  NOTIFY_WITHIN_MS,
  param,
  type Statement,
  TASKS,
  TOPIC,
  TOPIC_NAME,
} from './statement.ts'

export const replay: Statement = {
  does:
    'Makes dead tasks live again, due now, unless their key has a live task. Optionally leaves tasks dead ' +
    'that a newer task of their key superseded. A task that lives again is the newest of its key.',
  sentBy: 'Writes.replay',
  takes: [
    ...TASKS,
    LOCK_TIMEOUT_MS,
    NOTIFY_WITHIN_MS,
    TOPIC_NAME,
    NOT_AFTER_MS,
    param('only_newest', 'boolean', 'leave superseded tasks dead'),
  ],
  returns:
    'A row for each dead task: key, whether it lives again, ring_ms, priority, whether its key has a live task.',
  text: `WITH ${t({ lockTimeoutMs: '$4' })}, ${input()},
  graves AS MATERIALIZED (
    SELECT e.*, i.now_ms, $8::boolean AND ${superseded('e')} AS is_passed_over FROM input i JOIN tocsin.ended e
      ON e.topic = $1 AND e.cell = i.cell AND e.key = i.key AND e.state = ${DEAD}
    ${IN_ORDER} FOR UPDATE OF e
  ),
  revived AS (
    INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, deliveries, created_ms, updated_ms, tags, body)
    SELECT topic, cell, key, generation, now_ms, now_ms, priority, deliveries, created_ms, now_ms, tags, body
    FROM graves WHERE NOT is_passed_over
    -- This statement does not see a newer task that ended after the statement began. The function does, and fails: the
    -- caller then sends the statement again.
    ON CONFLICT (topic, cell, key) DO NOTHING RETURNING l.cell, l.key,
      CASE WHEN $8::boolean THEN (
        SELECT tocsin.check_newest(g.topic, g.cell, g.key, g.generation, g.ended_ms) FROM graves g
        WHERE g.cell = l.cell AND g.key = l.key) END
  ),
  emptied AS (
    DELETE FROM tocsin.ended e USING revived r
    WHERE e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = ${DEAD}
  ),
  -- The other tasks of the key that ended. A row that is locked is being deleted.
  others AS MATERIALIZED (
    SELECT o.cell, o.key, o.generation FROM graves g JOIN tocsin.ended o
      ON o.topic = $1 AND o.cell = g.cell AND o.key = g.key AND o.generation <> g.generation AND NOT o.outranked
    FOR UPDATE OF o SKIP LOCKED
  ),
  outranked AS (
    UPDATE tocsin.ended e SET outranked = true FROM others o JOIN revived r ON r.cell = o.cell AND r.key = o.key
    WHERE e.topic = $1 AND e.cell = o.cell AND e.key = o.key AND e.generation = o.generation
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead) SELECT $1, -count(*) FROM revived HAVING count(*) > 0)
  SELECT g.key, r.key IS NOT NULL, g.now_ms, g.priority, NOT g.is_passed_over OR coalesce(
      (SELECT true FROM tocsin.live l WHERE l.topic = $1 AND l.cell = g.cell AND l.key = g.key LIMIT 1), false),
    ${notifyIfNear('SELECT min(t.now_ms) FROM revived, t', '$5::bigint', '$6')}
  FROM graves g LEFT JOIN revived r ON r.cell = g.cell AND r.key = g.key
  WHERE ${inTime('$7', 'revived')}`,
}

export const purge: Statement = {
  does: 'Deletes dead tasks.',
  sentBy: 'Writes.purge',
  takes: [...TASKS, LOCK_TIMEOUT_MS, NOT_AFTER_MS],
  returns: 'A row for each task that was deleted: key.',
  text: `WITH ${t({ lockTimeoutMs: '$4' })}, ${input()},
  emptied AS (
    DELETE FROM tocsin.ended e USING input i
    WHERE e.topic = $1 AND e.cell = i.cell AND e.key = i.key AND e.state = ${DEAD} RETURNING e.key
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead, purged) SELECT $1, -count(*), count(*) FROM emptied HAVING count(*) > 0)
  SELECT key FROM emptied WHERE ${inTime('$5', 'emptied')}`,
}

export const forgetEnded: Statement = {
  does: 'Deletes tasks that ended long ago, except for dead ones.',
  sentBy: 'PostgresLedger.forget',
  takes: [TOPIC, param('ended_before_ms', 'bigint'), LIMIT],
  returns: 'One row: how many.',
  text: `WITH old AS (
    SELECT e.cell, e.key, e.generation FROM tocsin.ended e
    WHERE e.topic = $1 AND e.state IN (${DONE}, ${CANCELLED}, ${OBSOLETE}) AND e.ended_ms < $2
    LIMIT $3 FOR UPDATE SKIP LOCKED
  ),
  swept AS (
    DELETE FROM tocsin.ended e USING old o
    WHERE e.topic = $1 AND e.cell = o.cell AND e.key = o.key AND e.generation = o.generation
    RETURNING e.state, e.cell, e.key, e.generation, e.ended_ms, e.outranked
  ),
  -- The dead tasks that these superseded stay superseded.
  outranked AS (
    UPDATE tocsin.ended d SET outranked = true FROM swept s
    WHERE d.topic = $1 AND d.cell = s.cell AND d.key = s.key AND d.state = ${DEAD} AND ${newer('s', 'd')}
      AND NOT s.outranked AND NOT d.outranked
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done_swept, cancelled_swept, obsolete_swept)
    SELECT $1, count(*) FILTER (WHERE state = ${DONE}), count(*) FILTER (WHERE state = ${CANCELLED}),
      count(*) FILTER (WHERE state = ${OBSOLETE}) FROM swept HAVING count(*) > 0
  )
  SELECT count(*) FROM swept`,
}

export const forgetBatches: Statement = {
  does: 'Deletes the oldest batches of ended tasks, until the limit is reached. Whole batches only, so it may exceed the limit.',
  sentBy: 'PostgresLedger.forget',
  takes: [TOPIC, param('ended_before_ms', 'bigint'), LIMIT],
  returns: 'One row: how many tasks.',
  text: `WITH old AS MATERIALIZED (
    SELECT o.cell, o.id FROM (
      SELECT b.cell, b.id, sum(b.count) OVER (ROWS UNBOUNDED PRECEDING) - b.count AS before FROM (
        SELECT cell, id, count FROM tocsin.ended_batch
        WHERE topic = $1 AND state IN (${DONE}, ${OBSOLETE}) AND ended_ms < $2 LIMIT $3::bigint
      ) b
    ) o WHERE o.before < $3::bigint
  ),
  locked AS MATERIALIZED (
    SELECT b.cell, b.id FROM old o CROSS JOIN LATERAL (
      SELECT b.cell, b.id FROM tocsin.ended_batch b WHERE b.cell = o.cell AND b.id = o.id FOR UPDATE SKIP LOCKED
    ) b
  ),
  swept AS (
    DELETE FROM tocsin.ended_batch b USING locked o WHERE b.cell = o.cell AND b.id = o.id
    RETURNING b.state, b.count
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done_swept, obsolete_swept)
    SELECT $1, coalesce(sum(count) FILTER (WHERE state = ${DONE}), 0), coalesce(sum(count) FILTER (WHERE state = ${OBSOLETE}), 0)
    FROM swept HAVING count(*) > 0
  )
  SELECT coalesce(sum(count), 0)::bigint FROM swept`,
}

export const forgetDead: Statement = {
  does: 'Deletes the oldest dead tasks: those that died before dead_before_ms, and those that exceed dead_max.',
  sentBy: 'PostgresLedger.forget',
  takes: [TOPIC, param('dead_before_ms', 'bigint'), param('dead_max', 'bigint', 'how many are kept'), LIMIT],
  returns: 'One row: how many.',
  text: `WITH held AS (SELECT coalesce(sum(dead), 0) AS dead FROM tocsin.tally WHERE topic = $1),
  oldest AS (
    SELECT e.cell, e.key, e.generation, e.ended_ms, row_number() OVER (ORDER BY e.ended_ms) AS n
    FROM (SELECT * FROM tocsin.ended WHERE topic = $1 AND state = ${DEAD} ORDER BY ended_ms LIMIT $4) AS e
  ),
  emptied AS (
    DELETE FROM tocsin.ended e USING oldest o, held h
    WHERE e.topic = $1 AND e.cell = o.cell AND e.key = o.key AND e.generation = o.generation AND e.state = ${DEAD}
      AND (o.ended_ms < $2 OR o.n <= h.dead - $3::bigint) RETURNING 1
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead, purged) SELECT $1, -count(*), count(*) FROM emptied HAVING count(*) > 0)
  SELECT count(*) FROM emptied`,
}
