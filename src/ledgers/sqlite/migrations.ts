import type { Database } from 'better-sqlite3'
import { TocsinError } from '../../errors.ts'

/**
 * The tables, as numbered steps. A released step never changes: add another step instead. All names begin with
 * 'tocsin_', because the file may also contain tables of the user.
 */
export const MIGRATIONS: readonly { readonly name: string; readonly sql: string }[] = [
  {
    name: '001_tasks',
    sql: `
      -- One row per topic, with its counters, which change in the same transaction as the tasks they count.
      CREATE TABLE tocsin_topic (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        scheduled INTEGER NOT NULL DEFAULT 0,
        done INTEGER NOT NULL DEFAULT 0,
        cancelled INTEGER NOT NULL DEFAULT 0,
        obsolete INTEGER NOT NULL DEFAULT 0,
        dead INTEGER NOT NULL DEFAULT 0,
        -- Claimed by the open session; 0 when a new session opens.
        claimed INTEGER NOT NULL DEFAULT 0,
        purged INTEGER NOT NULL DEFAULT 0,
        -- Ended tasks that the janitor has deleted.
        done_swept INTEGER NOT NULL DEFAULT 0,
        cancelled_swept INTEGER NOT NULL DEFAULT 0,
        obsolete_swept INTEGER NOT NULL DEFAULT 0
      ) STRICT;

      -- Pending and claimed tasks, ordered by cell: tasks claimed together share pages, so a claim changes few pages.
      CREATE TABLE tocsin_live (
        topic INTEGER NOT NULL,
        cell INTEGER NOT NULL,
        key TEXT NOT NULL,
        -- Never reused: the task's id is made of it.
        generation INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        ring_ms INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        failures INTEGER NOT NULL DEFAULT 0,
        lost INTEGER NOT NULL DEFAULT 0,
        deliveries INTEGER NOT NULL DEFAULT 0,
        -- The claim token: the session of the process and the stamp of the claim. Null if the task is pending.
        session INTEGER,
        stamp INTEGER,
        lease_ms REAL,
        -- 1 if a suspect was claimed alone, 2 once its handler was started.
        started INTEGER NOT NULL DEFAULT 0,
        -- Cancelled while claimed: no attempt follows.
        marked INTEGER NOT NULL DEFAULT 0,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        error TEXT,
        tags TEXT,
        checksum INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (topic, cell, key)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX tocsin_live_ring ON tocsin_live (topic, ring_ms);

      -- Only tasks with tags have rows here.
      CREATE TABLE tocsin_tag (
        topic INTEGER NOT NULL,
        tag TEXT NOT NULL,
        cell INTEGER NOT NULL,
        key TEXT NOT NULL,
        PRIMARY KEY (topic, tag, cell, key)
      ) STRICT, WITHOUT ROWID;

      -- Ended tasks, dead ones included, in the order in which they ended.
      CREATE TABLE tocsin_ended (
        topic INTEGER NOT NULL,
        state INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL,
        key TEXT NOT NULL,
        generation INTEGER NOT NULL,
        cell INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        error TEXT,
        cause TEXT,
        tags TEXT,
        checksum INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (topic, state, ended_ms, key, generation)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX tocsin_ended_key ON tocsin_ended (topic, key);
      CREATE UNIQUE INDEX tocsin_dead ON tocsin_ended (topic, cell, key) WHERE state = 4;
    `,
  },
  {
    name: '002_config',
    sql: `
      -- The settings of each topic.
      CREATE TABLE tocsin_config (
        topic TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        slots INTEGER NOT NULL,
        slot_by TEXT NOT NULL,
        live TEXT NOT NULL,
        is_paused INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;

      -- The history of the settings: the last changes of each topic.
      CREATE TABLE tocsin_config_change (
        topic TEXT NOT NULL,
        version INTEGER NOT NULL,
        change_id TEXT NOT NULL,
        changed_ms INTEGER NOT NULL,
        changed_by TEXT NOT NULL,
        patch TEXT NOT NULL,
        PRIMARY KEY (topic, version)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    name: '003_server',
    sql: `
      -- Settings declared over HTTP: such a client has no code here that would declare them again at the next start.
      ALTER TABLE tocsin_config ADD COLUMN declared TEXT NOT NULL DEFAULT '{}';

      -- Access tokens, as JSON text: the library defines their fields, which may grow without a migration.
      CREATE TABLE tocsin_token (id TEXT PRIMARY KEY, token TEXT NOT NULL) STRICT, WITHOUT ROWID;
    `,
  },
  {
    name: '004_superseded',
    sql: `
      -- A newer task of a key supersedes the dead one. Its generation is higher, as long as its row exists. 1 for a dead
      -- task whose newer task was deleted because of its age, and for a newer task after which the dead one was replayed.
      ALTER TABLE tocsin_ended ADD COLUMN outranked INTEGER NOT NULL DEFAULT 0;
    `,
  },
  {
    name: '005_ended_by_cell',
    sql: `
      -- Tasks that are claimed together are of one cell, and end together. Ordered by the key alone, the index entry of
      -- each of them was on another page, and most of what a burst wrote to the log were these pages.
      CREATE INDEX tocsin_ended_place ON tocsin_ended (topic, cell, key);
      DROP INDEX tocsin_ended_key;
    `,
  },
  {
    name: '006_ended_batches',
    sql: `
      -- Ended tasks without tags, errors and failures, one row for those of a cell that ended together: written as a row
      -- each, with two indexes, they took most of the time of a cancel. A row is appended.
      CREATE TABLE tocsin_batch (
        id INTEGER PRIMARY KEY,
        topic INTEGER NOT NULL,
        cell INTEGER NOT NULL,
        state INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL,
        -- The number of tasks.
        tasks INTEGER NOT NULL,
        due_min_ms INTEGER NOT NULL,
        due_max_ms INTEGER NOT NULL,
        -- Of all its tasks.
        priority INTEGER NOT NULL,
        deliveries INTEGER NOT NULL,
        -- A fingerprint of each key and each prefix.
        filter BLOB NOT NULL,
        -- Of each task, separated by the character U+001E: the key; generation, due_ms, created_ms and checksum; the body.
        keys TEXT NOT NULL,
        numbers TEXT NOT NULL,
        bodies TEXT NOT NULL
      ) STRICT;
      -- Both indexes have all that is needed to tell which batches to read.
      CREATE INDEX tocsin_batch_place ON tocsin_batch (topic, cell, ended_ms, filter);
      CREATE INDEX tocsin_batch_time ON tocsin_batch (topic, state, ended_ms, tasks, due_min_ms, due_max_ms, filter);
    `,
  },
]

/** Migrates the tables, in one transaction. Returns the names of the steps that it ran. */
export function migrate(database: Database, where: string): string[] {
  return database
    .transaction(() => {
      database.exec(`CREATE TABLE IF NOT EXISTS tocsin_meta (
      name TEXT PRIMARY KEY, value ANY NOT NULL
    ) STRICT, WITHOUT ROWID`)
      const taken = database.prepare("SELECT value FROM tocsin_meta WHERE name = 'format'").pluck().get() ?? 0
      if (Number(taken) > MIGRATIONS.length) throw tooNew(where, Number(taken))
      const left = MIGRATIONS.slice(Number(taken))
      for (const { sql } of left) database.exec(sql)
      if (left.length > 0)
        database
          .prepare("INSERT OR REPLACE INTO tocsin_meta (name, value) VALUES ('format', ?)")
          .run(MIGRATIONS.length)
      return left.map(({ name }) => name)
    })
    .immediate()
}

function tooNew(where: string, format: number): TocsinError {
  return new TocsinError(
    'ledger-too-new',
    `${where} was written by a newer version of Tocsin (format ${format}, this one knows ${MIGRATIONS.length}); update this program, or open another file`,
    { format, known: MIGRATIONS.length },
  )
}
