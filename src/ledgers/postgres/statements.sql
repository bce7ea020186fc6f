-- Every statement that the PostgreSQL ledger sends, as it is sent. Generated: npm run docs.
--
-- Each is a PREPARE, to be pasted into psql on a database that has a ledger: then EXECUTE it, or EXPLAIN EXECUTE it.
-- Begin with BEGIN, and end with ROLLBACK, to change nothing. Arrays have one element per task. Instants are Unix
-- milliseconds.
--
-- Where the role may create functions, write_schedule, write_claim and write_finish are sent as calls of functions
-- with this text (prepared-steps.ts). Not here: BEGIN, COMMIT, ROLLBACK, LISTEN, and what creates the tables
-- (migrations.ts) and the SQL functions (sql-functions.ts).
--
-- write_schedule_new        the function of prepared-steps.ts, if expects_new
-- write_schedule            Writes.schedule, tocsin.schedule()
-- write_schedule_keeping    Writes.schedule, tocsin.schedule()
-- write_cancel              Writes.cancel, tocsin.cancel()
-- write_cancel_unkept       Writes.cancel
-- write_reschedule          Writes.reschedule, tocsin.reschedule()
-- write_claim_groups        ClaimWrites.claim
-- write_claim               ClaimWrites.claim
-- write_claim_any           ClaimWrites.claim
-- write_begin               Writes.begin
-- write_extend              Writes.extend
-- write_finish              FinishWrites.finish
-- write_finish_unkept       FinishWrites.finish
-- write_settle              Writes.settle
-- write_replay              Writes.replay
-- write_purge               Writes.purge
-- write_forget_ended        PostgresLedger.forget
-- write_forget_batches      PostgresLedger.forget
-- write_forget_dead         PostgresLedger.forget
-- read_get                  Readings.get
-- read_hints                Readings.hints
-- read_load                 Readings.load
-- read_find_live            Readings.find
-- read_find_live_by_tag     Readings.find
-- read_find_live_by_prefix  Readings.find
-- read_find_dead            Readings.find
-- read_find_dead_by_tag     Readings.find
-- read_find_dead_by_prefix  Readings.find
-- read_counts               Readings.counts
-- read_books                Readings.books
-- read_forecast             Readings.forecast
-- read_recount              Readings.recount
-- read_list_live            Readings.list
-- read_list_ended           Readings.list
-- read_list_batches         Readings.list
-- topic_list                PostgresLedger.topics
-- topic_find                Topics.seen
-- topic_create              Topics.made
-- topic_place               Topics.placed
-- topic_announce            Topics.announce
-- topic_slot_by             Topics.placed
-- topic_fixed_slot_by       Topics.agreed
-- transaction_current_id    CallerTransaction, OpenHandlerTransaction
-- transaction_has_ledger    CallerTransactions
-- transaction_ledger_id     CallerTransactions
-- transaction_feed          CallerTransaction
-- transaction_hold          OpenHandlerTransaction.hold
-- board_beat                PostgresBoard.beat
-- board_cards               PostgresBoard.cards
-- board_reads_batches       PostgresBoard.readsBatches
-- board_leave               PostgresBoard.leave
-- board_bury                PostgresBoard.bury
-- board_records             PostgresBoard.records
-- board_create              PostgresBoard.create
-- board_change              PostgresBoard.change
-- board_history             PostgresBoard.history
-- board_tokens              PostgresBoard.tokens
-- board_put_token           PostgresBoard.putToken
-- board_drop_token          PostgresBoard.dropToken
-- upkeep_server             openPostgres
-- upkeep_new_session        openPostgres
-- upkeep_now                PostgresLedger.nowMs
-- upkeep_take_feed          PostgresLedger.committedWrites
-- upkeep_merge_books        PostgresLedger.forget
-- upkeep_notify             Listener

-- write_schedule_new
-- Inserts tasks. Fails with unique_violation, and writes nothing, if a key has a live task. Takes a quarter less work
-- than schedule, because no key is looked up before the insert.
-- Sent by: the function of prepared-steps.ts, if expects_new
--   $1  topic             integer     id of the topic
--   $2  cells             smallint[]
--   $3  keys              text[]
--   $4  ms                bigint[]    instant or delay of each task
--   $5  are_delays        boolean[]   whether ms is a delay
--   $6  priorities        smallint[]
--   $7  tags              text[]      tags of each task, one per line
--   $8  bodies            text        payload of each task, as JSON, separated by \x1e
--   $9  merge_ms          bigint      ring times are rounded up to a multiple of this; 0: not rounded
--   $10 lock_timeout_ms   integer     how long to wait for row locks; NULL for the setting of the connection
--   $11 transaction_id    text        the statement does nothing in any other transaction; NULL for any transaction
--   $12 notify_within_ms  bigint      sends a NOTIFY if a task rings within this; 0: never
--   $13 topic_name        text        payload of the NOTIFY
--   $14 expects_new       boolean     try schedule_new first (only in the function of prepared-steps.ts)
--   $15 not_after_ms      bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: One row, as schedule returns it, with nulls.
PREPARE write_schedule_new (integer, smallint[], text[], bigint[], boolean[], smallint[], text[], text, bigint, integer, text, bigint, text, boolean, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms, nextval('tocsin.generation') AS base, $14::boolean AS expects_new,
      CASE WHEN $10::integer IS NOT NULL
        THEN set_config('lock_timeout', $10::integer::text, true) END AS lock_timeout
    WHERE $11::text IS NULL OR $11::text = pg_current_xact_id()::text
  ),
  written AS (INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, tags, body)
    SELECT $1::integer, cell, key, generation, due_ms, due_ms, priority, now_ms, now_ms,
      string_to_array(tags, E'\n'), body
    FROM (
    SELECT i.*, least(greatest(
      CASE WHEN $9::bigint > 0 THEN ((wanted) + $9::bigint - 1) / $9::bigint * $9::bigint ELSE wanted END,
    0), 9007199254739) AS due_ms FROM (
      SELECT i.*, t.now_ms, t.base + i.n AS generation, CASE WHEN i.is_delay THEN t.now_ms + i.ms ELSE i.ms END AS wanted
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::boolean[], $6::smallint[], $7::text[],
        string_to_array($8::text, E'\x1e'))
        WITH ORDINALITY AS i (cell, key, ms, is_delay, priority, tags, body, n)
    ) i) i ORDER BY i.cell, i.key RETURNING l.due_ms),
  booked AS (INSERT INTO tocsin.tally (topic, scheduled) SELECT $1, count(*) FROM written)
  SELECT t.now_ms::float8 AS now_ms, NULL::text AS superseded, NULL::text AS written, NULL::text AS kept,
    (SELECT pg_notify('tocsin', $13)::text FROM t
    WHERE $12::bigint > 0 AND (SELECT min(due_ms) FROM written) <= t.now_ms + $12::bigint) AS told
  FROM t WHERE (SELECT tocsin.in_time($15::bigint, (SELECT count(*) FROM written))) AND (SELECT count(*) FROM written) > 0;

-- write_schedule
-- Upserts tasks: a key that has a live task is replaced.
-- Sent by: Writes.schedule, tocsin.schedule()
--   $1  topic             integer     id of the topic
--   $2  cells             smallint[]
--   $3  keys              text[]
--   $4  ms                bigint[]    instant or delay of each task
--   $5  are_delays        boolean[]   whether ms is a delay
--   $6  priorities        smallint[]
--   $7  tags              text[]      tags of each task, one per line
--   $8  bodies            text        payload of each task, as JSON, separated by \x1e
--   $9  merge_ms          bigint      ring times are rounded up to a multiple of this; 0: not rounded
--   $10 lock_timeout_ms   integer     how long to wait for row locks; NULL for the setting of the connection
--   $11 transaction_id    text        the statement does nothing in any other transaction; NULL for any transaction
--   $12 notify_within_ms  bigint      sends a NOTIFY if a task rings within this; 0: never
--   $13 topic_name        text        payload of the NOTIFY
--   $14 expects_new       boolean     try schedule_new first (only in the function of prepared-steps.ts)
--   $15 not_after_ms      bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: One row: now_ms; superseded, a JSON list of [key, state of the replaced task: 1 pending, 2 lease expired,
-- 3 in flight]; two nulls.
PREPARE write_schedule (integer, smallint[], text[], bigint[], boolean[], smallint[], text[], text, bigint, integer, text, bigint, text, boolean, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms, nextval('tocsin.generation') AS base, $14::boolean AS expects_new,
      CASE WHEN $10::integer IS NOT NULL
        THEN set_config('lock_timeout', $10::integer::text, true) END AS lock_timeout
    WHERE $11::text IS NULL OR $11::text = pg_current_xact_id()::text
  ),
  input AS MATERIALIZED (
    SELECT i.*, least(greatest(
      CASE WHEN $9::bigint > 0 THEN ((wanted) + $9::bigint - 1) / $9::bigint * $9::bigint ELSE wanted END,
    0), 9007199254739) AS due_ms FROM (
      SELECT i.*, t.now_ms, t.base + i.n AS generation, CASE WHEN i.is_delay THEN t.now_ms + i.ms ELSE i.ms END AS wanted
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::boolean[], $6::smallint[], $7::text[],
        string_to_array($8::text, E'\x1e'))
        WITH ORDINALITY AS i (cell, key, ms, is_delay, priority, tags, body, n)
    ) i),
  written AS (
    INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, tags, body)
    SELECT $1::integer, cell, key, generation, due_ms, due_ms, priority, now_ms, now_ms,
      string_to_array(tags, E'\n'), body
    FROM input i ORDER BY i.cell, i.key
    ON CONFLICT (topic, cell, key) DO UPDATE SET
      supersedes = CASE WHEN l.session IS NULL THEN 1 WHEN l.lease_ms <= excluded.updated_ms THEN 2 ELSE 3 END,
      generation = excluded.generation, due_ms = excluded.due_ms, ring_ms = excluded.ring_ms,
      priority = excluded.priority, created_ms = excluded.created_ms, updated_ms = excluded.updated_ms,
      tags = excluded.tags, body = excluded.body, error = NULL, failures = 0, lost = 0, deliveries = 0,
      marked = false, session = NULL, stamp = NULL, lease_ms = NULL, started = 0
    -- A task that was cancelled in flight has no further attempt, so there is nothing to keep.
    RETURNING l.cell, l.key, l.supersedes
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, scheduled, claimed)
    SELECT $1, count(*) FILTER (WHERE supersedes = 0), -count(*) FILTER (WHERE supersedes > 1)
    FROM written HAVING count(*) FILTER (WHERE supersedes <> 1) > 0
  )
  SELECT t.now_ms::float8 AS now_ms,
    (SELECT json_agg(json_build_array(key, supersedes)) FROM written WHERE supersedes > 0)::text AS superseded,
    NULL::text AS written, NULL::text AS kept,
    (SELECT pg_notify('tocsin', $13)::text FROM t
    WHERE $12::bigint > 0 AND (SELECT min(due_ms) FROM input) <= t.now_ms + $12::bigint) AS told
  FROM t WHERE (SELECT tocsin.in_time($15::bigint, (SELECT count(*) FROM written)));

-- write_schedule_keeping
-- Inserts tasks with onConflict 'keep'. If a key has a live task, that task stays, unless it was cancelled in flight.
-- Sent by: Writes.schedule, tocsin.schedule()
--   $1  topic             integer     id of the topic
--   $2  cells             smallint[]
--   $3  keys              text[]
--   $4  ms                bigint[]    instant or delay of each task
--   $5  are_delays        boolean[]   whether ms is a delay
--   $6  priorities        smallint[]
--   $7  tags              text[]      tags of each task, one per line
--   $8  bodies            text        payload of each task, as JSON, separated by \x1e
--   $9  merge_ms          bigint      ring times are rounded up to a multiple of this; 0: not rounded
--   $10 lock_timeout_ms   integer     how long to wait for row locks; NULL for the setting of the connection
--   $11 transaction_id    text        the statement does nothing in any other transaction; NULL for any transaction
--   $12 notify_within_ms  bigint      sends a NOTIFY if a task rings within this; 0: never
--   $13 topic_name        text        payload of the NOTIFY
--   $14 expects_new       boolean     try schedule_new first (only in the function of prepared-steps.ts)
--   $15 not_after_ms      bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: One row: now_ms; superseded, a JSON list of [key, state of the replaced task: 1 pending, 2 lease expired,
-- 3 in flight]; written, a JSON list of keys; kept, a JSON list of [key, due_ms, whether it is in flight].
PREPARE write_schedule_keeping (integer, smallint[], text[], bigint[], boolean[], smallint[], text[], text, bigint, integer, text, bigint, text, boolean, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms, nextval('tocsin.generation') AS base, $14::boolean AS expects_new,
      CASE WHEN $10::integer IS NOT NULL
        THEN set_config('lock_timeout', $10::integer::text, true) END AS lock_timeout
    WHERE $11::text IS NULL OR $11::text = pg_current_xact_id()::text
  ),
  input AS MATERIALIZED (
    SELECT i.*, least(greatest(
      CASE WHEN $9::bigint > 0 THEN ((wanted) + $9::bigint - 1) / $9::bigint * $9::bigint ELSE wanted END,
    0), 9007199254739) AS due_ms FROM (
      SELECT i.*, t.now_ms, t.base + i.n AS generation, CASE WHEN i.is_delay THEN t.now_ms + i.ms ELSE i.ms END AS wanted
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::boolean[], $6::smallint[], $7::text[],
        string_to_array($8::text, E'\x1e'))
        WITH ORDINALITY AS i (cell, key, ms, is_delay, priority, tags, body, n)
    ) i),
  written AS (
    INSERT INTO tocsin.live AS l
      (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, tags, body)
    SELECT $1::integer, cell, key, generation, due_ms, due_ms, priority, now_ms, now_ms,
      string_to_array(tags, E'\n'), body
    FROM input i ORDER BY i.cell, i.key
    ON CONFLICT (topic, cell, key) DO UPDATE SET
      supersedes = CASE WHEN l.session IS NULL THEN 1 WHEN l.lease_ms <= excluded.updated_ms THEN 2 ELSE 3 END,
      generation = excluded.generation, due_ms = excluded.due_ms, ring_ms = excluded.ring_ms,
      priority = excluded.priority, created_ms = excluded.created_ms, updated_ms = excluded.updated_ms,
      tags = excluded.tags, body = excluded.body, error = NULL, failures = 0, lost = 0, deliveries = 0,
      marked = false, session = NULL, stamp = NULL, lease_ms = NULL, started = 0
    -- A task that was cancelled in flight has no further attempt, so there is nothing to keep.
    WHERE l.marked
    RETURNING l.cell, l.key, l.supersedes
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, scheduled, claimed)
    SELECT $1, count(*) FILTER (WHERE supersedes = 0), -count(*) FILTER (WHERE supersedes > 1)
    FROM written HAVING count(*) FILTER (WHERE supersedes <> 1) > 0
  )
  SELECT t.now_ms::float8 AS now_ms,
    (SELECT json_agg(json_build_array(key, supersedes)) FROM written WHERE supersedes > 0)::text AS superseded,
    (SELECT json_agg(key) FROM written)::text AS written,
    (SELECT json_agg(json_build_array(l.key, l.due_ms, (l.session IS NOT NULL AND l.lease_ms > i.now_ms))) FROM input i JOIN tocsin.live l ON l.topic = $1 AND l.cell = i.cell AND l.key = i.key
      LEFT JOIN written w ON w.cell = i.cell AND w.key = i.key WHERE w.key IS NULL)::text AS kept,
    (SELECT pg_notify('tocsin', $13)::text FROM t
    WHERE $12::bigint > 0 AND (SELECT min(due_ms) FROM input) <= t.now_ms + $12::bigint) AS told
  FROM t WHERE (SELECT tocsin.in_time($15::bigint, (SELECT count(*) FROM written)));

-- write_cancel
-- Cancels tasks. A task that is held is only marked: its current attempt may finish, but no further attempt follows.
-- Sent by: Writes.cancel, tocsin.cancel()
--   $1  topic            integer     id of the topic
--   $2  cells            smallint[]
--   $3  keys             text[]
--   $4  lock_timeout_ms  integer     how long to wait for row locks; NULL for the setting of the connection
--   $5  transaction_id   text        the statement does nothing in any other transaction; NULL for any transaction
--   $6  not_after_ms     bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: A row for each live task: key, whether it is in flight.
PREPARE write_cancel (integer, smallint[], text[], integer, text, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $4::integer IS NOT NULL
        THEN set_config('lock_timeout', $4::integer::text, true) END AS lock_timeout
    WHERE $5::text IS NULL OR $5::text = pg_current_xact_id()::text
  ), input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[])
      WITH ORDINALITY AS i (cell, key, n)
  ),
  locked AS MATERIALIZED (
    SELECT i.cell, i.key, (l.session IS NOT NULL AND l.lease_ms > i.now_ms) AS is_held, l.session IS NOT NULL AS was_claimed
    FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key FOR UPDATE) l
  ),
  marked AS (
    UPDATE tocsin.live l SET marked = true FROM locked i WHERE i.is_held AND NOT l.marked AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
  ),
  removed AS (DELETE FROM tocsin.live l USING locked i WHERE NOT i.is_held AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key RETURNING l.*),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body)
    SELECT 2, t.now_ms, failures, error, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body FROM removed, t
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, cancelled, cancelled_swept, claimed)
    SELECT $1, count(*), 0, -count(*) FILTER (WHERE was_claimed) FROM locked WHERE NOT is_held HAVING count(*) > 0
  )
  SELECT key, is_held FROM locked WHERE (SELECT tocsin.in_time($6::bigint, (SELECT count(*) FROM locked)));

-- write_cancel_unkept
-- Like cancel, for a topic that keeps no ended tasks. The dead task of a key stays superseded. Not for transactions
-- of callers: it needs more privileges.
-- Sent by: Writes.cancel
--   $1  topic            integer     id of the topic
--   $2  cells            smallint[]
--   $3  keys             text[]
--   $4  lock_timeout_ms  integer     how long to wait for row locks; NULL for the setting of the connection
--   $5  transaction_id   text        the statement does nothing in any other transaction; NULL for any transaction
--   $6  not_after_ms     bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: A row for each live task: key, whether it is in flight.
PREPARE write_cancel_unkept (integer, smallint[], text[], integer, text, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $4::integer IS NOT NULL
        THEN set_config('lock_timeout', $4::integer::text, true) END AS lock_timeout
    WHERE $5::text IS NULL OR $5::text = pg_current_xact_id()::text
  ), input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[])
      WITH ORDINALITY AS i (cell, key, n)
  ),
  locked AS MATERIALIZED (
    SELECT i.cell, i.key, (l.session IS NOT NULL AND l.lease_ms > i.now_ms) AS is_held, l.session IS NOT NULL AS was_claimed
    FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key FOR UPDATE) l
  ),
  marked AS (
    UPDATE tocsin.live l SET marked = true FROM locked i WHERE i.is_held AND NOT l.marked AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
  ),
  removed AS (DELETE FROM tocsin.live l USING locked i WHERE NOT i.is_held AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key RETURNING l.*),
  outranked AS (
    UPDATE tocsin.ended d SET outranked = true FROM removed r
    WHERE d.topic = $1 AND d.cell = r.cell AND d.key = r.key AND d.state = 4 AND NOT d.outranked
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, cancelled, cancelled_swept, claimed)
    SELECT $1, count(*), count(*), -count(*) FILTER (WHERE was_claimed) FROM locked WHERE NOT is_held HAVING count(*) > 0
  )
  SELECT key, is_held FROM locked WHERE (SELECT tocsin.in_time($6::bigint, (SELECT count(*) FROM locked)));

-- write_reschedule
-- Moves tasks to another time. If a task was cancelled in flight and its lease has expired, ends it as cancelled.
-- Sent by: Writes.reschedule, tocsin.reschedule()
--   $1  topic             integer     id of the topic
--   $2  cells             smallint[]
--   $3  keys              text[]
--   $4  kind              text        'at', 'delay', or 'shift' (from the time at which it rings now)
--   $5  ms                bigint      instant, delay or shift
--   $6  merge_ms          bigint      ring times are rounded up to a multiple of this; 0: not rounded
--   $7  lock_timeout_ms   integer     how long to wait for row locks; NULL for the setting of the connection
--   $8  transaction_id    text        the statement does nothing in any other transaction; NULL for any transaction
--   $9  notify_within_ms  bigint      sends a NOTIFY if a task rings within this; 0: never
--   $10 topic_name        text        payload of the NOTIFY
--   $11 not_after_ms      bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: A row for each live task: key, 'rescheduled' | 'in-flight' | 'not-found', due_ms, priority.
PREPARE write_reschedule (integer, smallint[], text[], text, bigint, bigint, integer, text, bigint, text, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $7::integer IS NOT NULL
        THEN set_config('lock_timeout', $7::integer::text, true) END AS lock_timeout
    WHERE $8::text IS NULL OR $8::text = pg_current_xact_id()::text
  ), input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[])
      WITH ORDINALITY AS i (cell, key, n)
  ),
  locked AS MATERIALIZED (
    SELECT i.cell, i.key, i.now_ms, l.priority, l.session IS NOT NULL AS was_claimed,
      CASE WHEN (l.session IS NOT NULL AND l.lease_ms > i.now_ms) THEN 'in-flight' WHEN l.marked THEN 'not-found' ELSE 'rescheduled' END AS outcome,
      CASE $4 WHEN 'at' THEN $5::bigint WHEN 'delay' THEN i.now_ms + $5::bigint ELSE l.ring_ms + $5::bigint END AS wanted
    FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key FOR UPDATE) l
  ),
  judged AS MATERIALIZED (SELECT locked.*, least(greatest(
      CASE WHEN $6::bigint > 0 THEN ((wanted) + $6::bigint - 1) / $6::bigint * $6::bigint ELSE wanted END,
    0), 9007199254739) AS due_ms FROM locked),
  moved AS (
    UPDATE tocsin.live l SET due_ms = i.due_ms, ring_ms = i.due_ms, updated_ms = i.now_ms, failures = 0, lost = 0, session = NULL, stamp = NULL, lease_ms = NULL, started = 0
    FROM judged i WHERE i.outcome = 'rescheduled' AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
  ),
  removed AS (DELETE FROM tocsin.live l USING judged i WHERE i.outcome = 'not-found' AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key RETURNING l.*),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body)
    SELECT 2, t.now_ms, failures, error, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body FROM removed, t
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, cancelled, claimed)
    SELECT $1, count(*) FILTER (WHERE outcome = 'not-found'), -count(*) FILTER (WHERE was_claimed)
    FROM judged WHERE outcome <> 'in-flight' HAVING count(*) FILTER (WHERE was_claimed OR outcome = 'not-found') > 0
  )
  SELECT key, outcome, due_ms::float8 AS due_ms, priority,
    (SELECT pg_notify('tocsin', $10)::text FROM t
    WHERE $9::bigint > 0 AND (SELECT min(due_ms) FROM judged WHERE outcome = 'rescheduled') <= t.now_ms + $9::bigint) AS told FROM judged
  WHERE (SELECT tocsin.in_time($11::bigint, (SELECT count(*) FROM judged)));

-- write_claim_groups
-- Claims pending tasks that are due, for whole claim calls: one input row per call, not per task. Skips all other
-- tasks and suspects; claim_any handles those. Fails, and claims nothing, if a row stays locked (55P03), or if the
-- payloads exceed 1048576 bytes (TC012); claim handles those calls.
-- Sent by: ClaimWrites.claim
--   $1  topic            integer     id of the topic
--   $2  cells            smallint[]  cell of each call
--   $3  keys             text[]      keys of each call, separated by \x1e
--   $4  stamps           bigint[]    stamp of each claim
--   $5  leases_ms        bigint[]    length of each lease in milliseconds
--   $6  rang_ms          bigint[]    time of the clock by which each task rang
--   $7  session          bigint      session of the process that holds the claims
--   $8  lock_timeout_ms  integer     how long to wait for row locks; NULL for the setting of the connection
--   $9  is_fast          boolean     true: the commit of this statement does not wait for the disk (synchronous_commit = off)
-- Returns: A row for each call that claimed a task: n; keys (separated by \x1e); generations, due_ms (by commas);
-- others, for each task of which another column is unusual: key, ring_ms, failures, deliveries, priority, tags (by
-- \x1f); bodies; ctids, where the rows are now.
PREPARE write_claim_groups (integer, smallint[], text[], bigint[], bigint[], bigint[], bigint, integer, boolean) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $8::integer IS NOT NULL
        THEN set_config('lock_timeout', $8::integer::text, true) END AS lock_timeout,
      CASE WHEN $9::boolean THEN set_config('synchronous_commit', 'off', true) END AS synchronous_commit
  ),
  taken AS (
    UPDATE tocsin.live l SET session = $7, stamp = i.my_stamp, lease_ms = i.now_ms + i.trusted_ms,
      deliveries = l.deliveries + 1, started = 0
    FROM (
      SELECT g.n, g.my_stamp, g.trusted_ms, g.rang_ms, t.now_ms, l.at, l.part
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
        WITH ORDINALITY AS g (cell, keys, my_stamp, trusted_ms, rang_ms, n)
      CROSS JOIN LATERAL unnest(string_to_array(g.keys, E'\x1e')) AS k (key)
      CROSS JOIN LATERAL (
        SELECT l.ctid AS at, l.tableoid AS part FROM tocsin.live l
        WHERE l.topic = $1 AND l.cell = g.cell AND l.key = k.key OFFSET 0
      ) l
    ) i
    WHERE l.ctid = i.at AND l.tableoid = i.part AND l.session IS NULL AND l.ring_ms + 0 <= i.rang_ms AND l.lost < 2
    RETURNING i.n, l.key, l.ctid, l.generation, l.due_ms, CASE WHEN l.ring_ms = l.due_ms AND l.failures = 0 AND l.deliveries = 1 AND l.priority = 1 AND l.tags IS NULL
        THEN NULL ELSE concat_ws(E'\x1f', l.key, l.ring_ms, l.failures, l.deliveries, l.priority, array_to_string(l.tags, E'\n'))
      END AS other, l.body, octet_length(l.body) AS bytes
  ),
  size AS MATERIALIZED (SELECT tocsin.fits(coalesce(sum(bytes), 0)::bigint, 1048576) AS fits FROM taken),
  told AS (
    SELECT n, count(*) AS count, string_agg(key, E'\x1e') AS keys, string_agg(ctid::text, ';') AS ctids,
      string_agg(generation::text, ',') AS generations, string_agg(due_ms::text, ',') AS dues_ms,
      string_agg(other, E'\x1e') AS others, string_agg(body, E'\x1e') AS bodies
    FROM taken WHERE (SELECT fits FROM size) GROUP BY n
  ),
  booked AS (INSERT INTO tocsin.tally (topic, claimed) SELECT $1, sum(count) FROM told HAVING count(*) > 0)
  SELECT n::integer, keys, generations, dues_ms, others, bodies, ctids FROM told;

-- write_claim
-- Claims pending tasks that are due, which is the common case, until their payloads reach 1048576 bytes. Skips all
-- other tasks, locked rows, and suspects that are not claimed alone; claim_any handles those.
-- Sent by: ClaimWrites.claim
--   $1  topic      integer     id of the topic
--   $2  cells      smallint[]
--   $3  keys       text[]
--   $4  stamps     bigint[]    stamp of each claim
--   $5  leases_ms  bigint[]    length of each lease in milliseconds
--   $6  rang_ms    bigint[]    time of the clock by which each task rang
--   $7  alone      boolean[]   true if the consumer runs no other task, as required for a suspect
--   $8  session    bigint      session of the process that holds the claims
--   $9  is_fast    boolean     true: the commit of this statement does not wait for the disk (synchronous_commit = off)
-- Returns: One row of lists, nulls if nothing was claimed: n, generation, due_ms, ring_ms, failures, deliveries,
-- priority (separated by commas); tags, body (separated by \x1e); left_out, n of the due tasks that no longer fit.
PREPARE write_claim (integer, smallint[], text[], bigint[], bigint[], bigint[], boolean[], bigint, boolean) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $9::boolean THEN set_config('synchronous_commit', 'off', true) END AS synchronous_commit
  ),
  found AS MATERIALIZED (
    SELECT i.n, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, l.at, l.part, sum(l.bytes) OVER (ORDER BY i.n ROWS UNBOUNDED PRECEDING) - l.bytes AS bytes_before
    FROM (SELECT * FROM (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[])
      WITH ORDINALITY AS i (cell, key, my_stamp, trusted_ms, rang_ms, alone, n)) i ORDER BY i.cell, i.key) i
    CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.tableoid AS part, octet_length(l.body) AS bytes FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key AND l.session IS NULL AND l.ring_ms <= i.rang_ms AND (i.alone OR l.lost < 2) FOR UPDATE SKIP LOCKED
    ) l
  ),
  taken AS (UPDATE tocsin.live l SET session = $8, stamp = i.my_stamp, lease_ms = i.now_ms + i.trusted_ms, deliveries = l.deliveries + 1,
      started = CASE WHEN i.alone THEN 1 ELSE 0 END FROM found i
    WHERE i.bytes_before < 1048576 AND l.ctid = i.at AND l.tableoid = i.part RETURNING i.n, l.generation, l.body, l.due_ms, l.ring_ms, l.failures, l.deliveries,
      array_to_string(l.tags, E'\n') AS tags, l.priority),
  booked AS (INSERT INTO tocsin.tally (topic, claimed) SELECT $1, count(*) FROM taken HAVING count(*) > 0)
  SELECT string_agg(n::text, ','), string_agg(generation::text, ','), string_agg(due_ms::text, ','), string_agg(ring_ms::text, ','), string_agg(failures::text, ','), string_agg(deliveries::text, ','), string_agg(priority::text, ','),
    string_agg(coalesce(tags, ''), E'\x1e'), string_agg(body, E'\x1e'),
    (SELECT string_agg(n::text, ',') FROM found WHERE bytes_before >= 1048576) AS left_out FROM taken;

-- write_claim_any
-- Handles the tasks that claim skipped, and returns a verdict for each task. If the lease of a task has expired,
-- claims the task, ends it if it was cancelled in flight, makes it dead if it is poison, or makes it pending if it
-- must be claimed alone. Claims no more tasks when their payloads have reached 1048576 bytes.
-- Sent by: ClaimWrites.claim
--   $1  topic          integer     id of the topic
--   $2  cells          smallint[]
--   $3  keys           text[]
--   $4  stamps         bigint[]    stamp of each claim
--   $5  leases_ms      bigint[]    length of each lease in milliseconds
--   $6  rang_ms        bigint[]    time of the clock by which each task rang
--   $7  alone          boolean[]   true if the consumer runs no other task, as required for a suspect
--   $8  session        bigint      session of the process that holds the claims
--   $9  poison_format  text        error of a poison task; %s is the number of lost leases
-- Returns: A row for each task: n, verdict; if 'ours', the task; otherwise ring_ms, failures, priority, lost,
-- milliseconds to the end of its lease.
PREPARE write_claim_any (integer, smallint[], text[], bigint[], bigint[], bigint[], boolean[], bigint, text) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms
  ), input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[])
      WITH ORDINALITY AS i (cell, key, my_stamp, trusted_ms, rang_ms, alone, n)
  ),
  found AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, l.ring_ms, l.failures, l.priority, l.lost,
      l.lease_ms, l.session IS NOT NULL AS was_claimed, octet_length(l.body) AS bytes,
      CASE
        WHEN l.session IS NULL AND l.ring_ms > i.rang_ms THEN 'later'
        WHEN l.session IS NULL AND l.lost >= 2 AND NOT i.alone THEN 'suspect'
        WHEN l.session IS NULL THEN 'take'
        WHEN l.lease_ms > i.now_ms AND l.session = $8 AND l.stamp = i.my_stamp THEN 'mine'
        WHEN l.lease_ms > i.now_ms THEN 'held'
        WHEN l.marked THEN 'cancelled'
        -- A task is poison only if its start was recorded while it ran alone, and this is at least its third lost
        -- lease in a row.
        WHEN l.started = 2 AND l.lost >= 2 THEN 'poison'
        WHEN l.lost + 1 >= 2 AND NOT i.alone THEN 'release'
        ELSE 'retake'
      END AS verdict
    FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key FOR UPDATE SKIP LOCKED) l
  ),
  locked AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.now_ms, i.my_stamp, i.trusted_ms, i.alone, i.ring_ms, i.failures, i.priority, i.lost,
      i.lease_ms, i.was_claimed,
      CASE WHEN i.verdict IN ('take', 'retake') AND i.bytes_before >= 1048576 THEN 'full' ELSE i.verdict END
        AS verdict
    FROM (
      SELECT i.*, sum(CASE WHEN i.verdict IN ('take', 'retake') THEN i.bytes ELSE 0 END) OVER (ORDER BY i.n ROWS UNBOUNDED PRECEDING) - CASE WHEN i.verdict IN ('take', 'retake') THEN i.bytes ELSE 0 END AS bytes_before FROM found i
    ) i
  ),
  taken AS (
    UPDATE tocsin.live l SET session = $8, stamp = i.my_stamp, lease_ms = i.now_ms + i.trusted_ms, deliveries = l.deliveries + 1,
      started = CASE WHEN i.alone THEN 1 ELSE 0 END, lost = l.lost + CASE WHEN i.was_claimed THEN 1 ELSE 0 END
    FROM locked i WHERE i.verdict IN ('take', 'retake') AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key RETURNING i.n, l.generation, l.body, l.due_ms, l.ring_ms, l.failures, l.deliveries,
      array_to_string(l.tags, E'\n') AS tags, l.priority
  ),
  released AS (
    UPDATE tocsin.live l SET lost = l.lost + 1, session = NULL, stamp = NULL, lease_ms = NULL, started = 0 FROM locked i WHERE i.verdict = 'release' AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
  ),
  removed AS (
    DELETE FROM tocsin.live l USING locked i WHERE i.verdict IN ('cancelled', 'poison') AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
    RETURNING l.*, i.verdict, i.now_ms
  ),
  graves AS (
    DELETE FROM tocsin.ended e USING removed r
    WHERE r.verdict = 'poison' AND e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = 4 RETURNING 1
  ),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, cause, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body)
    SELECT CASE verdict WHEN 'poison' THEN 4 ELSE 2 END, now_ms, failures,
      CASE verdict WHEN 'poison' THEN format($9, lost + 1) ELSE error END,
      CASE verdict WHEN 'poison' THEN 'poison' END, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body FROM removed WHERE (SELECT count(*) FROM graves) >= 0
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
  UNION ALL SELECT i.n, 'ours', l.generation, l.body, l.due_ms, l.ring_ms, l.failures, l.deliveries,
      array_to_string(l.tags, E'\n') AS tags, l.priority, NULL, NULL FROM locked i JOIN tocsin.live l ON l.topic = $1 AND l.cell = i.cell AND l.key = i.key WHERE i.verdict = 'mine'
  UNION ALL SELECT n, verdict, NULL, NULL, NULL, ring_ms, failures, NULL, NULL, priority, lost, lease_ms - now_ms
    FROM locked WHERE verdict NOT IN ('take', 'retake', 'mine')
  -- A task without a row in "locked" does not exist, or another transaction has locked its row. The subquery looks it
  -- up by primary key.
  UNION ALL SELECT i.n, coalesce((SELECT 'locked' FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key), 'gone'),
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM input i LEFT JOIN locked k ON k.n = i.n WHERE k.n IS NULL;

-- write_begin
-- Records that the handler of a suspect starts.
-- Sent by: Writes.begin
--   $1  topic    integer   id of the topic
--   $2  cell     smallint
--   $3  key      text
--   $4  stamp    bigint
--   $5  session  bigint    session of the process that holds the claims
-- Returns: One row: 'begun', or 'locked' if another transaction has locked the row. None if the claim is no longer
-- held.
PREPARE write_begin (integer, smallint, text, bigint, bigint) AS
WITH mine AS (
    SELECT l.cell, l.key FROM tocsin.live l WHERE l.topic = $1 AND l.cell = $2 AND l.key = $3 AND l.stamp = $4 AND l.session = $5 FOR UPDATE SKIP LOCKED
  ),
  begun AS (
    UPDATE tocsin.live l SET started = CASE WHEN started = 1 THEN 2 ELSE started END
    FROM mine m WHERE l.topic = $1 AND l.cell = m.cell AND l.key = m.key RETURNING 1
  )
  SELECT 'begun' FROM begun
  UNION ALL SELECT 'locked' FROM tocsin.live l WHERE l.topic = $1 AND l.cell = $2 AND l.key = $3 AND l.stamp = $4 AND l.session = $5 AND NOT EXISTS (SELECT 1 FROM mine);

-- write_extend
-- Extends the leases of claims that are still held.
-- Sent by: Writes.extend
--   $1  topic      integer     id of the topic
--   $2  cells      smallint[]
--   $3  keys       text[]
--   $4  stamps     bigint[]    stamp of each claim
--   $5  leases_ms  bigint[]    length of each lease in milliseconds
--   $6  session    bigint      session of the process that holds the claims
-- Returns: A row for each task that is still held: key, 'extended' or 'locked' (another transaction has locked the
-- row).
PREPARE write_extend (integer, smallint[], text[], bigint[], bigint[], bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms
  ),
  input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::bigint[])
      WITH ORDINALITY AS i (cell, key, my_stamp, trusted_ms, n)
  ),
  locked AS MATERIALIZED (
    SELECT i.* FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key FOR UPDATE SKIP LOCKED) l WHERE l.session = $6 AND l.stamp = i.my_stamp
  ),
  extended AS (
    UPDATE tocsin.live l SET lease_ms = i.now_ms + i.trusted_ms FROM locked i WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key RETURNING l.cell, l.key
  )
  SELECT key, 'extended' FROM extended
  UNION ALL SELECT i.key, 'locked' FROM input i LEFT JOIN extended e ON e.cell = i.cell AND e.key = i.key
    WHERE e.key IS NULL
      AND (SELECT l.session = $6 AND l.stamp = i.my_stamp FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key);

-- write_finish
-- Ends tasks as done or obsolete, which is the common case, for whole groups: one input row per group, not per task.
-- Tasks as most are, of a group that is large enough, become one row of tocsin.ended_batch. Skips tasks whose claim
-- is no longer held; settle handles those.
-- Sent by: FinishWrites.finish
--   $1  topic            integer     id of the topic
--   $2  cells            smallint[]  cell of each group
--   $3  keys             text[]      keys of each group, separated by \x1e
--   $4  stamps           bigint[]    stamp of each claim
--   $5  states           smallint[]  of each group; 1: done, 3: obsolete
--   $6  sizes            integer[]   number of keys of each group
--   $7  session          bigint      session of the process that holds the claims
--   $8  lock_timeout_ms  integer     how long to wait for row locks; NULL for the setting of the connection
--   $9  ctids            text[]      ctid of each row, separated by ';'; NULL: not known
--   $10 batch_min        integer     smallest group that becomes a batch; NULL: none does
-- Returns: One value: null if all tasks ended. Otherwise the tasks that ended, separated by \x1e: number of the
-- group, \x1f, key.
PREPARE write_finish (integer, smallint[], text[], bigint[], smallint[], integer[], bigint, integer, text[], integer) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $8::integer IS NOT NULL
        THEN set_config('lock_timeout', $8::integer::text, true) END AS lock_timeout
  ),
  removed AS (
    DELETE FROM tocsin.live l USING (
      SELECT g.n, g.cell, g.my_stamp, g.state, g.size, k.key, coalesce(k.ctid::tid, (
        SELECT l.ctid FROM tocsin.live l WHERE l.topic = $1 AND l.cell = g.cell AND l.key = k.key
      )) AS at
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::smallint[], $6::integer[], $9::text[])
        WITH ORDINALITY AS g (cell, keys, my_stamp, state, size, ctids, n)
      CROSS JOIN LATERAL unnest(string_to_array(g.keys, E'\x1e'), string_to_array(g.ctids, ';')) AS k (key, ctid)
      OFFSET 0
    ) i WHERE l.ctid = i.at AND l.session = $7 AND l.stamp = i.my_stamp
      AND l.key = i.key AND l.cell + 0 = i.cell AND l.topic + 0 = $1
    RETURNING i.n, i.state, i.size >= $10::integer AND l.failures = 0 AND l.deliveries = 1 AND l.priority = 1 AND l.tags IS NULL AND l.error IS NULL
      AND NOT ((SELECT count(*) FROM (SELECT FROM tocsin.ended WHERE topic = $1 AND state = 4 LIMIT 1) AS d) > 0
        AND EXISTS (SELECT FROM tocsin.ended d WHERE d.topic = $1 AND d.cell = l.cell AND d.key = l.key AND d.state = 4)) AS is_batched, l.topic, l.cell, l.key, l.generation, l.due_ms, l.priority, l.deliveries, l.created_ms, l.tags, l.body, l.failures, l.error
  ),
  batched AS (
    INSERT INTO tocsin.ended_batch
      (topic, cell, state, ended_ms, count, due_from_ms, due_to_ms, hashes, keys, generations, dues_ms, created_ms, bodies)
    SELECT $1, cell, state, (SELECT now_ms FROM t), count(*), min(due_ms), max(due_ms), array_agg(tocsin.key_hash(key)) || coalesce(
      array_agg(DISTINCT tocsin.key_hash(split_part(key, ':', 1) || ':')) FILTER (WHERE strpos(key, ':') > 0), '{}'), string_agg(key, E'\x1e'),
      array_agg(generation), array_agg(due_ms), array_agg(created_ms), string_agg(body, E'\x1e')
    FROM removed WHERE is_batched GROUP BY n, cell, state
  ),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body)
    SELECT state, (SELECT now_ms FROM t), failures, error, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body FROM removed WHERE is_batched IS NOT TRUE
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done, obsolete, claimed)
    SELECT $1, count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 3), -count(*)
    FROM removed HAVING count(*) > 0
  )
  SELECT CASE WHEN (SELECT count(*) FROM removed) < (SELECT sum(size) FROM unnest($6::integer[]) AS s (size))
    THEN (SELECT coalesce(string_agg(n || E'\x1f' || key, E'\x1e'), '') FROM removed) END;

-- write_finish_unkept
-- Like finish, for a topic that keeps no ended tasks: deletes the tasks, and counts them as ended and deleted. The
-- dead task of their key stays superseded.
-- Sent by: FinishWrites.finish
--   $1  topic            integer     id of the topic
--   $2  cells            smallint[]  cell of each group
--   $3  keys             text[]      keys of each group, separated by \x1e
--   $4  stamps           bigint[]    stamp of each claim
--   $5  states           smallint[]  of each group; 1: done, 3: obsolete
--   $6  sizes            integer[]   number of keys of each group
--   $7  session          bigint      session of the process that holds the claims
--   $8  lock_timeout_ms  integer     how long to wait for row locks; NULL for the setting of the connection
--   $9  ctids            text[]      ctid of each row, separated by ';'; NULL: not known
-- Returns: One value: null if all tasks ended. Otherwise the tasks that ended, separated by \x1e: number of the
-- group, \x1f, key.
PREPARE write_finish_unkept (integer, smallint[], text[], bigint[], smallint[], integer[], bigint, integer, text[]) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $8::integer IS NOT NULL
        THEN set_config('lock_timeout', $8::integer::text, true) END AS lock_timeout
  ),
  removed AS (
    DELETE FROM tocsin.live l USING (
      SELECT g.n, g.cell, g.my_stamp, g.state, g.size, k.key, coalesce(k.ctid::tid, (
        SELECT l.ctid FROM tocsin.live l WHERE l.topic = $1 AND l.cell = g.cell AND l.key = k.key
      )) AS at
      FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::smallint[], $6::integer[], $9::text[])
        WITH ORDINALITY AS g (cell, keys, my_stamp, state, size, ctids, n)
      CROSS JOIN LATERAL unnest(string_to_array(g.keys, E'\x1e'), string_to_array(g.ctids, ';')) AS k (key, ctid)
      OFFSET 0
    ) i WHERE l.ctid = i.at AND l.session = $7 AND l.stamp = i.my_stamp
      AND l.key = i.key AND l.cell + 0 = i.cell AND l.topic + 0 = $1
    RETURNING i.n, i.state, l.cell, l.key
  ),
  outranked AS (
    UPDATE tocsin.ended d SET outranked = true FROM removed r
    WHERE (SELECT true FROM tocsin.ended WHERE topic = $1 AND state = 4 LIMIT 1)
      AND d.topic = $1 AND d.cell = r.cell AND d.key = r.key AND d.state = 4 AND NOT d.outranked
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done, done_swept, obsolete, obsolete_swept, claimed)
    SELECT $1, done, done, obsolete, obsolete, -(done + obsolete) FROM (
      SELECT count(*) FILTER (WHERE state = 1) AS done, count(*) FILTER (WHERE state = 3) AS obsolete FROM removed
    ) AS r WHERE done + obsolete > 0
  )
  SELECT CASE WHEN (SELECT count(*) FROM removed) < (SELECT sum(size) FROM unnest($6::integer[]) AS s (size))
    THEN (SELECT coalesce(string_agg(n || E'\x1f' || key, E'\x1e'), '') FROM removed) END;

-- write_settle
-- Settles claims with any outcome. Also handles the tasks that finish skipped.
-- Sent by: Writes.settle
--   $1  topic          integer             id of the topic
--   $2  cells          smallint[]
--   $3  keys           text[]
--   $4  stamps         bigint[]            stamp of each claim
--   $5  kinds          text[]              'done', 'obsolete', 'dead', 'retry', 'snooze', 'return' or 'lost'
--   $6  delays         double precision[]  milliseconds; for 'lost', a fraction from 0 to 1 of the maximum delay
--   $7  errors         text[]
--   $8  causes         text[]              why a task is dead
--   $9  failed         boolean[]           whether a 'dead' task counts one more failure
--   $10 session        bigint              session of the process that holds the claims
--   $11 poison_format  text                error of a poison task; %s is the number of lost leases
-- Returns: A row for each task: n, 'settled' | 'stale' | 'locked' (another transaction holds the row), the fate of
-- the task, ring_ms, failures, priority, lost.
PREPARE write_settle (integer, smallint[], text[], bigint[], text[], double precision[], text[], text[], boolean[], bigint, text) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms
  ),
  input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[], $4::bigint[], $5::text[], $6::double precision[], $7::text[], $8::text[], $9::boolean[])
      WITH ORDINALITY AS i (cell, key, my_stamp, kind, delay, told, cause, failed, n)
  ),
  locked AS MATERIALIZED (
    SELECT i.n, i.cell, i.key, i.kind, i.delay, i.told, i.cause, i.failed, i.now_ms,
      l.marked, l.started, l.lost, l.ring_ms, l.failures, l.priority, l.lease_ms
    FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key FOR UPDATE SKIP LOCKED) l WHERE l.session = $10 AND l.stamp = i.my_stamp
  ),
  judged AS MATERIALIZED (
    SELECT locked.*,
      CASE
        WHEN kind IN ('done', 'obsolete', 'dead') THEN kind
        WHEN kind = 'lost' AND lease_ms > now_ms THEN 'stale'
        WHEN marked THEN 'cancelled'
        WHEN kind = 'lost' AND started = 2 AND lost >= 2 THEN 'poison'
        ELSE kind
      END AS fate,
      CASE kind
        WHEN 'return' THEN ring_ms
        WHEN 'lost' THEN now_ms + ceil(delay * 1000 * 2 ^ least(lost + 1, 4))::bigint
        ELSE least(now_ms + delay::bigint, 9007199254739)
      END AS rings_ms,
      failures + CASE WHEN kind = 'retry' OR (kind = 'dead' AND failed) THEN 1 ELSE 0 END AS failed_times,
      CASE kind WHEN 'return' THEN lost WHEN 'lost' THEN lost + 1 ELSE 0 END AS losses
    FROM locked
  ),
  again AS (
    UPDATE tocsin.live l SET ring_ms = i.rings_ms, failures = i.failed_times, lost = i.losses,
      error = CASE i.kind WHEN 'retry' THEN i.told ELSE l.error END,
      updated_ms = CASE i.kind WHEN 'return' THEN l.updated_ms ELSE i.now_ms END,
      deliveries = l.deliveries - CASE i.kind WHEN 'return' THEN 1 ELSE 0 END, session = NULL, stamp = NULL, lease_ms = NULL, started = 0
    FROM judged i WHERE i.fate IN ('retry', 'snooze', 'return', 'lost') AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
  ),
  removed AS (
    DELETE FROM tocsin.live l USING judged i
    WHERE i.fate IN ('done', 'obsolete', 'cancelled', 'dead', 'poison') AND l.topic = $1 AND l.cell = i.cell AND l.key = i.key
    RETURNING l.*, i.fate, i.now_ms, i.failed_times, i.told, i.cause
  ),
  graves AS (
    DELETE FROM tocsin.ended e USING removed r
    WHERE r.fate IN ('dead', 'poison') AND e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = 4 RETURNING 1
  ),
  ended AS (
    INSERT INTO tocsin.ended (state, ended_ms, failures, error, cause, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body)
    SELECT CASE fate WHEN 'done' THEN 1 WHEN 'obsolete' THEN 3 WHEN 'cancelled' THEN 2
        ELSE 4 END,
      now_ms, CASE fate WHEN 'dead' THEN failed_times ELSE failures END,
      CASE fate WHEN 'dead' THEN told WHEN 'poison' THEN format($11, lost + 1) ELSE error END,
      CASE fate WHEN 'dead' THEN cause WHEN 'poison' THEN 'poison' END, topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body
    FROM removed WHERE (SELECT count(*) FROM graves) >= 0
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
      SELECT l.session = $10 AND l.stamp = i.my_stamp FROM tocsin.live l WHERE l.topic = $1 AND l.cell = i.cell AND l.key = i.key
    ) THEN 'locked' ELSE 'stale' END, NULL, NULL, NULL, NULL, NULL
    FROM input i LEFT JOIN judged k ON k.n = i.n WHERE k.n IS NULL;

-- write_replay
-- Makes dead tasks live again, due now, unless their key has a live task. Optionally leaves tasks dead that a newer
-- task of their key superseded. A task that lives again is the newest of its key.
-- Sent by: Writes.replay
--   $1  topic             integer     id of the topic
--   $2  cells             smallint[]
--   $3  keys              text[]
--   $4  lock_timeout_ms   integer     how long to wait for row locks; NULL for the setting of the connection
--   $5  notify_within_ms  bigint      sends a NOTIFY if a task rings within this; 0: never
--   $6  topic_name        text        payload of the NOTIFY
--   $7  not_after_ms      bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
--   $8  only_newest       boolean     leave superseded tasks dead
-- Returns: A row for each dead task: key, whether it lives again, ring_ms, priority, whether its key has a live task.
PREPARE write_replay (integer, smallint[], text[], integer, bigint, text, bigint, boolean) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $4::integer IS NOT NULL
        THEN set_config('lock_timeout', $4::integer::text, true) END AS lock_timeout
  ), input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[])
      WITH ORDINALITY AS i (cell, key, n)
  ),
  graves AS MATERIALIZED (
    SELECT e.*, i.now_ms, $8::boolean AND (e.outranked OR coalesce(
      (SELECT true FROM tocsin.live l WHERE l.topic = e.topic AND l.cell = e.cell AND l.key = e.key LIMIT 1),
      (SELECT true FROM tocsin.ended n WHERE n.topic = e.topic AND n.cell = e.cell AND n.key = e.key AND (n.generation > e.generation OR n.ended_ms > e.ended_ms) AND NOT n.outranked LIMIT 1),
      false)) AS is_passed_over FROM input i JOIN tocsin.ended e
      ON e.topic = $1 AND e.cell = i.cell AND e.key = i.key AND e.state = 4
    ORDER BY i.cell, i.key FOR UPDATE OF e
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
    WHERE e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = 4
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
    (SELECT pg_notify('tocsin', $6)::text FROM t
    WHERE $5::bigint > 0 AND (SELECT min(t.now_ms) FROM revived, t) <= t.now_ms + $5::bigint)
  FROM graves g LEFT JOIN revived r ON r.cell = g.cell AND r.key = g.key
  WHERE (SELECT tocsin.in_time($7::bigint, (SELECT count(*) FROM revived)));

-- write_purge
-- Deletes dead tasks.
-- Sent by: Writes.purge
--   $1  topic            integer     id of the topic
--   $2  cells            smallint[]
--   $3  keys             text[]
--   $4  lock_timeout_ms  integer     how long to wait for row locks; NULL for the setting of the connection
--   $5  not_after_ms     bigint      fails, and writes nothing, if it comes to its end after this time; NULL: at any time
-- Returns: A row for each task that was deleted: key.
PREPARE write_purge (integer, smallint[], text[], integer, bigint) AS
WITH t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms,
      CASE WHEN $4::integer IS NOT NULL
        THEN set_config('lock_timeout', $4::integer::text, true) END AS lock_timeout
  ), input AS MATERIALIZED (
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[])
      WITH ORDINALITY AS i (cell, key, n)
  ),
  emptied AS (
    DELETE FROM tocsin.ended e USING input i
    WHERE e.topic = $1 AND e.cell = i.cell AND e.key = i.key AND e.state = 4 RETURNING e.key
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead, purged) SELECT $1, -count(*), count(*) FROM emptied HAVING count(*) > 0)
  SELECT key FROM emptied WHERE (SELECT tocsin.in_time($5::bigint, (SELECT count(*) FROM emptied)));

-- write_forget_ended
-- Deletes tasks that ended long ago, except for dead ones.
-- Sent by: PostgresLedger.forget
--   $1  topic            integer  id of the topic
--   $2  ended_before_ms  bigint
--   $3  limit            bigint
-- Returns: One row: how many.
PREPARE write_forget_ended (integer, bigint, bigint) AS
WITH old AS (
    SELECT e.cell, e.key, e.generation FROM tocsin.ended e
    WHERE e.topic = $1 AND e.state IN (1, 2, 3) AND e.ended_ms < $2
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
    WHERE d.topic = $1 AND d.cell = s.cell AND d.key = s.key AND d.state = 4 AND (s.generation > d.generation OR s.ended_ms > d.ended_ms)
      AND NOT s.outranked AND NOT d.outranked
  ),
  booked AS (
    INSERT INTO tocsin.tally (topic, done_swept, cancelled_swept, obsolete_swept)
    SELECT $1, count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2),
      count(*) FILTER (WHERE state = 3) FROM swept HAVING count(*) > 0
  )
  SELECT count(*) FROM swept;

-- write_forget_batches
-- Deletes the oldest batches of ended tasks, until the limit is reached. Whole batches only, so it may exceed the
-- limit.
-- Sent by: PostgresLedger.forget
--   $1  topic            integer  id of the topic
--   $2  ended_before_ms  bigint
--   $3  limit            bigint
-- Returns: One row: how many tasks.
PREPARE write_forget_batches (integer, bigint, bigint) AS
WITH old AS MATERIALIZED (
    SELECT o.cell, o.id FROM (
      SELECT b.cell, b.id, sum(b.count) OVER (ROWS UNBOUNDED PRECEDING) - b.count AS before FROM (
        SELECT cell, id, count FROM tocsin.ended_batch
        WHERE topic = $1 AND state IN (1, 3) AND ended_ms < $2 LIMIT $3::bigint
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
    SELECT $1, coalesce(sum(count) FILTER (WHERE state = 1), 0), coalesce(sum(count) FILTER (WHERE state = 3), 0)
    FROM swept HAVING count(*) > 0
  )
  SELECT coalesce(sum(count), 0)::bigint FROM swept;

-- write_forget_dead
-- Deletes the oldest dead tasks: those that died before dead_before_ms, and those that exceed dead_max.
-- Sent by: PostgresLedger.forget
--   $1  topic           integer  id of the topic
--   $2  dead_before_ms  bigint
--   $3  dead_max        bigint   how many are kept
--   $4  limit           bigint
-- Returns: One row: how many.
PREPARE write_forget_dead (integer, bigint, bigint, bigint) AS
WITH held AS (SELECT coalesce(sum(dead), 0) AS dead FROM tocsin.tally WHERE topic = $1),
  oldest AS (
    SELECT e.cell, e.key, e.generation, e.ended_ms, row_number() OVER (ORDER BY e.ended_ms) AS n
    FROM (SELECT * FROM tocsin.ended WHERE topic = $1 AND state = 4 ORDER BY ended_ms LIMIT $4) AS e
  ),
  emptied AS (
    DELETE FROM tocsin.ended e USING oldest o, held h
    WHERE e.topic = $1 AND e.cell = o.cell AND e.key = o.key AND e.generation = o.generation AND e.state = 4
      AND (o.ended_ms < $2 OR o.n <= h.dead - $3::bigint) RETURNING 1
  ),
  booked AS (INSERT INTO tocsin.tally (topic, dead, purged) SELECT $1, -count(*), count(*) FROM emptied HAVING count(*) > 0)
  SELECT count(*) FROM emptied;

-- read_get
-- Returns the live task of a key, and the task that ended last. Both are read in one statement, because a task that
-- ends between two statements could be in neither result.
-- Sent by: Readings.get
--   $1  topic  integer   id of the topic
--   $2  cell   smallint
--   $3  key    text
-- Returns: One row: the live task, the ended task that has a row, and the ended task that is in a batch, as JSON, or
-- nulls; whether the second one is superseded.
PREPARE read_get (integer, smallint, text) AS
SELECT row_to_json(l), row_to_json(e), row_to_json(b), e.state = 4 AND (e.outranked OR coalesce(
      (SELECT true FROM tocsin.live l WHERE l.topic = e.topic AND l.cell = e.cell AND l.key = e.key LIMIT 1),
      (SELECT true FROM tocsin.ended n WHERE n.topic = e.topic AND n.cell = e.cell AND n.key = e.key AND (n.generation > e.generation OR n.ended_ms > e.ended_ms) AND NOT n.outranked LIMIT 1),
      false)) FROM (SELECT) AS one
       LEFT JOIN LATERAL (SELECT key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\n') AS tags, body FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key = $3) AS l ON true
       LEFT JOIN LATERAL (SELECT key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\n') AS tags, body, topic, cell, outranked FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key = $3
         ORDER BY ended_ms DESC, generation DESC LIMIT 1) AS e ON true
       LEFT JOIN LATERAL (SELECT x.key, x.generation, b.state, b.ended_ms, x.due_ms, 1 AS priority, 0 AS failures,
  1 AS deliveries, x.created_ms, NULL::text AS error, NULL::text AS cause, NULL::text AS tags, x.body FROM (
      SELECT c.id FROM tocsin.ended_batch c
      WHERE c.topic = $1 AND c.cell = $2 AND tocsin.key_hash($3) = ANY (c.hashes) AND l.key IS NULL OFFSET 0
    ) c
    CROSS JOIN LATERAL (SELECT * FROM tocsin.ended_batch b WHERE b.cell = $2 AND b.id = c.id OFFSET 0) b
         CROSS JOIN LATERAL unnest(string_to_array(b.keys, E'\x1e'), b.generations, b.dues_ms, b.created_ms, string_to_array(b.bodies, E'\x1e'))
        AS x (key, generation, due_ms, created_ms, body) WHERE x.key = $3 ORDER BY b.ended_ms DESC, x.generation DESC LIMIT 1) AS b ON true;

-- read_hints
-- Returns the hints of live tasks, except for those that were cancelled in flight.
-- Sent by: Readings.hints
--   $1  topic  integer     id of the topic
--   $2  cells  smallint[]
--   $3  keys   text[]
-- Returns: A row for each task: key, cell, ring_ms, failures, priority, lost, lease_ms (null if it is not claimed),
-- now_ms.
PREPARE read_hints (integer, smallint[], text[]) AS
SELECT l.key, l.cell, l.ring_ms, l.failures, l.priority, l.lost, l.lease_ms, tocsin.now_ms() FROM unnest($2::smallint[], $3::text[]) AS i (cell, key)
       JOIN tocsin.live l ON l.topic = $1 AND l.cell = i.cell AND l.key = i.key WHERE NOT l.marked;

-- read_load
-- Returns the hints of a topic after a frontier, in the order in which they ring.
-- Sent by: Readings.load
--   $1  topic     integer   id of the topic
--   $2  ring_ms   bigint    of the frontier
--   $3  cell      smallint  of the frontier
--   $4  key       text      of the frontier
--   $5  until_ms  bigint
--   $6  limit     bigint
-- Returns: A row for each task: key, cell, ring_ms, failures, priority, lost, lease_ms (null if it is not claimed),
-- now_ms.
PREPARE read_load (integer, bigint, smallint, text, bigint, bigint) AS
SELECT l.key, l.cell, l.ring_ms, l.failures, l.priority, l.lost, l.lease_ms, tocsin.now_ms() FROM tocsin.live l
  WHERE l.topic = $1 AND (l.ring_ms, l.cell, l.key) > ($2::bigint, $3::smallint, $4::text COLLATE "C") AND l.ring_ms <= $5
  ORDER BY l.ring_ms, l.cell, l.key LIMIT $6;

-- read_find_live
-- Finds the live tasks of a cell. A page of keys, in order.
-- Sent by: Readings.find
--   $1  topic  integer   id of the topic
--   $2  cell   smallint
--   $3  after  text      last key of the page before
-- Returns: A row for each task: key.
PREPARE read_find_live (integer, smallint, text) AS
SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 ORDER BY key LIMIT 1000;

-- read_find_live_by_tag
-- Finds the live tasks of a cell that have a tag. A page of keys, in order.
-- Sent by: Readings.find
--   $1  topic  integer   id of the topic
--   $2  cell   smallint
--   $3  after  text      last key of the page before
--   $4  tag    text
-- Returns: A row for each task: key.
PREPARE read_find_live_by_tag (integer, smallint, text, text) AS
(SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 AND tags[1] = $4 ORDER BY key LIMIT 1000) UNION (SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 AND tags[2] = $4 ORDER BY key LIMIT 1000) UNION (SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 AND tags[3] = $4 ORDER BY key LIMIT 1000) UNION (SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 AND tags[4] = $4 ORDER BY key LIMIT 1000) ORDER BY key LIMIT 1000;

-- read_find_live_by_prefix
-- Finds the live tasks of a cell that have a prefix. A page of keys, in order.
-- Sent by: Readings.find
--   $1  topic        integer   id of the topic
--   $2  cell         smallint
--   $3  after        text      last key of the page before
--   $4  prefix       text      the prefix, for a key that equals the prefix
--   $5  prefix_from  text      the prefix and ':'
--   $6  prefix_to    text      the prefix and ';', the character after ':'
-- Returns: A row for each task: key.
PREPARE read_find_live_by_prefix (integer, smallint, text, text, text, text) AS
(SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 AND key = $4) UNION ALL (SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3 AND key >= $5 AND key < $6 ORDER BY key LIMIT 1000) ORDER BY key LIMIT 1000;

-- read_find_dead
-- Finds the dead tasks of a cell. A page of keys, in order.
-- Sent by: Readings.find
--   $1  topic  integer   id of the topic
--   $2  cell   smallint
--   $3  after  text      last key of the page before
-- Returns: A row for each task: key.
PREPARE read_find_dead (integer, smallint, text) AS
SELECT key FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key > $3 AND state = 4 ORDER BY key LIMIT 1000;

-- read_find_dead_by_tag
-- Finds the dead tasks of a cell that have a tag. A page of keys, in order.
-- Sent by: Readings.find
--   $1  topic  integer   id of the topic
--   $2  cell   smallint
--   $3  after  text      last key of the page before
--   $4  tag    text
-- Returns: A row for each task: key.
PREPARE read_find_dead_by_tag (integer, smallint, text, text) AS
SELECT key FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key > $3 AND state = 4 AND $4 = ANY (tags) ORDER BY key LIMIT 1000;

-- read_find_dead_by_prefix
-- Finds the dead tasks of a cell that have a prefix. A page of keys, in order.
-- Sent by: Readings.find
--   $1  topic        integer   id of the topic
--   $2  cell         smallint
--   $3  after        text      last key of the page before
--   $4  prefix       text      the prefix, for a key that equals the prefix
--   $5  prefix_from  text      the prefix and ':'
--   $6  prefix_to    text      the prefix and ';', the character after ':'
-- Returns: A row for each task: key.
PREPARE read_find_dead_by_prefix (integer, smallint, text, text, text, text) AS
(SELECT key FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key > $3 AND state = 4 AND key = $4) UNION ALL (SELECT key FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key > $3 AND state = 4 AND key >= $5 AND key < $6 ORDER BY key LIMIT 1000) ORDER BY key LIMIT 1000;

-- read_counts
-- Returns the sums of the books, and counts the tasks that are due.
-- Sent by: Readings.counts
--   $1  topic  integer  id of the topic
-- Returns: One row: scheduled, done, cancelled, obsolete, dead, claimed, purged; due.
PREPARE read_counts (integer) AS
SELECT coalesce(sum(scheduled), 0)::bigint, coalesce(sum(done), 0)::bigint, coalesce(sum(cancelled), 0)::bigint, coalesce(sum(obsolete), 0)::bigint, coalesce(sum(dead), 0)::bigint, coalesce(sum(claimed), 0)::bigint, coalesce(sum(purged), 0)::bigint, (SELECT count(*) FROM tocsin.live
        WHERE topic = $1 AND ring_ms <= tocsin.now_ms() AND session IS NULL) FROM tocsin.tally WHERE topic = $1;

-- read_books
-- Returns the sums of the books.
-- Sent by: Readings.books
--   $1  topic  integer  id of the topic
-- Returns: One row: scheduled, done, cancelled, obsolete, dead, claimed, purged.
PREPARE read_books (integer) AS
SELECT coalesce(sum(scheduled), 0)::bigint, coalesce(sum(done), 0)::bigint, coalesce(sum(cancelled), 0)::bigint, coalesce(sum(obsolete), 0)::bigint, coalesce(sum(dead), 0)::bigint, coalesce(sum(claimed), 0)::bigint, coalesce(sum(purged), 0)::bigint FROM tocsin.tally WHERE topic = $1;

-- read_forecast
-- Counts the pending tasks per time step, by ring time. Overdue tasks count as ringing now.
-- Sent by: Readings.forecast
--   $1  topic    integer  id of the topic
--   $2  from_ms  bigint
--   $3  to_ms    bigint
--   $4  step_ms  bigint   length of a step
-- Returns: A row for each step that has tasks: its number from 0, how many.
PREPARE read_forecast (integer, bigint, bigint, bigint) AS
SELECT ((greatest(ring_ms, tocsin.now_ms()) - $2::bigint) / $4::bigint)::integer AS step, count(*)
       FROM tocsin.live
       WHERE topic = $1 AND session IS NULL
         AND ring_ms >= CASE WHEN tocsin.now_ms() < $2::bigint THEN $2::bigint ELSE 0 END
         AND ring_ms < CASE WHEN tocsin.now_ms() < $3::bigint THEN $3::bigint ELSE 0 END
       GROUP BY 1;

-- read_recount
-- Returns the sums of the counters and the numbers of rows, both from one snapshot.
-- Sent by: Readings.recount
--   $1  topic  integer  id of the topic
-- Returns: One row: scheduled, done, cancelled, obsolete, dead, claimed, purged; done, cancelled and obsolete tasks
-- that were deleted; live, claimed; JSON of state to number of ended tasks.
PREPARE read_recount (integer) AS
SELECT coalesce(sum(scheduled), 0)::bigint, coalesce(sum(done), 0)::bigint, coalesce(sum(cancelled), 0)::bigint, coalesce(sum(obsolete), 0)::bigint, coalesce(sum(dead), 0)::bigint, coalesce(sum(claimed), 0)::bigint, coalesce(sum(purged), 0)::bigint, coalesce(sum(done_swept), 0)::bigint, coalesce(sum(cancelled_swept), 0)::bigint,
         coalesce(sum(obsolete_swept), 0)::bigint,
         (SELECT count(*) FROM tocsin.live WHERE topic = $1),
         (SELECT count(*) FROM tocsin.live WHERE topic = $1 AND session IS NOT NULL),
         (SELECT json_object_agg(state, tasks) FROM (
           SELECT state, sum(tasks) AS tasks FROM (
             SELECT state, count(*) AS tasks FROM tocsin.ended WHERE topic = $1 GROUP BY state
             UNION ALL SELECT state, sum(count) FROM tocsin.ended_batch WHERE topic = $1 GROUP BY state
           ) AS s GROUP BY state) AS e)
       FROM tocsin.tally WHERE topic = $1;

-- read_list_live
-- Lists live tasks in the order in which they ring. Shown with every condition; a query has some of them.
-- Sent by: Readings.list
--   $1  topic        integer  id of the topic
--   $2  due_from_ms  bigint
--   $3  due_to_ms    bigint
--   $4  prefix       text     the prefix, for a key that equals the prefix
--   $5  prefix_from  text     the prefix and ':'
--   $6  prefix_to    text     the prefix and ';', the character after ':'
--   $7  ring_ms      bigint   of the last task of the page before
--   $8  failures     integer  of the last task of the page before
--   $9  key          text     of the last task of the page before
--   $10 limit        bigint
--   $11 tag          text
-- Returns: A row for each task, as JSON.
PREPARE read_list_live (integer, bigint, bigint, text, text, text, bigint, integer, text, bigint, text) AS
SELECT row_to_json(l) FROM ((SELECT key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\n') AS tags, body FROM tocsin.live WHERE topic = $1 AND session IS NULL AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ring_ms >= $2::bigint - 86400000 AND ring_ms >= $7::bigint AND
        (ring_ms, failures, key) > ($7::bigint, $8::integer, $9) AND tags[1] = $11 ORDER BY ring_ms, failures, key LIMIT $10)
         UNION ALL (SELECT key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\n') AS tags, body FROM tocsin.live WHERE topic = $1 AND session IS NULL AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ring_ms >= $2::bigint - 86400000 AND ring_ms >= $7::bigint AND
        (ring_ms, failures, key) > ($7::bigint, $8::integer, $9) AND tags[2] = $11 ORDER BY ring_ms, failures, key LIMIT $10)
         UNION ALL (SELECT key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\n') AS tags, body FROM tocsin.live WHERE topic = $1 AND session IS NULL AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ring_ms >= $2::bigint - 86400000 AND ring_ms >= $7::bigint AND
        (ring_ms, failures, key) > ($7::bigint, $8::integer, $9) AND tags[3] = $11 ORDER BY ring_ms, failures, key LIMIT $10)
         UNION ALL (SELECT key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\n') AS tags, body FROM tocsin.live WHERE topic = $1 AND session IS NULL AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ring_ms >= $2::bigint - 86400000 AND ring_ms >= $7::bigint AND
        (ring_ms, failures, key) > ($7::bigint, $8::integer, $9) AND tags[4] = $11 ORDER BY ring_ms, failures, key LIMIT $10)
         ORDER BY ring_ms, failures, key LIMIT $10) AS l;

-- read_list_ended
-- Lists tasks that ended in one state, in the order in which they ended. Shown with all conditions; a query has only
-- some of them.
-- Sent by: Readings.list
--   $1  topic        integer  id of the topic
--   $2  due_from_ms  bigint
--   $3  due_to_ms    bigint
--   $4  prefix       text     the prefix, for a key that equals the prefix
--   $5  prefix_from  text     the prefix and ':'
--   $6  prefix_to    text     the prefix and ';', the character after ':'
--   $7  ended_ms     bigint   of the last task of the page before
--   $8  key          text     of the last task of the page before
--   $9  generation   bigint   of the last task of the page before
--   $10 limit        bigint
--   $11 tag          text
-- Returns: A row at least: now_ms; a task as JSON, or null; whether it is superseded.
PREPARE read_list_ended (integer, bigint, bigint, text, text, text, bigint, text, bigint, bigint, text) AS
SELECT tocsin.now_ms(), row_to_json(e), e.state = 4 AND (e.outranked OR coalesce(
      (SELECT true FROM tocsin.live l WHERE l.topic = e.topic AND l.cell = e.cell AND l.key = e.key LIMIT 1),
      (SELECT true FROM tocsin.ended n WHERE n.topic = e.topic AND n.cell = e.cell AND n.key = e.key AND (n.generation > e.generation OR n.ended_ms > e.ended_ms) AND NOT n.outranked LIMIT 1),
      false)) FROM (SELECT) AS one LEFT JOIN ((SELECT key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\n') AS tags, body, topic, cell, outranked FROM tocsin.ended WHERE topic = $1 AND state = 1 AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ended_ms >= $7::bigint AND
        (ended_ms, key, generation) > ($7::bigint, $8, $9::bigint) AND tags[1] = $11 ORDER BY ended_ms, key, generation LIMIT $10)
         UNION ALL (SELECT key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\n') AS tags, body, topic, cell, outranked FROM tocsin.ended WHERE topic = $1 AND state = 1 AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ended_ms >= $7::bigint AND
        (ended_ms, key, generation) > ($7::bigint, $8, $9::bigint) AND tags[2] = $11 ORDER BY ended_ms, key, generation LIMIT $10)
         UNION ALL (SELECT key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\n') AS tags, body, topic, cell, outranked FROM tocsin.ended WHERE topic = $1 AND state = 1 AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ended_ms >= $7::bigint AND
        (ended_ms, key, generation) > ($7::bigint, $8, $9::bigint) AND tags[3] = $11 ORDER BY ended_ms, key, generation LIMIT $10)
         UNION ALL (SELECT key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\n') AS tags, body, topic, cell, outranked FROM tocsin.ended WHERE topic = $1 AND state = 1 AND due_ms >= $2::bigint AND due_ms <= $3::bigint AND cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63) AND (key = $4 OR (key >= $5 AND key < $6)) AND ended_ms >= $7::bigint AND
        (ended_ms, key, generation) > ($7::bigint, $8, $9::bigint) AND tags[4] = $11 ORDER BY ended_ms, key, generation LIMIT $10)
         ORDER BY ended_ms, key, generation LIMIT $10) AS e ON true;

-- read_list_batches
-- Lists tasks in batches that ended in one state, in the order in which they ended. Shown with all conditions; a
-- query has only some of them.
-- Sent by: Readings.list
--   $1  topic        integer  id of the topic
--   $2  from_ms      bigint   time of the first batches to read
--   $3  to_ms        bigint   time of the last batches to read
--   $4  due_from_ms  bigint
--   $5  due_to_ms    bigint
--   $6  prefix       text     the prefix, for a key that equals the prefix
--   $7  prefix_from  text     the prefix and ':'
--   $8  prefix_to    text     the prefix and ';', the character after ':'
--   $9  ended_ms     bigint   of the last task of the page before
--   $10 key          text     of the last task of the page before
--   $11 generation   bigint   of the last task of the page before
--   $12 limit        bigint
-- Returns: A row at least: the time up to which batches were read, null if there are no more; a task as JSON, or
-- null.
PREPARE read_list_batches (integer, bigint, bigint, bigint, bigint, text, text, text, bigint, text, bigint, bigint) AS
WITH found AS MATERIALIZED (
    SELECT * FROM tocsin.ended_batch WHERE topic = $1 AND state = 1 AND ended_ms >= $2::bigint AND ended_ms <= $3::bigint AND due_to_ms >= $4::bigint AND due_from_ms <= $5::bigint AND (cell, id) IN (
        SELECT c.cell, c.id FROM tocsin.ended_batch c WHERE c.topic = $1 AND c.cell IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63)
          AND (tocsin.key_hash($6) = ANY (c.hashes) OR tocsin.key_hash($7) = ANY (c.hashes)))
      AND strpos(E'\x1e' || keys, E'\x1e' || $6::text) > 0 ORDER BY ended_ms FETCH FIRST 64 ROWS WITH TIES
  ),
  -- Without filters, the batches before this time have fewer tasks than the page. All batches of the same time are read,
  -- because their tasks are in the order of their keys.
  enough AS MATERIALIZED (
    SELECT * FROM (
      SELECT found.*, sum(count) OVER (ORDER BY ended_ms) - sum(count) OVER (PARTITION BY ended_ms) AS before FROM found
    ) AS s WHERE true OR before < $12::bigint
  )
  SELECT (SELECT max(ended_ms) FROM enough), row_to_json(e) FROM (SELECT) AS one LEFT JOIN (
    SELECT x.key, x.generation, b.state, b.ended_ms, x.due_ms, 1 AS priority, 0 AS failures,
  1 AS deliveries, x.created_ms, NULL::text AS error, NULL::text AS cause, NULL::text AS tags, x.body FROM enough b CROSS JOIN LATERAL unnest(string_to_array(b.keys, E'\x1e'), b.generations, b.dues_ms, b.created_ms, string_to_array(b.bodies, E'\x1e'))
        AS x (key, generation, due_ms, created_ms, body)
    WHERE true AND x.due_ms >= $4::bigint AND x.due_ms <= $5::bigint AND (x.key = $6 OR (x.key >= $7 AND x.key < $8)) AND (b.ended_ms, x.key, x.generation) >
        ($9::bigint, $10::text COLLATE "C", $11::bigint)
    ORDER BY b.ended_ms, x.key COLLATE "C", x.generation LIMIT $12::bigint
  ) AS e ON true;

-- topic_list
-- Returns the names of all topics.
-- Sent by: PostgresLedger.topics
-- Returns: A row for each topic: name.
PREPARE topic_list AS
SELECT name FROM tocsin.topic ORDER BY name;

-- topic_find
-- Looks up the id of a topic.
-- Sent by: Topics.seen
--   $1  name  text
-- Returns: One row: id. None if there is no such topic.
PREPARE topic_find (text) AS
SELECT id FROM tocsin.topic WHERE name = $1;

-- topic_create
-- Creates a topic if it is not there.
-- Sent by: Topics.made
--   $1  name  text
-- Returns: Nothing.
PREPARE topic_create (text) AS
INSERT INTO tocsin.topic (name) VALUES ($1) ON CONFLICT DO NOTHING;

-- topic_place
-- Stores the placing of a topic and makes slot_by final. Skips the row if another transaction has locked it.
-- Sent by: Topics.placed
--   $1  topic     integer  id of the topic
--   $2  slot_by   text     'key' or 'prefix'
--   $3  merge_ms  bigint
-- Returns: One row if the placing was stored. None if another slot_by is final, or if the row is locked.
PREPARE topic_place (integer, text, bigint) AS
UPDATE tocsin.topic SET slot_by = $2, merge_ms = $3, is_placed = true
  WHERE id = (SELECT id FROM tocsin.topic WHERE id = $1 FOR UPDATE SKIP LOCKED) AND (NOT is_placed OR slot_by = $2)
  RETURNING id;

-- topic_announce
-- Stores the placing of a topic without making slot_by final. As long as slot_by is not final, 'prefix' replaces
-- 'key', because 'key' is the default. Skips the row if another transaction has locked it.
-- Sent by: Topics.announce
--   $1  topic     integer  id of the topic
--   $2  slot_by   text     'key' or 'prefix'
--   $3  merge_ms  bigint
-- Returns: One row if it was stored.
PREPARE topic_announce (integer, text, bigint) AS
UPDATE tocsin.topic SET slot_by = $2, merge_ms = $3
  WHERE id = (SELECT id FROM tocsin.topic WHERE id = $1 FOR UPDATE SKIP LOCKED)
    AND (slot_by IS NULL OR slot_by = $2 OR (NOT is_placed AND slot_by = 'key')) RETURNING id;

-- topic_slot_by
-- Returns the stored slot_by of a topic, and whether it is final. Waits for a transaction that may change slot_by,
-- and not for one that only makes it final.
-- Sent by: Topics.placed
--   $1  topic  integer  id of the topic
-- Returns: One row: slot_by, a boolean.
PREPARE topic_slot_by (integer) AS
SELECT slot_by, is_placed FROM tocsin.topic WHERE id = $1 FOR KEY SHARE;

-- topic_fixed_slot_by
-- Returns the slot_by of a topic if it is final.
-- Sent by: Topics.agreed
--   $1  topic  integer  id of the topic
-- Returns: One row: slot_by. None if slot_by is not final.
PREPARE topic_fixed_slot_by (integer) AS
SELECT slot_by FROM tocsin.topic WHERE id = $1 AND is_placed;

-- transaction_current_id
-- Returns the id of the current transaction. Outside of a transaction each statement has an id of its own.
-- Sent by: CallerTransaction, OpenHandlerTransaction
-- Returns: One row: the id, as text.
PREPARE transaction_current_id AS
SELECT pg_current_xact_id()::text AS xid;

-- transaction_has_ledger
-- Checks whether the database has a ledger. This is a separate statement, because ledger_id would abort the
-- transaction if the table is missing.
-- Sent by: CallerTransactions
-- Returns: One row: a boolean.
PREPARE transaction_has_ledger AS
SELECT to_regclass('tocsin.meta') IS NOT NULL AS there;

-- transaction_ledger_id
-- Returns the id of the ledger.
-- Sent by: CallerTransactions
-- Returns: One row: the id.
PREPARE transaction_ledger_id AS
SELECT value FROM tocsin.meta WHERE name = 'id';

-- transaction_feed
-- Adds the tasks of a write to the commit feed (tocsin.news). Does nothing if the current transaction has another id.
-- Sent by: CallerTransaction
--   $1  topic           integer     id of the topic
--   $2  cells           smallint[]
--   $3  keys            text[]
--   $4  transaction_id  text
-- Returns: A row for each task; none in another transaction.
PREPARE transaction_feed (integer, smallint[], text[], text) AS
INSERT INTO tocsin.news SELECT $1::integer, unnest($2::smallint[]), unnest($3::text[])
  WHERE $4::text = pg_current_xact_id()::text RETURNING cell;

-- transaction_hold
-- Locks the tasks that are held under these stamps, by primary key and in order, until the handler commits.
-- Sent by: OpenHandlerTransaction.hold
--   $1  topic    integer     id of the topic
--   $2  cells    smallint[]
--   $3  keys     text[]
--   $4  stamps   bigint[]    stamp of each claim
--   $5  session  bigint      session of the process that holds the claims
-- Returns: A row for each that is held: key.
PREPARE transaction_hold (integer, smallint[], text[], bigint[], bigint) AS
SELECT l.key FROM (
    SELECT * FROM unnest($2::smallint[], $3::text[], $4::bigint[]) AS i (cell, key, stamp) ORDER BY cell, key
  ) i CROSS JOIN LATERAL (
    SELECT l.key FROM tocsin.live l WHERE l.topic = $1::integer AND l.cell = i.cell AND l.key = i.key
      AND l.session = $5::bigint AND l.stamp = i.stamp FOR UPDATE
  ) l;

-- board_beat
-- Counts a beat of a node, stores its card, and sends a NOTIFY if the card is new. A delayed beat counts, but does
-- not replace a newer card.
-- Sent by: PostgresBoard.beat
--   $1  id       text    id of the node
--   $2  edition  bigint  number of the card
--   $3  card     text    as JSON
-- Returns: A row for each node, its own included: id, beats, edition, milliseconds since its beat; revision of the
-- board, now_ms.
PREPARE board_beat (text, bigint, text) AS
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
    former AS (SELECT edition FROM tocsin.node WHERE id = $1),
    mine AS (
      INSERT INTO tocsin.node AS n (id, beats, edition, beat_at, card, reads_batches)
      SELECT $1, 1, $2::bigint, t.now, $3, true FROM t
      ON CONFLICT (id) DO UPDATE SET beats = n.beats + 1, beat_at = excluded.beat_at,
        edition = greatest(n.edition, excluded.edition),
        card = CASE WHEN excluded.edition < n.edition THEN n.card ELSE excluded.card END
      RETURNING id, beats, edition
    ),
    told AS (
      SELECT pg_notify('tocsin', '?board')::text FROM mine WHERE NOT EXISTS (SELECT FROM former WHERE former.edition >= mine.edition)
    ),
    -- This query does not see the row that "mine" has just written. So the node's own row is taken from "mine".
    others AS (
      SELECT id, beats, edition, greatest(0, floor(extract(epoch FROM t.now) * 1000)::bigint - floor(extract(epoch FROM beat_at) * 1000)::bigint) AS age_ms
      FROM tocsin.node, t WHERE id <> $1
    )
    SELECT h.*, (SELECT count(*) || '-' || coalesce(sum(version), 0) || '-' || coalesce(sum(hashtext(concat_ws('/', topic, slots, slot_by, change_id))), 0)
      FROM tocsin.topic_config), floor(extract(epoch FROM t.now) * 1000)::bigint, (SELECT count(*) FROM told)
    FROM t, (SELECT id, beats, edition, 0::bigint FROM mine UNION ALL SELECT * FROM others) h;

-- board_cards
-- Returns the cards of all nodes.
-- Sent by: PostgresBoard.cards
-- Returns: A row for each node: card, as JSON.
PREPARE board_cards AS
SELECT card FROM tocsin.node ORDER BY id;

-- board_reads_batches
-- Returns whether all nodes read batches of ended tasks (tocsin.ended_batch).
-- Sent by: PostgresBoard.readsBatches
-- Returns: One row: a boolean.
PREPARE board_reads_batches AS
SELECT NOT EXISTS (SELECT FROM tocsin.node WHERE NOT reads_batches);

-- board_leave
-- Removes a node that shuts down.
-- Sent by: PostgresBoard.leave
--   $1  id  text  id of the node
-- Returns: One row if it was there.
PREPARE board_leave (text) AS
WITH gone AS (DELETE FROM tocsin.node WHERE id = $1 RETURNING id) SELECT pg_notify('tocsin', '?board')::text FROM gone;

-- board_bury
-- Removes a dead node, unless its count of beats has changed. Waits for a concurrent beat.
-- Sent by: PostgresBoard.bury
--   $1  id     text    id of the node
--   $2  beats  bigint  the count of beats when the node was found dead
-- Returns: One row if it was removed.
PREPARE board_bury (text, bigint) AS
WITH gone AS (DELETE FROM tocsin.node WHERE id = $1 AND beats = $2 RETURNING id) SELECT pg_notify('tocsin', '?board')::text FROM gone;

-- board_records
-- Returns the settings of all topics.
-- Sent by: PostgresBoard.records
-- Returns: A row for each topic: topic, version, slots, slot_by, declared, live, is_paused.
PREPARE board_records AS
SELECT topic, version, slots, slot_by, declared, live, is_paused FROM tocsin.topic_config ORDER BY topic;

-- board_create
-- Creates the settings of a topic if they do not exist. If the slot_by of the topic is already final, the settings
-- get that slot_by.
-- Sent by: PostgresBoard.create
--   $1  topic    text      name of the topic
--   $2  slots    smallint
--   $3  slot_by  text      'key' or 'prefix'
-- Returns: One row: topic, version, slots, slot_by, declared, live, is_paused. None if another process has just
-- created them: send it again.
PREPARE board_create (text, smallint, text) AS
WITH made AS (
      INSERT INTO tocsin.topic_config (topic, version, slots, slot_by, declared, live, is_paused) SELECT $1, 0, $2::smallint,
        coalesce((SELECT slot_by FROM tocsin.topic WHERE name = $1 AND is_placed), $3), '{}', '{}', false
      ON CONFLICT (topic) DO NOTHING RETURNING topic, version, slots, slot_by, declared, live, is_paused
    )
    SELECT topic, version, slots, slot_by, declared, live, is_paused, pg_notify('tocsin', '?board')::text FROM made UNION ALL SELECT topic, version, slots, slot_by, declared, live, is_paused, '' FROM tocsin.topic_config WHERE topic = $1;

-- board_change
-- Changes the settings of a topic if they have the expected version, and notes the change in the history.
-- Sent by: PostgresBoard.change
--   $1  topic       text     name of the topic
--   $2  expected    integer  version before the change
--   $3  live        text     as JSON
--   $4  is_paused   boolean
--   $5  change_id   text     id by which a repeated change is recognized
--   $6  changed_by  text
--   $7  patch       text     as JSON
--   $8  declared    text     as JSON
-- Returns: One row: whether this change made the next version, topic, version, slots, slot_by, declared, live,
-- is_paused. None if there is no such topic.
PREPARE board_change (text, integer, text, boolean, text, text, text, text) AS
WITH changed AS (
      UPDATE tocsin.topic_config SET version = version + 1, declared = $8, live = $3, is_paused = $4, change_id = $5
      WHERE topic = $1 AND version = $2::integer RETURNING topic, version, slots, slot_by, declared, live, is_paused
    ),
    noted AS (
      INSERT INTO tocsin.config_change (topic, version, change_id, changed_at, changed_by, patch)
      SELECT topic, version, $5, clock_timestamp(), $6, $7 FROM changed
    ),
    pruned AS (
      DELETE FROM tocsin.config_change WHERE topic = $1 AND version <= (SELECT version - 100 FROM changed)
    )
    SELECT true, topic, version, slots, slot_by, declared, live, is_paused, pg_notify('tocsin', '?board')::text FROM changed
    UNION ALL
    SELECT EXISTS (
        SELECT FROM tocsin.config_change c WHERE c.topic = $1 AND c.version = $2::integer + 1 AND c.change_id = $5
      ), topic, version, slots, slot_by, declared, live, is_paused, ''
    FROM tocsin.topic_config WHERE topic = $1 AND NOT EXISTS (SELECT FROM changed);

-- board_history
-- Returns the last changes of the settings of a topic, the newest first.
-- Sent by: PostgresBoard.history
--   $1  topic  text    name of the topic
--   $2  limit  bigint
-- Returns: A row for each change: version, when in Unix milliseconds, by whom, patch as JSON.
PREPARE board_history (text, bigint) AS
SELECT version, floor(extract(epoch FROM changed_at) * 1000)::bigint, changed_by, patch FROM tocsin.config_change
    WHERE topic = $1 ORDER BY version DESC LIMIT $2;

-- board_tokens
-- Returns all access tokens.
-- Sent by: PostgresBoard.tokens
-- Returns: A row for each token, as JSON.
PREPARE board_tokens AS
SELECT token FROM tocsin.access_token;

-- board_put_token
-- Stores an access token.
-- Sent by: PostgresBoard.putToken
--   $1  id     text  id of the token
--   $2  token  text  as JSON
-- Returns: Nothing.
PREPARE board_put_token (text, text) AS
INSERT INTO tocsin.access_token (id, token) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET token = excluded.token;

-- board_drop_token
-- Deletes an access token.
-- Sent by: PostgresBoard.dropToken
--   $1  id  text  id of the token
-- Returns: One row if it was there.
PREPARE board_drop_token (text) AS
DELETE FROM tocsin.access_token WHERE id = $1 RETURNING id;

-- upkeep_server
-- Returns the version of the server, and whether it is a standby.
-- Sent by: openPostgres
-- Returns: One row: server_version_num, a boolean.
PREPARE upkeep_server AS
SELECT current_setting('server_version_num')::integer, pg_is_in_recovery();

-- upkeep_new_session
-- Returns the number of a new session. Claims are held under the session of the process and the stamp of the claim.
-- Sent by: openPostgres
-- Returns: One row: the number.
PREPARE upkeep_new_session AS
SELECT nextval('tocsin.session');

-- upkeep_now
-- Returns the time of the clock of record, in Unix milliseconds.
-- Sent by: PostgresLedger.nowMs
-- Returns: One row: the time.
PREPARE upkeep_now AS
SELECT tocsin.now_ms();

-- upkeep_take_feed
-- Takes tasks from the commit feed (tocsin.news). If the process dies before it updates the timetable, the sweeper
-- finds the tasks when they are overdue.
-- Sent by: PostgresLedger.committedWrites
--   $1  topic  integer  id of the topic
-- Returns: A row for each task: cell, key.
PREPARE upkeep_take_feed (integer) AS
DELETE FROM tocsin.news WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM tocsin.news WHERE topic = $1 LIMIT 1000 FOR UPDATE SKIP LOCKED
  )) RETURNING cell, key;

-- upkeep_merge_books
-- Merges rows of tocsin.tally into one row. A write that changes counters appends a row with its changes; the sums of
-- the rows are the counters.
-- Sent by: PostgresLedger.forget
--   $1  topic  integer  id of the topic
-- Returns: Nothing.
PREPARE upkeep_merge_books (integer) AS
WITH rows AS (
         DELETE FROM tocsin.tally WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM tocsin.tally WHERE topic = $1 LIMIT 10000 FOR UPDATE SKIP LOCKED
         )) RETURNING *
       )
       INSERT INTO tocsin.tally (topic, scheduled, done, cancelled, obsolete, dead, claimed, purged, done_swept, cancelled_swept, obsolete_swept) SELECT $1, coalesce(sum(scheduled), 0), coalesce(sum(done), 0), coalesce(sum(cancelled), 0), coalesce(sum(obsolete), 0), coalesce(sum(dead), 0), coalesce(sum(claimed), 0), coalesce(sum(purged), 0), coalesce(sum(done_swept), 0), coalesce(sum(cancelled_swept), 0), coalesce(sum(obsolete_swept), 0) FROM rows HAVING count(*) > 0;

-- upkeep_notify
-- Sends a message to this process itself, to find out whether LISTEN works on its connection.
-- Sent by: Listener
--   $1  channel  text
--   $2  payload  text
-- Returns: One row.
PREPARE upkeep_notify (text, text) AS
SELECT pg_notify($1, $2);
