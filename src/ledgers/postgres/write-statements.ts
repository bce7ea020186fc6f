/**
 * What writes.ts says to PostgreSQL: every transition of task.ts's drawing, for many tasks in one statement, which is
 * one round trip and one commit. Rows are locked in one order (cell, key), so that no two statements wait for each
 * other. `$1` is the topic's id; what follows are arrays, one element per task.
 *
 * Each statement reads its clock once, in `t`, which also sets the conditions of the statement. The lock timeout is how
 * long it waits for row locks: a caller's open transaction may hold some. The transaction id is that of the caller's
 * transaction in which it must run: a caller that does not await the answer may have ended that one before the statement
 * arrives, and begun another. Statements that run in a caller's transaction return only columns that every driver parses
 * alike: texts, booleans, and numbers other than bigint.
 */
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import { LOSSES_OF_A_SUSPECT, RESCUE_DOUBLINGS_MAX, RESCUE_SPREAD_MS } from '../../values/rescue.ts'
import { ALONE, CANCELLED, DEAD, DONE, OBSOLETE, STARTED_ALONE } from '../rows.ts'

interface Terms {
  /** Parameter: how long the statement waits for row locks, in milliseconds. NULL: as the connection is set. */
  readonly lockTimeoutMs?: string
  /** Parameter: id of the transaction in which it must run; in another one `t` is empty, and nothing happens. NULL: any. */
  readonly transactionId?: string
  /** More columns. */
  readonly also?: string
}

/** Every use of a parameter has its own cast: some drivers send one parameter for each use. */
const t = ({ lockTimeoutMs, transactionId, also = '' }: Terms): string => {
  const lockTimeout =
    lockTimeoutMs === undefined
      ? ''
      : `,
      CASE WHEN ${lockTimeoutMs}::integer IS NOT NULL
        THEN set_config('lock_timeout', ${lockTimeoutMs}::integer::text, true) END AS lock_timeout`
  const condition =
    transactionId === undefined
      ? ''
      : `
    WHERE ${transactionId}::text IS NULL OR ${transactionId}::text = pg_current_xact_id()::text`
  return `t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms${also}${lockTimeout}${condition}
  )`
}

interface Column {
  readonly name: string
  readonly array: string
}

const asked = (more: readonly Column[]): string => `
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[]${more.map(({ array }) => `, ${array}`).join('')})
      WITH ORDINALITY AS i (cell, key${more.map(({ name }) => `, ${name}`).join('')}, n)`

const places = (more: readonly Column[] = []): string => `input AS MATERIALIZED (${asked(more)}
  )`

const SAME = 'l.topic = $1 AND l.cell = i.cell AND l.key = i.key'
/**
 * Each row by its primary key, in order. A plain join lets the planner read the whole table, where it takes it for small
 * or believes that hardly any row is claimed.
 */
const eachRow = (lock: string): string => `FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE ${SAME} ${lock}) l`
const IN_ORDER = 'ORDER BY i.cell, i.key'

/**
 * The same where nearly every row is as it should be: only where it lies, which is then its shortest name. One that
 * somebody changes at this moment lies elsewhere when it is written to; it is left, and told of as not found.
 */
const eachAsItShouldBe = (
  more: readonly Column[],
  condition: string,
  lock: string,
): string => `FROM (SELECT * FROM (${asked(more)}) i ${IN_ORDER}) i
    CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.tableoid AS part FROM tocsin.live l WHERE ${SAME} AND ${condition} ${lock}
    ) l`
/**
 * Where it lies, and in which part of a divided table. Nothing else: on a table that was empty when this was planned, the
 * planner takes any other condition for a better way, and reads the whole topic for each row once it is full.
 */
const AT = 'l.ctid = i.at AND l.tableoid = i.part'
const FREE = 'session = NULL, stamp = NULL, lease_ms = NULL, started = 0'
const IS_HELD = '(l.session IS NOT NULL AND l.lease_ms > i.now_ms)'
const CARRIED = 'topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body'
const prefixed = (table: string, columns: string): string => columns.replaceAll(/\w+/g, `${table}.$&`)

/** When something asked for as `kind` and `ms` rings. As ringMsAt of ring-time.ts has it. */
const ringAt = (wanted: string, quantum: string): string => `least(greatest(
      CASE WHEN ${quantum} > 0 THEN ((${wanted}) + ${quantum} - 1) / ${quantum} * ${quantum} ELSE ${wanted} END,
    0), ${LAST_INSTANT_MS})`

/** Somebody who only listens to the ledger is told of what rings soon. */
const tell = (soonest: string, withinMs: string, topicName: string): string =>
  `(SELECT pg_notify('tocsin', ${topicName})::text FROM t
    WHERE ${withinMs} > 0 AND (${soonest}) <= t.now_ms + ${withinMs})`

/** $4 ms, $5 whether it is a delay, $6 priority, $7 tags in lines, $8 body; $9 quantum. */
const NEW_TASKS = `
    SELECT i.*, ${ringAt('wanted', '$9::bigint')} AS due_ms FROM (
      SELECT i.*, t.now_ms, t.base + i.n AS generation, CASE WHEN i.is_delay THEN t.now_ms + i.ms ELSE i.ms END AS wanted
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::boolean[], $6::smallint[], $7::text[], $8::text[])
        WITH ORDINALITY AS i (cell, key, ms, is_delay, priority, tags, body, n)
    ) i`

/** $10 lock timeout, $11 transaction id, $12 notify within ms, $13 the topic's name, $14 whether all keys are expected to be new. */
const SCHEDULE_T = t({
  lockTimeoutMs: '$10',
  transactionId: '$11',
  also: ", nextval('tocsin.generation') AS base, $14::boolean AS expects_new",
})

const inserted = (input: string): string => `INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, tags, body)
    SELECT $1::integer, cell, key, generation, due_ms, due_ms, priority, now_ms, now_ms,
      string_to_array(tags, E'\\n'), body
    FROM ${input} i ${IN_ORDER}`

/** All of the keys are new, or it fails and nothing was done. To look for each key first is a quarter of the work. */
const scheduleNew = `WITH ${SCHEDULE_T},
  written AS (${inserted(`(${NEW_TASKS})`)} RETURNING l.due_ms),
  booked AS (INSERT INTO tocsin.tally (topic, scheduled) SELECT $1, count(*) FROM written)
  SELECT t.now_ms::float8 AS now_ms, NULL::text AS superseded, NULL::text AS written, NULL::text AS kept,
    ${tell('SELECT min(due_ms) FROM written', '$12::bigint', '$13')} AS told
  FROM t WHERE (SELECT count(*) FROM written) > 0`

/** Answers now; what was superseded: key, how; and with 'keep' what was written and kept: as JSON. */
const schedule = (keep: boolean): string => `WITH ${SCHEDULE_T},
  input AS MATERIALIZED (${NEW_TASKS}),
  written AS (
    ${inserted('input')}
    ON CONFLICT (topic, cell, key) DO UPDATE SET
      supersedes = CASE WHEN l.session IS NULL THEN 1 WHEN l.lease_ms <= excluded.updated_ms THEN 2 ELSE 3 END,
      generation = excluded.generation, due_ms = excluded.due_ms, ring_ms = excluded.ring_ms,
      priority = excluded.priority, created_ms = excluded.created_ms, updated_ms = excluded.updated_ms,
      tags = excluded.tags, body = excluded.body, error = NULL, failures = 0, lost = 0, deliveries = 0,
      marked = false, ${FREE}
    -- A task that was cancelled in flight has no further attempt: there is nothing left to keep.
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
    ${tell('SELECT min(due_ms) FROM input', '$12::bigint', '$13')} AS told
  FROM t`

/** $4 lock timeout, $5 transaction id. Answers, for each that there was, its key and whether it is in flight. */
const cancel = `WITH ${t({ lockTimeoutMs: '$4', transactionId: '$5' })}, ${places()},
  locked AS MATERIALIZED (
    SELECT i.cell, i.key, ${IS_HELD} AS is_held, l.session IS NOT NULL AS was_claimed
    ${eachRow('FOR UPDATE')}
  ),
  marked AS (
    UPDATE tocsin.live l SET marked = true FROM locked i WHERE i.is_held AND NOT l.marked AND ${SAME}
  ),
  removed AS (DELETE FROM tocsin.live l USING locked i WHERE NOT i.is_held AND ${SAME} RETURNING l.*),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, ${CARRIED})
    SELECT ${CANCELLED}, t.now_ms, failures, error, ${CARRIED} FROM removed, t
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, cancelled, claimed)
    SELECT $1, count(*), -count(*) FILTER (WHERE was_claimed) FROM locked WHERE NOT is_held HAVING count(*) > 0
  )
  SELECT key, is_held FROM locked`

/**
 * $4 'at', 'delay' or 'shift', $5 ms, $6 quantum, $7 lock timeout, $8 transaction id, $9 notify within ms, $10 the topic's
 * name. Answers, for each that there was: key, what became of it, due time, priority.
 */
const reschedule = `WITH ${t({ lockTimeoutMs: '$7', transactionId: '$8' })}, ${places()},
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
    ${tell("SELECT min(due_ms) FROM judged WHERE outcome = 'rescheduled'", '$9::bigint', '$10')} AS told FROM judged`

/** True, and asked before anything is buried: a key has one grave. */
const GRAVES_EMPTIED = '(SELECT count(*) FROM graves) >= 0'

const CLAIM_COLUMNS = [
  { name: 'my_stamp', array: '$4::bigint[]' },
  { name: 'trusted_ms', array: '$5::bigint[]' },
  { name: 'rang_ms', array: '$6::bigint[]' },
  { name: 'alone', array: '$7::boolean[]' },
]

const TAKING = `session = $8, stamp = i.my_stamp, lease_ms = i.now_ms + i.trusted_ms, deliveries = l.deliveries + 1,
      started = CASE WHEN i.alone THEN ${ALONE} ELSE 0 END`
const TASK = `l.generation, l.body, l.due_ms, l.ring_ms, l.failures, l.deliveries,
      array_to_string(l.tags, E'\\n') AS tags, l.priority`

/** Between texts that are told in one. It is in no JSON, and in no tag. */
export const SEPARATOR = '\x1e'
const numbers = (column: string): string => `string_agg(${column}::text, ',')`
const texts = (column: string): string => `string_agg(${column}, E'\\x1e')`

/**
 * $4 stamp, $5 lease in ms, $6 the moment of the clock that rang, $7 alone, $8 session. The way of nearly every task: it
 * waits, and its time has come. Answers one row, of lists, or of nulls: what was not taken is not in it. To tell each
 * task in a row of its own is half of the work on both ends.
 */
const claim = `WITH ${t({})},
  found AS MATERIALIZED (
    SELECT i.n, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, l.at, l.part
    ${eachAsItShouldBe(
      CLAIM_COLUMNS,
      `l.session IS NULL AND l.ring_ms <= i.rang_ms AND (i.alone OR l.lost < ${LOSSES_OF_A_SUSPECT})`,
      'FOR UPDATE SKIP LOCKED',
    )}
  ),
  taken AS (UPDATE tocsin.live l SET ${TAKING} FROM found i WHERE ${AT} RETURNING i.n, ${TASK}),
  booked AS (INSERT INTO tocsin.tally (topic, claimed) SELECT $1, count(*) FROM taken HAVING count(*) > 0)
  SELECT ${['n', 'generation', 'due_ms', 'ring_ms', 'failures', 'deliveries', 'priority'].map(numbers).join(', ')},
    ${texts("coalesce(tags, '')")}, ${texts('body')} FROM taken`

/**
 * The same for whatever that left, each with a verdict; $9 is what a conviction says. Answers rows of n, verdict, the
 * task if it is ours; else ring, failures, priority, losses, ms to the lease's end.
 */
const claimAny = `WITH ${t({})}, ${places(CLAIM_COLUMNS)},
  locked AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, l.ring_ms, l.failures, l.priority, l.lost,
      l.lease_ms, l.session IS NOT NULL AS was_claimed,
      CASE
        WHEN l.session IS NULL AND l.ring_ms > i.rang_ms THEN 'later'
        WHEN l.session IS NULL AND l.lost >= ${LOSSES_OF_A_SUSPECT} AND NOT i.alone THEN 'suspect'
        WHEN l.session IS NULL THEN 'take'
        WHEN l.lease_ms > i.now_ms AND l.session = $8 AND l.stamp = i.my_stamp THEN 'mine'
        WHEN l.lease_ms > i.now_ms THEN 'held'
        WHEN l.marked THEN 'cancelled'
        -- Only a start that was recorded, with nothing else running beside it, can convict; and the third loss in a row.
        WHEN l.started = ${STARTED_ALONE} AND l.lost >= ${LOSSES_OF_A_SUSPECT} THEN 'poison'
        WHEN l.lost + 1 >= ${LOSSES_OF_A_SUSPECT} AND NOT i.alone THEN 'release'
        ELSE 'retake'
      END AS verdict
    ${eachRow('FOR UPDATE SKIP LOCKED')}
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
  -- What was not locked is gone, or somebody else is at it. By the primary key, as in eachRow.
  UNION ALL SELECT i.n, coalesce((SELECT 'locked' FROM tocsin.live l WHERE ${SAME}), 'gone'),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM input i LEFT JOIN locked k ON k.n = i.n WHERE k.n IS NULL`

/** A second death of a key takes the place of the first. */
function graves(dies: string): string {
  return `graves AS (
    DELETE FROM tocsin.ended e USING removed r
    WHERE r.${dies} AND e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = ${DEAD} RETURNING 1
  )`
}

const HELD_BY_ME = 'l.topic = $1 AND l.cell = $2 AND l.key = $3 AND l.stamp = $4 AND l.session = $5'
/** $4 stamp, $5 session: records the start of a suspect. Answers nothing, or whether it did, or somebody else is at it. */
const begin = `WITH mine AS (
    SELECT l.cell, l.key FROM tocsin.live l WHERE ${HELD_BY_ME} FOR UPDATE SKIP LOCKED
  ),
  begun AS (
    UPDATE tocsin.live l SET started = CASE WHEN started = ${ALONE} THEN ${STARTED_ALONE} ELSE started END
    FROM mine m WHERE l.topic = $1 AND l.cell = m.cell AND l.key = m.key RETURNING 1
  )
  SELECT 'begun' FROM begun
  UNION ALL SELECT 'locked' FROM tocsin.live l WHERE ${HELD_BY_ME} AND NOT EXISTS (SELECT 1 FROM mine)`

/** $4 stamp, $5 lease in ms, $6 session. Answers the keys that are held, each with whether its lease goes on. */
const extend = `WITH ${t({})},
  ${places([
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
      AND (SELECT l.session = $6 AND l.stamp = i.my_stamp FROM tocsin.live l WHERE ${SAME})`

/**
 * $4 stamp, $5 state, $6 session, $7 lock timeout: the way of nearly every task. Answers one value: null when all of them
 * ended, else the numbers of those that did.
 */
const finish = `WITH ${t({ lockTimeoutMs: '$7' })},
  removed AS (
    DELETE FROM tocsin.live l USING (
      SELECT i.n, i.now_ms, i.state, l.at, l.part
      ${eachAsItShouldBe(
        [
          { name: 'my_stamp', array: '$4::bigint[]' },
          { name: 'state', array: '$5::smallint[]' },
        ],
        'l.session = $6 AND l.stamp = i.my_stamp',
        // What waits for a lock finds the row elsewhere afterwards; not all versions of PostgreSQL look again by themselves.
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
  SELECT CASE WHEN count(*) < cardinality($2::smallint[]) THEN coalesce(${numbers('n')}, '') END FROM removed`

/**
 * $4 stamp, $5 kind, $6 delay in ms (or the fraction of a spread), $7 error, $8 cause, $9 whether it failed, $10 session,
 * $11 what a conviction says. Answers n, 'settled' | 'stale' | 'locked', what became of it, ring, failures, priority,
 * losses.
 */
const settle = `WITH ${t({})},
  ${places([
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
  -- Of the others nobody holds them under that stamp, or somebody else is at them.
  UNION ALL SELECT i.n, CASE WHEN (
      SELECT l.session = $10 AND l.stamp = i.my_stamp FROM tocsin.live l WHERE ${SAME}
    ) THEN 'locked' ELSE 'stale' END, NULL, NULL, NULL, NULL, NULL
    FROM input i LEFT JOIN judged k ON k.n = i.n WHERE k.n IS NULL`

/** $4 lock timeout, $5 notify within ms, $6 the topic's name. Answers, for each that is dead: key, whether it lives again, ring, priority. */
const replay = `WITH ${t({ lockTimeoutMs: '$4' })}, ${places()},
  graves AS MATERIALIZED (
    SELECT e.*, i.now_ms FROM input i JOIN tocsin.ended e
      ON e.topic = $1 AND e.cell = i.cell AND e.key = i.key AND e.state = ${DEAD}
    ${IN_ORDER} FOR UPDATE OF e
  ),
  revived AS (
    INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, deliveries, created_ms, updated_ms, tags, body)
    SELECT topic, cell, key, generation, now_ms, now_ms, priority, deliveries, created_ms, now_ms, tags, body FROM graves
    ON CONFLICT (topic, cell, key) DO NOTHING RETURNING l.cell, l.key
  ),
  emptied AS (
    DELETE FROM tocsin.ended e USING revived r
    WHERE e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = ${DEAD}
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead) SELECT $1, -count(*) FROM revived HAVING count(*) > 0)
  SELECT g.key, r.key IS NOT NULL, g.now_ms, g.priority,
    ${tell('SELECT min(t.now_ms) FROM revived, t', '$5::bigint', '$6')}
  FROM graves g LEFT JOIN revived r ON r.cell = g.cell AND r.key = g.key`

/** $4 lock timeout. Answers the keys that were purged. */
const purge = `WITH ${t({ lockTimeoutMs: '$4' })}, ${places()},
  emptied AS (
    DELETE FROM tocsin.ended e USING input i
    WHERE e.topic = $1 AND e.cell = i.cell AND e.key = i.key AND e.state = ${DEAD} RETURNING e.key
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead, purged) SELECT $1, -count(*), count(*) FROM emptied HAVING count(*) > 0)
  SELECT key FROM emptied`

/** $2 ended before, $3 limit. Answers how many. */
const forgetEnded = `WITH old AS (
    SELECT e.cell, e.key, e.generation FROM tocsin.ended e
    WHERE e.topic = $1 AND e.state IN (${DONE}, ${CANCELLED}, ${OBSOLETE}) AND e.ended_ms < $2
    LIMIT $3 FOR UPDATE SKIP LOCKED
  ),
  swept AS (
    DELETE FROM tocsin.ended e USING old o
    WHERE e.topic = $1 AND e.cell = o.cell AND e.key = o.key AND e.generation = o.generation RETURNING e.state
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done_swept, cancelled_swept, obsolete_swept)
    SELECT $1, count(*) FILTER (WHERE state = ${DONE}), count(*) FILTER (WHERE state = ${CANCELLED}),
      count(*) FILTER (WHERE state = ${OBSOLETE}) FROM swept HAVING count(*) > 0
  )
  SELECT count(*) FROM swept`

/** $2 dead before, $3 how many may stay, $4 limit. Answers how many. */
const forgetDead = `WITH held AS (SELECT coalesce(sum(dead), 0) AS dead FROM tocsin.tally WHERE topic = $1),
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
  SELECT count(*) FROM emptied`

export const WRITES = {
  scheduleNew,
  schedule: schedule(false),
  scheduleKeeping: schedule(true),
  cancel,
  reschedule,
  claim,
  claimAny,
  begin,
  extend,
  finish,
  settle,
  replay,
  purge,
  forgetEnded,
  forgetDead,
} as const
