/**
 * The SQL functions `tocsin.schedule`, `tocsin.cancel` and `tocsin.reschedule`. With them, programs in any language
 * write tasks inside their own transactions. The functions validate what the library validates, raise the same error
 * codes, and run the library's statements.
 *
 * The functions are replaced when the tables change, and when SQL_FUNCTIONS_VERSION is higher than the version in the
 * database. If you change what a released function does, increase SQL_FUNCTIONS_VERSION by one. Without the version,
 * two releases of a program on one database would replace each other's functions in turn. If you add, rename or remove
 * a parameter, PostgreSQL creates another function: drop the old function in a step of migrations.ts.
 *
 * The text of the functions is plain ASCII, because the encoding of the database may not be UTF-8.
 */
import { CELLS } from '../../values/cell.ts'
import { CRC32_TABLE } from '../../lib/crc32.ts'
import { LONGEST_DURATION_MS } from '../../values/duration.ts'
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import { KEY_BYTES_MAX, TAG_BYTES_MAX, TAGS_MAX, TOPIC_NAME } from '../../values/key.ts'
import { PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX } from '../../values/payload.ts'
import { PRIORITIES } from '../../task.ts'
import { priorityNumber } from '../rows.ts'
import { SQL_STATES, type SqlErrorCode } from './sql-states.ts'
import { NOTIFY_WITHIN_MS } from './statement-runner.ts'
import { WRITES } from './statements/writes.ts'

export const SQL_FUNCTIONS_VERSION = 2

/** Value of the column `supersedes`: the replaced task was in flight. */
const IN_FLIGHT = 3

/** Matches the control characters (\p{Cc}) except for NUL, which a text of PostgreSQL cannot contain. */
const CONTROL_CHARACTER = "'[\\u0001-\\u001f\\u007f-\\u009f]'"

const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

/** Returns an SQL statement that raises an error. `message` is an SQL expression, and `hint` is a plain text. */
function refuse(code: SqlErrorCode, message: string, hint: string): string {
  return `RAISE EXCEPTION USING ERRCODE = '${SQL_STATES[code]}', MESSAGE = ${quoted(`${code}: `)} || ${message},
        HINT = ${quoted(hint)};`
}

/**
 * Returns a statement of the library for one task. `values` are SQL expressions in place of its parameters. `into` are
 * the variables to which the columns of its first row are assigned.
 */
function inlined(statement: string, values: readonly string[], into: readonly string[]): string {
  const text = statement.replaceAll(/\$(\d+)/g, (_, n) => values[Number(n) - 1] as string)
  return `${text} INTO ${into.map((name) => `v.${name}`).join(', ')};`
}

/**
 * The search_path is set, so that the caller's search_path cannot redirect names. The generic plan is forced, because
 * one plan is the best for arrays of any length.
 */
const SETTINGS =
  'SET search_path = pg_catalog, tocsin, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off'

const CRC32 = `
  CREATE OR REPLACE FUNCTION tocsin.crc32(bytes bytea) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $tocsin$
    DECLARE crc bigint := 4294967295;
    BEGIN
      FOR i IN 0 .. length(bytes) - 1 LOOP
        crc := ('{${[...CRC32_TABLE].join(',')}}'::bigint[])[1 + ((crc # get_byte(bytes, i)) & 255)::integer] # (crc >> 8);
      END LOOP;
      RETURN crc # 4294967295;
    END $tocsin$;`

/** Returns the cell of a key, computed in the same way as cellOf in cell.ts. */
const CELL_OF = `
  CREATE OR REPLACE FUNCTION tocsin.cell_of(key text, slot_by text) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $tocsin$
    SELECT (tocsin.crc32(convert_to(CASE slot_by WHEN 'prefix' THEN split_part(key, ':', 1) ELSE key END, 'UTF8'))
      & ${CELLS - 1})::smallint $tocsin$;`

/** Returns a value for an error message: shortened, and in one line. */
const SHOWN = `
  CREATE OR REPLACE FUNCTION tocsin.shown(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $tocsin$
    SELECT coalesce('''' || regexp_replace(CASE WHEN length(value) > 60 THEN left(value, 57) || '...' ELSE value END,
      ${CONTROL_CHARACTER}, '?', 'g') || '''', 'NULL') $tocsin$;`

/** Returns what is wrong with a text, or NULL if the text is valid. The rules are the same as in key.ts. */
const TEXT_PROBLEM = `
  CREATE OR REPLACE FUNCTION tocsin.text_problem(value text, bytes_max integer) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $tocsin$
    SELECT CASE
      WHEN value IS NULL THEN 'it is NULL'
      WHEN value = '' THEN 'it is empty'
      WHEN value ~ ${CONTROL_CHARACTER} THEN 'it has a control character'
      WHEN octet_length(convert_to(value, 'UTF8')) > bytes_max THEN
        format('it has %s bytes, at most %s are taken', octet_length(convert_to(value, 'UTF8')), bytes_max)
    END $tocsin$;`

/** Returns the tags as one text, one tag per line, sorted and without duplicates. Returns NULL if there are no tags. */
const CHECKED_TAGS = `
  CREATE OR REPLACE FUNCTION tocsin.checked_tags(tags text[]) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $tocsin$
    DECLARE
      wrong record;
      unique_tags text[];
    BEGIN
      IF coalesce(cardinality(tags), 0) = 0 THEN RETURN NULL; END IF;
      IF array_ndims(tags) > 1 THEN
        ${refuse('bad-tags', "'tags: expected a list of texts, got a list of lists'", "Write tags => '{a,b}'.")}
      END IF;
      SELECT n, tag, tocsin.text_problem(tag, ${TAG_BYTES_MAX}) AS problem INTO wrong
        FROM unnest(tags) WITH ORDINALITY AS given (tag, n)
        WHERE tocsin.text_problem(tag, ${TAG_BYTES_MAX}) IS NOT NULL ORDER BY n LIMIT 1;
      IF FOUND THEN
        ${refuse(
          'bad-tags',
          "format('tags[%s]: %s is not a tag: %s', wrong.n, tocsin.shown(wrong.tag), wrong.problem)",
          `At most ${TAGS_MAX} tags of ${TAG_BYTES_MAX} bytes.`,
        )}
      END IF;
      unique_tags := ARRAY(SELECT DISTINCT tag COLLATE "C" FROM unnest(tags) AS given (tag) ORDER BY 1);
      IF cardinality(unique_tags) > ${TAGS_MAX} THEN
        ${refuse(
          'bad-tags',
          `format('tags: %s tags; at most ${TAGS_MAX} are kept', cardinality(unique_tags))`,
          `At most ${TAGS_MAX} tags of ${TAG_BYTES_MAX} bytes.`,
        )}
      END IF;
      RETURN array_to_string(unique_tags, E'\\n');
    END $tocsin$;`

/**
 * Returns the payload as JSON text, in which control characters are escaped. PostgreSQL writes a space after each ':'
 * and ','. These spaces are removed if the text would be too large with them.
 */
const CHECKED_BODY = `
  CREATE OR REPLACE FUNCTION tocsin.checked_body(payload jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $tocsin$
    DECLARE
      body text := payload::text;
      bytes integer := octet_length(convert_to(body, 'UTF8'));
    BEGIN
      IF payload IS NULL THEN
        ${refuse('bad-payload', "'payload: cannot be sent as JSON: it is NULL, or was not given'", "Write payload => 'null' for nothing.")}
      END IF;
      IF bytes > ${PAYLOAD_BYTES_MAX} THEN
        body := regexp_replace(body, '("(?:[^"\\\\]|\\\\.)*")|\\s+', '\\1', 'g');
        bytes := octet_length(convert_to(body, 'UTF8'));
      END IF;
      IF bytes > ${PAYLOAD_BYTES_MAX} THEN
        ${refuse(
          'payload-too-large',
          `format('payload: %s bytes of JSON; at most ${PAYLOAD_BYTES_MAX} are taken', bytes)`,
          'Keep large things in a table of your own and put their name here.',
        )}
      END IF;
      IF jsonb_path_exists(payload, 'strict $.**{${PAYLOAD_DEPTH_MAX}} ? (@.type() == "array" || @.type() == "object")') THEN
        ${refuse(
          'bad-payload',
          `'payload: cannot be sent as JSON: it is nested more than ${PAYLOAD_DEPTH_MAX} levels deep'`,
          'Make it flatter.',
        )}
      END IF;
      IF strpos(body, '__proto__') > 0 AND jsonb_path_exists(payload, '$.**."__proto__"') THEN
        ${refuse(
          'bad-payload',
          quoted("payload: cannot be sent as JSON: it has a key named '__proto__'"),
          'That turns into an attack when objects are merged: name it otherwise.',
        )}
      END IF;
      RETURN body;
    END $tocsin$;`

/**
 * Returns the milliseconds since 1970, rounded up to a whole number: a task may ring a fraction of a millisecond late,
 * but never early. The whole minutes and the rest are converted separately, because `extract(epoch …)` returns an
 * inexact floating-point number in PostgreSQL 13.
 */
const WHOLE_MS = `
  CREATE OR REPLACE FUNCTION tocsin.whole_ms(utc timestamp) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $tocsin$
    SELECT (extract(epoch FROM date_trunc('minute', utc)) * 1000)::bigint
      + ceil(extract(microseconds FROM utc)::numeric / 1000)::bigint $tocsin$;`

/**
 * Converts `at` or `delay` into milliseconds. In a delay, a day always has 24 hours, whatever the session's time zone,
 * and a month is a calendar month.
 */
const RING_TIME = `
  CREATE OR REPLACE FUNCTION tocsin.ring_time(at timestamptz, delay interval, OUT kind text, OUT ms bigint)
    LANGUAGE plpgsql STABLE AS $tocsin$
    DECLARE
      wanted timestamptz := at;
      now_utc timestamp := to_timestamp(tocsin.now_ms() / 1000.0) AT TIME ZONE 'UTC';
    BEGIN
      IF wanted IS NOT NULL AND delay IS NOT NULL THEN
        ${refuse('bad-time', "'both at and delay are given'", 'Use one of them.')}
      END IF;
      IF wanted IS NULL AND delay IS NULL THEN
        ${refuse('bad-time', "'neither at nor delay is given'", "Say when, like delay => interval '30 minutes'.")}
      END IF;
      kind := CASE WHEN delay IS NULL THEN 'at' ELSE 'delay' END;
      IF kind = 'at' THEN
        IF isfinite(wanted) AND wanted BETWEEN to_timestamp(0) AND to_timestamp(${LAST_INSTANT_MS} / 1000.0) THEN
          ms := tocsin.whole_ms(wanted AT TIME ZONE 'UTC');
          RETURN;
        END IF;
        ${refuse(
          'bad-time',
          "format('at: %s is not an instant Tocsin takes', wanted)",
          `The first is 1970-01-01, the last ${new Date(LAST_INSTANT_MS).toISOString()}.`,
        )}
      END IF;
      -- Roughly first: what is far too long cannot be added to anything.
      IF isfinite(delay) AND abs(extract(epoch FROM delay)) < ${LONGEST_DURATION_MS / 1000} * 2 THEN
        delay := now_utc + delay - now_utc;
        ms := tocsin.whole_ms(timestamp 'epoch' + delay);
      END IF;
      IF delay >= interval '0' AND ms <= ${LONGEST_DURATION_MS} THEN RETURN; END IF;
      ${refuse('bad-duration', "format('delay: %s is not a duration', delay)", "From 0 to 36500 days, like interval '30 minutes'.")}
    END $tocsin$;`

/**
 * Returns the id of the topic, the cell of the task, and the merge interval in milliseconds. If `is_placing` is true,
 * the topic gets a task, and its slot_by becomes final.
 */
const PLACE = `
  CREATE OR REPLACE FUNCTION tocsin.place(
    topic text, key text, is_placing boolean, OUT topic_id integer, OUT cell smallint, OUT merge_ms bigint
  ) LANGUAGE plpgsql AS $tocsin$
    <<v>>
    DECLARE
      problem text := coalesce(
        tocsin.text_problem(key, ${KEY_BYTES_MAX}), CASE WHEN key IN ('.', '..') THEN 'it is a path trick' END);
      slot_by text;
      is_placed boolean;
      known text;
      shard text;
      home integer;
    BEGIN
      IF topic IS NULL OR topic !~ ${quoted(TOPIC_NAME.source)} THEN
        ${refuse(
          'bad-topic',
          "tocsin.shown(topic) || ' is not a topic name'",
          "Use a lower-case letter, then up to 63 of a-z 0-9 . _ -, like 'order.unpaid'.",
        )}
      END IF;
      IF problem IS NOT NULL THEN
        ${refuse(
          'bad-key',
          "format('key: %s is not a key: %s', tocsin.shown(key), problem)",
          `1 to ${KEY_BYTES_MAX} bytes of UTF-8 without control characters.`,
        )}
      END IF;
      SELECT t.id, t.slot_by, t.merge_ms, t.is_placed INTO topic_id, v.slot_by, merge_ms, v.is_placed
        FROM tocsin.topic t WHERE t.name = place.topic;
      IF v.slot_by IS NULL THEN
        SELECT string_agg(name, ', ') INTO known
          FROM (SELECT t.name FROM tocsin.topic t WHERE t.slot_by IS NOT NULL ORDER BY 1 LIMIT 10) AS first;
        ${refuse(
          'unknown-topic',
          "format('topic: no program has used %s in this database; known: %s', tocsin.shown(topic), coalesce(known, 'none'))",
          'Start a consumer of it, or schedule a task from the program, first: that says how its keys are placed.',
        )}
      END IF;
      IF is_placing AND NOT v.is_placed THEN
        -- Another transaction may hold the row. If it makes slot_by final, too, it is not waited for. If it may change
        -- slot_by, it is waited for: it has locked the row FOR UPDATE, and it is short.
        UPDATE tocsin.topic t SET is_placed = true
          WHERE t.id = (SELECT s.id FROM tocsin.topic s WHERE s.id = topic_id FOR NO KEY UPDATE SKIP LOCKED)
          RETURNING t.slot_by INTO v.slot_by;
        IF NOT FOUND THEN
          SELECT t.slot_by INTO v.slot_by FROM tocsin.topic t WHERE t.id = topic_id FOR KEY SHARE;
        END IF;
      END IF;
      cell := tocsin.cell_of(key, v.slot_by);
      SELECT m.value INTO shard FROM tocsin.meta m WHERE m.name = 'shard';
      home := cell * split_part(shard, ' of ', 2)::integer / ${CELLS} + 1;
      IF home <> split_part(shard, ' of ', 1)::integer THEN
        ${refuse(
          'bad-tx',
          "format('key: %s lives in database %s of %s, and this is %s', tocsin.shown(key), home, split_part(shard, ' of ', 2), shard)",
          'A transaction is of one database: write it there.',
        )}
      END IF;
    END $tocsin$;`

const FEED = 'INSERT INTO tocsin.news (topic, cell, key) VALUES (v.topic_id, v.cell, v.my_key);'
const PLACED = 'SELECT p.topic_id, p.cell, p.merge_ms INTO v.topic_id, v.cell, v.merge_ms FROM'
const PLACE_VARIABLES = `
      my_key text;
      topic_name text := topic;
      topic_id integer;
      cell smallint;
      merge_ms bigint;`
const PLACE_VALUES = ['v.topic_id', 'ARRAY[v.cell]', 'ARRAY[v.my_key]']
/**
 * Values for the parameters lock_timeout_ms and transaction_id. NULL means the setting of the connection, and any
 * transaction.
 */
const TERMS_VALUES = ['NULL', 'NULL']
/** Value for the parameter not_after_ms: the function takes effect when the caller's transaction commits. */
const ANY_TIME = 'NULL'
const NOTIFY_VALUES = [String(NOTIFY_WITHIN_MS), 'v.topic_name']

const scheduled = (statement: string): string =>
  inlined(
    statement,
    [
      ...PLACE_VALUES,
      'ARRAY[v.ms]',
      "ARRAY[v.kind = 'delay']",
      'ARRAY[v.priority_number]',
      'ARRAY[v.tag_lines]',
      'v.body',
      'v.merge_ms',
      ...TERMS_VALUES,
      ...NOTIFY_VALUES,
      // expects_new has no effect here. Only the function of prepared-steps.ts tries an insert-only statement first.
      'false',
      ANY_TIME,
    ],
    ['now_ms', 'superseded', 'written'],
  )

const SCHEDULE = `
  CREATE OR REPLACE FUNCTION tocsin.schedule(
    topic text, INOUT key text, at timestamptz DEFAULT NULL, payload jsonb DEFAULT NULL, tags text[] DEFAULT NULL,
    priority text DEFAULT 'normal', on_conflict text DEFAULT 'replace', delay interval DEFAULT NULL,
    OUT outcome text, OUT due_at timestamptz, OUT in_flight boolean
  ) LANGUAGE plpgsql ${SETTINGS} AS $tocsin$
    #variable_conflict use_column
    <<v>>
    DECLARE ${PLACE_VARIABLES}
      body text := tocsin.checked_body(payload);
      tag_lines text := tocsin.checked_tags(tags);
      kind text;
      ms bigint;
      priority_number smallint := CASE coalesce(priority, 'normal')
        ${PRIORITIES.map((name) => `WHEN '${name}' THEN ${priorityNumber(name)}`).join(' ')} END;
      now_ms double precision;
      superseded text;
      written text;
    BEGIN
      v.my_key := coalesce(key, gen_random_uuid()::text);
      SELECT r.kind, r.ms INTO v.kind, v.ms FROM tocsin.ring_time(at, delay) r;
      IF v.priority_number IS NULL THEN
        ${refuse('bad-option', "'priority: ' || tocsin.shown(priority)", `Use ${PRIORITIES.join(', ')}.`)}
      END IF;
      IF on_conflict NOT IN ('replace', 'keep') THEN
        ${refuse('bad-option', "'on_conflict: ' || tocsin.shown(on_conflict)", 'Use replace, keep.')}
      END IF;
      ${PLACED} tocsin.place(v.topic_name, v.my_key, true) p;
      IF on_conflict = 'keep' THEN
        ${scheduled(WRITES.scheduleKeeping.text)}
        outcome := CASE WHEN v.written IS NULL THEN 'kept' WHEN v.superseded IS NULL THEN 'created' ELSE 'replaced' END;
      ELSE
        ${scheduled(WRITES.schedule.text)}
        outcome := CASE WHEN v.superseded IS NULL THEN 'created' ELSE 'replaced' END;
      END IF;
      -- It is there, and ours until the transaction is over: also one that was kept was locked for that.
      SELECT to_timestamp(l.due_ms / 1000.0), CASE schedule.outcome
          WHEN 'kept' THEN l.session IS NOT NULL AND l.lease_ms > v.now_ms
          ELSE l.supersedes = ${IN_FLIGHT}
        END
        INTO due_at, in_flight
        FROM tocsin.live l WHERE l.topic = v.topic_id AND l.cell = v.cell AND l.key = v.my_key;
      key := v.my_key;
      IF outcome <> 'kept' THEN ${FEED} END IF;
    END $tocsin$;`

const CANCEL = `
  CREATE OR REPLACE FUNCTION tocsin.cancel(topic text, INOUT key text, OUT outcome text)
    LANGUAGE plpgsql ${SETTINGS} AS $tocsin$
    #variable_conflict use_column
    <<v>>
    DECLARE ${PLACE_VARIABLES}
      found_key text;
      is_held boolean;
    BEGIN
      v.my_key := key;
      ${PLACED} tocsin.place(v.topic_name, v.my_key, false) p;
      ${inlined(WRITES.cancel.text, [...PLACE_VALUES, ...TERMS_VALUES, ANY_TIME], ['found_key', 'is_held'])}
      outcome := CASE WHEN v.found_key IS NULL THEN 'not-found' WHEN v.is_held THEN 'in-flight' ELSE 'cancelled' END;
      IF outcome <> 'not-found' THEN ${FEED} END IF;
    END $tocsin$;`

const RESCHEDULE = `
  CREATE OR REPLACE FUNCTION tocsin.reschedule(
    topic text, INOUT key text, at timestamptz DEFAULT NULL, delay interval DEFAULT NULL,
    OUT outcome text, OUT due_at timestamptz
  ) LANGUAGE plpgsql ${SETTINGS} AS $tocsin$
    #variable_conflict use_column
    <<v>>
    DECLARE ${PLACE_VARIABLES}
      kind text;
      ms bigint;
      found_key text;
      became text;
      due_ms double precision;
    BEGIN
      v.my_key := key;
      SELECT r.kind, r.ms INTO v.kind, v.ms FROM tocsin.ring_time(at, delay) r;
      ${PLACED} tocsin.place(v.topic_name, v.my_key, false) p;
      ${inlined(
        WRITES.reschedule.text,
        [...PLACE_VALUES, 'v.kind', 'v.ms', 'v.merge_ms', ...TERMS_VALUES, ...NOTIFY_VALUES, ANY_TIME],
        ['found_key', 'became', 'due_ms'],
      )}
      outcome := coalesce(v.became, 'not-found');
      due_at := CASE outcome WHEN 'rescheduled' THEN to_timestamp(v.due_ms / 1000.0) END;
      IF outcome <> 'not-found' THEN ${FEED} END IF;
    END $tocsin$;`

const COMMENTS = `
  COMMENT ON FUNCTION tocsin.schedule IS
    'Schedules a task, at an instant or after a delay. A key of NULL is made. What is refused has SQLSTATE TC...';
  COMMENT ON FUNCTION tocsin.cancel IS 'Calls a task off: cancelled, in-flight or not-found.';
  COMMENT ON FUNCTION tocsin.reschedule IS 'Moves a task: rescheduled, in-flight or not-found.';`

export const SQL_FUNCTIONS = [
  CRC32,
  CELL_OF,
  SHOWN,
  TEXT_PROBLEM,
  CHECKED_TAGS,
  CHECKED_BODY,
  WHOLE_MS,
  RING_TIME,
  PLACE,
  SCHEDULE,
  CANCEL,
  RESCHEDULE,
  COMMENTS,
].join('\n')
