import { TocsinError } from '../../errors.ts'
import { COUNTERS, DEAD } from '../rows.ts'
import { SQL_FUNCTIONS, SQL_FUNCTIONS_VERSION } from './sql-functions.ts'

/** The tables, in the schema 'tocsin', as numbered steps. A released step never changes, comments included: add another one. */
export const MIGRATIONS: readonly { readonly name: string; sql(partitions: number): string }[] = [
  {
    name: '001_tasks',
    sql: (partitions) => `
      CREATE SEQUENCE tocsin.session;
      -- A statement takes a block of ids at once.
      CREATE SEQUENCE tocsin.generation INCREMENT BY ${GENERATIONS};

      -- The clock of record. One moment per statement.
      CREATE FUNCTION tocsin.now_ms() RETURNS bigint LANGUAGE sql STABLE AS
        $$ SELECT floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint $$;

      CREATE TABLE tocsin.topic (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE
      );

      -- The books: what each write changed, added up by whoever asks. One row that all writers changed would hold them
      -- up, and a caller's open transaction would hold up everybody. Rows are put together now and then.
      CREATE TABLE tocsin.tally (
        topic integer NOT NULL,
        ${COUNTERS.map((name) => `${name} bigint NOT NULL DEFAULT 0`).join(',\n        ')}
      );
      CREATE INDEX tally_topic ON tocsin.tally (topic);

      -- Tasks that wait or are claimed.
      CREATE TABLE tocsin.live (
        topic integer NOT NULL,
        -- Where the task lives: the low six bits of its bucket. Tables and databases are divided by it.
        cell smallint NOT NULL,
        key text COLLATE "C" NOT NULL,
        -- Never given twice: the id is made of it.
        generation bigint NOT NULL,
        due_ms bigint NOT NULL,
        ring_ms bigint NOT NULL,
        priority smallint NOT NULL,
        failures integer NOT NULL DEFAULT 0,
        lost integer NOT NULL DEFAULT 0,
        deliveries integer NOT NULL DEFAULT 0,
        -- Who holds it: the token is the session of the process and the stamp of the claim. Null: nobody.
        session bigint,
        stamp bigint,
        -- In no index: a claim then touches no index at all.
        lease_ms bigint,
        -- 1: a suspect, claimed alone; 2: and its handler was started.
        started smallint NOT NULL DEFAULT 0,
        -- Cancelled while it was held: no attempt follows.
        marked boolean NOT NULL DEFAULT false,
        -- How it came to be: 0 new, 1 in place of one that waited, 2 of one whose lease was over, 3 of one in flight.
        supersedes smallint NOT NULL DEFAULT 0,
        created_ms bigint NOT NULL,
        updated_ms bigint NOT NULL,
        error text,
        tags text[],
        body text NOT NULL,
        PRIMARY KEY (topic, cell, key)
      -- Half of each page is room for the claims of its tasks, which often come all at once: they then touch no index.
      ) ${partitioned('live', partitions, 'fillfactor = 45')}
      CREATE INDEX live_ring ON tocsin.live (topic, ring_ms, cell, key);
      -- Only tasks with tags are in these.
      ${[1, 2, 3, 4]
        .map(
          (n) =>
            `CREATE INDEX live_tag_${n} ON tocsin.live (topic, (tags[${n}]), cell, key) WHERE tags[${n}] IS NOT NULL;`,
        )
        .join('\n      ')}

      -- What callers wrote in transactions of their own: nobody who keeps a timetable knows of it before the commit.
      CREATE TABLE tocsin.news (topic integer NOT NULL, cell smallint NOT NULL, key text COLLATE "C" NOT NULL);
      CREATE INDEX news_topic ON tocsin.news (topic);

      -- Tasks that ended, the dead among them.
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
      -- Not unique: nearly all that is ever written here is new, and to make sure of it would take as long as to write it.
      CREATE INDEX ended_key ON tocsin.ended (topic, cell, key);
      CREATE INDEX ended_time ON tocsin.ended (topic, state, ended_ms);
      CREATE UNIQUE INDEX ended_dead ON tocsin.ended (topic, cell, key) WHERE state = ${DEAD};
    `,
  },
  {
    name: '002_functions',
    sql: () => `
      -- What those must know who write in SQL. Null: no program has said yet how its keys are placed.
      ALTER TABLE tocsin.topic
        ADD COLUMN slot_by text CHECK (slot_by IN ('key', 'prefix')),
        ADD COLUMN merge_ms bigint NOT NULL DEFAULT 0,
        -- A key was placed so: from then on it is fixed.
        ADD COLUMN is_placed boolean NOT NULL DEFAULT false;
    `,
  },
  {
    name: '003_board',
    sql: () => `
      -- The cards of the nodes. Not in the log: a beat waits for no disk, and what a crash takes is up again with the next
      -- beat. Nearly all of each page is room for the beats of its cards, which then touch no index.
      CREATE UNLOGGED TABLE tocsin.node (
        id text COLLATE "C" PRIMARY KEY,
        beats bigint NOT NULL,
        edition bigint NOT NULL,
        beat_at timestamptz NOT NULL,
        card text NOT NULL
      ) WITH (fillfactor = 20);

      -- By which settings each topic runs, on every node.
      CREATE TABLE tocsin.topic_config (
        topic text COLLATE "C" PRIMARY KEY,
        version integer NOT NULL,
        slots smallint NOT NULL,
        slot_by text NOT NULL CHECK (slot_by IN ('key', 'prefix')),
        live text NOT NULL,
        is_paused boolean NOT NULL,
        -- The change that made this version. Null: it is as it was created.
        change_id text
      );

      -- Who changed them when: the last ones of each topic.
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
      -- What was declared by somebody without code, who could not bring it again.
      ALTER TABLE tocsin.topic_config ADD COLUMN declared text NOT NULL DEFAULT '{}';

      -- Who may ask a server for what. As text: what a token has is the library's business, and may grow.
      CREATE TABLE tocsin.access_token (id text COLLATE "C" PRIMARY KEY, token text NOT NULL);
    `,
  },
]

/** Generations that one call of nextval reserves: at least as many as a statement has tasks. */
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

/** One connection, inside a transaction. */
export interface Migrating {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>
}

/** Key of the advisory lock: a number that other programs are unlikely to use. */
const MIGRATION_LOCK = 7_420_001

export interface LedgerFacts {
  /** Created with the tables. Identifies this ledger, wherever its database moves. */
  readonly id: string
  readonly partitions: number
  readonly shard: string
}

/** Migrates the tables, inside the open transaction. If several processes do so at once, one migrates and the others wait for it. */
export async function migrate(
  connection: Migrating,
  wanted: LedgerFacts,
  where: string,
): Promise<LedgerFacts> {
  await connection.query('SELECT pg_advisory_xact_lock($1)', [MIGRATION_LOCK])
  const { rows: found } = await connection.query("SELECT to_regclass('tocsin.meta') IS NOT NULL AS there")
  // Checked first: CREATE SCHEMA IF NOT EXISTS requires the right to create schemas even if the schema exists.
  if (found[0]?.['there'] !== true)
    await connection.query(`CREATE SCHEMA IF NOT EXISTS tocsin;
      CREATE TABLE tocsin.meta (name text PRIMARY KEY, value text NOT NULL)`)
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
  // Older functions still fit the tables. A role that may not replace them leaves them as they are.
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
     FROM pg_proc WHERE pronamespace = 'tocsin'::regnamespace AND proname = 'schedule'`,
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
