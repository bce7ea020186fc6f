import { TocsinError } from '../../errors.ts'
import { COUNTERS, DEAD } from '../rows.ts'
import { ISOLATED } from './earlier-prefixes.ts'
import type { Schema } from './schema.ts'
import { TOO_LARGE, TOO_LATE } from './sql-states.ts'
import { SQL_FUNCTIONS, SQL_FUNCTIONS_VERSION } from './sql-functions.ts'

/**
 * The tables, in the schema 'tocsin', as numbered steps. A released step never changes, not even its comments: add
 * another step instead.
 */
export const MIGRATIONS: readonly { readonly name: string; sql(partitions: number): string }[] = [
  {
    name: '001_tasks',
    sql: (partitions) => `
      CREATE SEQUENCE tocsin.session;
      -- A statement takes a block of ids at once.
      CREATE SEQUENCE tocsin.generation INCREMENT BY ${GENERATIONS};

      -- The clock of record: one time per statement.
      CREATE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
        $$ SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint $$;

      CREATE TABLE tocsin.topic (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE
      );

      -- The counters: each write appends its change, readers add the rows up, and the janitor merges them. One counter
      -- row would be a lock that all writers share, and a caller's open transaction would block every writer.
      CREATE TABLE tocsin.tally (
        topic integer NOT NULL,
        ${COUNTERS.map((name) => `${name} bigint NOT NULL DEFAULT 0`).join(',\n        ')}
      );
      CREATE INDEX tally_topic ON tocsin.tally (topic);

      -- Pending and claimed tasks.
      CREATE TABLE tocsin.live (
        topic integer NOT NULL,
        -- The cell of the task: the low six bits of its bucket. Partitions and databases are divided by it.
        cell smallint NOT NULL,
        key text COLLATE "C" NOT NULL,
        -- Never reused: the task's id is made of it.
        generation bigint NOT NULL,
        due_ms bigint NOT NULL,
        ring_ms bigint NOT NULL,
        priority smallint NOT NULL,
        failures integer NOT NULL DEFAULT 0,
        lost integer NOT NULL DEFAULT 0,
        deliveries integer NOT NULL DEFAULT 0,
        -- The claim token: the session of the process and the stamp of the claim. Null if the task is pending.
        session bigint,
        stamp bigint,
        -- In no index, so that a claim can be a HOT update.
        lease_ms bigint,
        -- 1 if a suspect was claimed alone, 2 once its handler was started.
        started smallint NOT NULL DEFAULT 0,
        -- Cancelled while claimed: no attempt follows.
        marked boolean NOT NULL DEFAULT false,
        -- What it replaced: 0 nothing, 1 a pending task, 2 a claimed task whose lease had expired, 3 a task in flight.
        supersedes smallint NOT NULL DEFAULT 0,
        created_ms bigint NOT NULL,
        updated_ms bigint NOT NULL,
        error text,
        tags text[],
        body text NOT NULL,
        PRIMARY KEY (topic, cell, key)
      -- Half of each page stays free for the claims of its tasks (HOT updates), which often come all at once.
      ) ${partitioned('live', partitions, 'fillfactor = 45')}
      CREATE INDEX live_ring ON tocsin.live (topic, ring_ms, cell, key);
      -- Partial: these index only tasks with tags.
      ${[1, 2, 3, 4]
        .map(
          (n) =>
            `CREATE INDEX live_tag_${n} ON tocsin.live (topic, (tags[${n}]), cell, key) WHERE tags[${n}] IS NOT NULL;`,
        )
        .join('\n      ')}

      -- Writes of callers' transactions. Consumers read them after the commit and update the timetable.
      CREATE TABLE tocsin.news (topic integer NOT NULL, cell smallint NOT NULL, key text COLLATE "C" NOT NULL);
      CREATE INDEX news_topic ON tocsin.news (topic);

      -- Ended tasks, dead ones included.
      CREATE TABLE tocsin.ended (
        topic integer NOT NULL,
        cell smallint NOT NULL,
        key text COLLATE "C" NOT NULL,
        generation bigint NOT NULL,
        state smallint NOT NULL,
        ended_ms bigint NOT NULL,
        due_ms bigint NOT NULL,
        priority smallint NOT NULL,
        failures integer NOT NULL,
        deliveries integer NOT NULL,
        created_ms bigint NOT NULL,
        error text,
        cause text,
        tags text[],
        body text NOT NULL
      ) ${partitioned('ended', partitions)}
      -- Not unique: several tasks of a key may have ended, and a uniqueness check would cost as much as the insert.
      CREATE INDEX ended_key ON tocsin.ended (topic, cell, key);
      CREATE INDEX ended_time ON tocsin.ended (topic, state, ended_ms);
      CREATE UNIQUE INDEX ended_dead ON tocsin.ended (topic, cell, key) WHERE state = ${DEAD};
    `,
  },
  {
    name: '002_functions',
    sql: () => `
      -- Settings that the SQL functions need. Null until a program has declared the topic's slotBy.
      ALTER TABLE tocsin.topic
        ADD COLUMN slot_by text CHECK (slot_by IN ('key', 'prefix')),
        ADD COLUMN merge_ms bigint NOT NULL DEFAULT 0,
        -- True once a task exists: slotBy is fixed from then on.
        ADD COLUMN is_placed boolean NOT NULL DEFAULT false;
    `,
  },
  {
    name: '003_board',
    sql: () => `
      -- Node cards. Unlogged: a beat waits for no disk, and the next beat restores what a crash removed. Most of each
      -- page stays free, so that beats are HOT updates.
      CREATE UNLOGGED TABLE tocsin.node (
        id text COLLATE "C" PRIMARY KEY,
        beats bigint NOT NULL,
        edition bigint NOT NULL,
        beat_at timestamptz NOT NULL,
        card text NOT NULL
      ) WITH (fillfactor = 20);

      -- The settings of each topic, for the whole cluster.
      CREATE TABLE tocsin.topic_config (
        topic text COLLATE "C" PRIMARY KEY,
        version integer NOT NULL,
        slots smallint NOT NULL,
        slot_by text NOT NULL CHECK (slot_by IN ('key', 'prefix')),
        live text NOT NULL,
        is_paused boolean NOT NULL,
        -- The id of the change that made this version. Null for the version that was created.
        change_id text
      );

      -- The history of the settings: the last changes of each topic.
      CREATE TABLE tocsin.config_change (
        topic text COLLATE "C" NOT NULL,
        version integer NOT NULL,
        change_id text NOT NULL,
        changed_at timestamptz NOT NULL,
        changed_by text NOT NULL,
        patch text NOT NULL,
        PRIMARY KEY (topic, version)
      );
    `,
  },
  {
    name: '004_server',
    sql: () => `
      -- Settings declared over HTTP: such a client has no code here that would declare them again at the next start.
      ALTER TABLE tocsin.topic_config ADD COLUMN declared text NOT NULL DEFAULT '{}';

      -- Access tokens, as JSON text: the library defines their fields, which may grow without a migration.
      CREATE TABLE tocsin.access_token (id text COLLATE "C" PRIMARY KEY, token text NOT NULL);
    `,
  },
  {
    name: '005_tag_lists',
    sql: () => `
      -- The tasks of a tag in the order of a list. Partial: these index only tasks with tags.
      ${[1, 2, 3, 4]
        .map(
          (n) => `CREATE INDEX live_list_${n} ON tocsin.live (topic, (tags[${n}]), ring_ms, failures, key)
        WHERE tags[${n}] IS NOT NULL;
      CREATE INDEX ended_list_${n} ON tocsin.ended (topic, state, (tags[${n}]), ended_ms, key, generation)
        WHERE tags[${n}] IS NOT NULL;`,
        )
        .join('\n      ')}
    `,
  },
  {
    name: '006_in_time',
    sql: () => `
      -- Raises an error, which rolls the statement back, if it is later than not_after_ms: the caller no longer waits.
      -- now_ms() is the time at which the statement arrived. The time that it has waited since then is added. The second
      -- parameter makes PostgreSQL compute it, and so take the locks of the statement, before the function runs.
      CREATE FUNCTION tocsin.in_time(not_after_ms bigint, waited bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
        DECLARE at_ms bigint := tocsin.now_ms()
          + floor(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000)::bigint;
        BEGIN
          IF at_ms > not_after_ms THEN
            RAISE EXCEPTION USING ERRCODE = '${TOO_LATE}', MESSAGE = 'tocsin: too late', DETAIL = at_ms::text;
          END IF;
          RETURN true;
        END $$;
    `,
  },
  {
    name: '007_superseded',
    sql: () => `
      -- A newer task of a key supersedes the dead one, and is found as long as its row exists. True for a dead task
      -- whose newer task was deleted because of its age, and for ended tasks after which the dead one was replayed.
      ALTER TABLE tocsin.ended ADD COLUMN outranked boolean NOT NULL DEFAULT false;

      -- Fails with serialization_failure if a newer task of the key has ended. A volatile function sees what other
      -- transactions committed while the statement that calls it runs.
      CREATE FUNCTION tocsin.check_newest(my_topic integer, my_cell smallint, my_key text, my_generation bigint,
        my_ended_ms bigint)
        RETURNS boolean LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $tocsin$
        BEGIN
          IF EXISTS (
            SELECT FROM tocsin.ended n WHERE n.topic = my_topic AND n.cell = my_cell AND n.key = my_key
              AND (n.generation > my_generation OR n.ended_ms > my_ended_ms) AND NOT n.outranked
          ) THEN
            RAISE EXCEPTION 'a newer task of this key has ended' USING ERRCODE = 'serialization_failure';
          END IF;
          RETURN true;
        END $tocsin$;
    `,
  },
  {
    name: '008_fits',
    sql: () => `
      -- Raises an error, which rolls the statement back, if payloads are larger than one answer may be.
      CREATE FUNCTION tocsin.fits(bytes bigint, bytes_max bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
        BEGIN
          IF bytes > bytes_max THEN
            RAISE EXCEPTION USING ERRCODE = '${TOO_LARGE}', MESSAGE = 'tocsin: too large', DETAIL = bytes::text;
          END IF;
          RETURN true;
        END $$;
    `,
  },
  {
    name: '009_batches',
    sql: (partitions) => `
      -- A hash of a key, to find the batches that may contain the key. hashtext is the same in all versions since 8.4.
      CREATE FUNCTION tocsin.key_hash(key text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
        $$ SELECT (hashtext(key) >> 16)::smallint $$;

      -- Ended tasks that one claim call delivered, and that ended together: one row for all of them. Only tasks as most
      -- are: delivered once, without an error, without tags, of normal priority, and of a key without a dead task. All
      -- others are in tocsin.ended.
      CREATE SEQUENCE tocsin.batch;
      CREATE TABLE tocsin.ended_batch (
        topic integer NOT NULL,
        cell smallint NOT NULL,
        state smallint NOT NULL,
        ended_ms bigint NOT NULL,
        id bigint NOT NULL DEFAULT nextval('tocsin.batch'),
        count integer NOT NULL,
        -- The earliest and the latest due time.
        due_from_ms bigint NOT NULL,
        due_to_ms bigint NOT NULL,
        -- Of the keys, and of the prefixes with their ':'. In the index, so that a search for a key reads only the index.
        hashes smallint[] NOT NULL,
        -- One element per task. Keys and bodies are separated by \x1e.
        keys text COLLATE "C" NOT NULL,
        generations bigint[] NOT NULL,
        dues_ms bigint[] NOT NULL,
        created_ms bigint[] NOT NULL,
        bodies text NOT NULL
      ) ${partitioned('ended_batch', partitions)}
      -- Not compressed: hashes are random, and the attempt would cost more than the whole index.
      ALTER TABLE tocsin.ended_batch ALTER hashes SET STORAGE PLAIN;
      -- lz4 compresses a batch in a fraction of the time of pglz. PostgreSQL 13, and a build without lz4, use pglz.
      DO $tocsin$
        BEGIN
          EXECUTE 'ALTER TABLE tocsin.ended_batch ${['keys', 'generations', 'dues_ms', 'created_ms', 'bodies']
            .map((column) => `ALTER ${column} SET COMPRESSION lz4`)
            .join(', ')}';
        EXCEPTION WHEN syntax_error OR feature_not_supported THEN NULL;
        END $tocsin$;
      CREATE INDEX ended_batch_key ON tocsin.ended_batch (topic, cell, ended_ms) INCLUDE (id, hashes);
      CREATE INDEX ended_batch_time ON tocsin.ended_batch (topic, state, ended_ms);
      CREATE UNIQUE INDEX ended_batch_id ON tocsin.ended_batch (cell, id);

      -- The roles that may use the tables of ended tasks may use this one, too. A regrole as text is quoted where needed.
      DO $tocsin$
        DECLARE given record;
        BEGIN
          FOR given IN
            SELECT c.relname, a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) a
            WHERE n.nspname = 'tocsin' AND c.relname IN ('ended', 'generation') AND a.grantee <> c.relowner
          LOOP
            EXECUTE format('GRANT %s ON %s TO %s', given.privilege_type,
              CASE given.relname WHEN 'ended' THEN 'TABLE tocsin.ended_batch' ELSE 'SEQUENCE tocsin.batch' END, given.grantee);
          END LOOP;
        END $tocsin$;

      -- True for processes that read batches. A process of an earlier version does not set it. While such a process is
      -- alive, no process writes batches.
      ALTER TABLE tocsin.node ADD COLUMN reads_batches boolean NOT NULL DEFAULT false;
    `,
  },
]

/**
 * The number of generations that one call of nextval reserves. A generation is a number that is part of a task's id.
 * GENERATIONS must be at least the maximum number of tasks in a statement.
 */
export const GENERATIONS = 1_024

function partitioned(name: string, partitions: number, options = ''): string {
  const storage = options === '' ? '' : ` WITH (${options})`
  if (partitions === 1) return `${storage};`
  const tables = Array.from(
    { length: partitions },
    (_, n) =>
      `CREATE TABLE tocsin.${name}_${n} PARTITION OF tocsin.${name}
        FOR VALUES WITH (MODULUS ${partitions}, REMAINDER ${n})${storage};`,
  )
  return `PARTITION BY HASH (cell);\n      ${tables.join('\n      ')}`
}

/** A connection on which a transaction is open. It sends each text for the ledger's schema. */
export interface Migrating {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>
}

/** The key of the advisory lock for migrations: a number that other programs are unlikely to use. */
const MIGRATION_LOCK = 7_420_001

export interface LedgerFacts {
  /**
   * The id of this ledger. It is created with the tables, and stays the same if the database moves to another server.
   */
  readonly id: string
  readonly partitions: number
  /** The position of this database in a ledger over several databases: '1 of 1', '2 of 4'. */
  readonly shard: string
}

/**
 * Migrates the tables, in the open transaction. If several processes migrate at the same time, one process migrates and
 * the other processes wait.
 */
export async function migrate(
  connection: Migrating,
  schema: Schema,
  wanted: LedgerFacts,
  where: string,
): Promise<LedgerFacts> {
  // Each schema has a lock of its own, so that the migration of one ledger does not delay the opening of another.
  if (schema.isDefault) await connection.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
  else await connection.query('SELECT pg_advisory_xact_lock($1, hashtext($2))', [MIGRATION_LOCK, schema.name])
  const { rows: found } = await connection.query("SELECT to_regclass('tocsin.meta') IS NOT NULL AS there")
  // CREATE SCHEMA IF NOT EXISTS is sent only if the table is missing, because the statement requires the right to
  // create schemas even if the schema exists.
  if (found[0]?.['there'] !== true)
    await connection.query(`CREATE SCHEMA IF NOT EXISTS tocsin;
      CREATE TABLE tocsin.meta (name text PRIMARY KEY, value text NOT NULL);
      INSERT INTO tocsin.meta VALUES ('${ISOLATED}', 'true')`)
  const { rows } = await connection.query('SELECT name, value FROM tocsin.meta')
  const meta = new Map(rows.map(({ name, value }) => [String(name), String(value)]))
  const format = Number(meta.get('format') ?? 0)
  if (format > MIGRATIONS.length) throw tooNew(where, format)
  const facts = {
    id: meta.get('id') ?? wanted.id,
    partitions: Number(meta.get('partitions') ?? wanted.partitions),
    shard: meta.get('shard') ?? wanted.shard,
  }
  const isMigrated = format === MIGRATIONS.length
  if (isMigrated && Number(meta.get('functions') ?? 0) >= SQL_FUNCTIONS_VERSION) return facts
  // The tables have not changed, so older functions still work with them. If the role may not replace the functions,
  // they stay.
  if (isMigrated && !(await mayReplaceFunctions(connection))) return facts
  for (const step of MIGRATIONS.slice(format)) await connection.query(step.sql(facts.partitions))
  await connection.query(SQL_FUNCTIONS)
  const written = { ...facts, format: MIGRATIONS.length, functions: SQL_FUNCTIONS_VERSION }
  for (const [name, value] of Object.entries(written))
    await connection.query(
      'INSERT INTO tocsin.meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
      [name, String(value)],
    )
  return facts
}

async function mayReplaceFunctions(connection: Migrating): Promise<boolean> {
  const { rows } = await connection.query(
    `SELECT has_schema_privilege('tocsin', 'CREATE') AND bool_and(pg_has_role(proowner, 'USAGE')) AS may
     FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'tocsin' AND proname = 'schedule'`,
  )
  return rows[0]?.['may'] === true
}

function tooNew(where: string, format: number): TocsinError {
  return new TocsinError(
    'ledger-too-new',
    `${where} was written by a newer version of Tocsin (format ${format}, this one knows ${MIGRATIONS.length}); update this program, or name another database`,
    { format, known: MIGRATIONS.length },
  )
}
