/**
 * The stores without Tocsin: as many tasks, of the same size, under the same indexes, written in batches. What growth costs
 * here it costs every program.
 *
 *   open(place) → { insert(from, count, dueMsOf), remove(from, count), close() }
 *
 * Tasks have numbers; `dueMsOf` tells when each is due. Payloads are those of Tocsin's tasks, keys as long.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { inFlight, orders } from './load.mjs'

const BATCH = 1_000
const CONNECTIONS = 4

/** Bytes of a reply to a command that failed, or changed nothing. */
const MINUS = 0x2d
const ZERO = 0x30

const [{ payload }] = orders(0, 1)
const BODY = JSON.stringify(payload)
const keyOf = (n) => `plain-${n}`
/** One of 64, as many as Tocsin divides a topic into. */
const cellOf = (n) => Math.imul(n, 2_654_435_761) >>> 26

function* batches(from, count) {
  for (let n = from; n < from + count; n += BATCH)
    yield Array.from({ length: Math.min(BATCH, from + count - n) }, (_, i) => n + i)
}

/** By a connection of our own: a client library would take more time than Redis. */
export async function openRedis(port) {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  let awaited = 0
  let wake = () => {}
  socket.on('data', (replies) => {
    // Each command changes one member, and each reply is ':1\r\n'.
    awaited -= replies.length / 4
    if (replies.includes(MINUS) || replies.includes(ZERO))
      socket.destroy(new Error('Redis refused a command'))
    wake()
  })
  // All words are ASCII.
  const command = (...words) =>
    `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join('')}`
  /** A batch is prepared while Redis works on the one before. */
  const send = async (from, count, commandsOf) => {
    for (const batch of batches(from, count)) {
      const text = batch.map(commandsOf).join('')
      while (awaited > 2 * BATCH) await new Promise((resolve) => (wake = resolve))
      awaited += 2 * batch.length
      socket.write(text)
    }
    while (awaited > 0) await new Promise((resolve) => (wake = resolve))
  }
  return {
    insert: (from, count, dueMsOf) =>
      send(
        from,
        count,
        (n) =>
          command('ZADD', `raw:due:${cellOf(n)}`, String(dueMsOf(n)), keyOf(n)) +
          command('HSET', `raw:tasks:${cellOf(n)}`, keyOf(n), BODY),
      ),
    remove: (from, count) =>
      send(
        from,
        count,
        (n) =>
          command('ZREM', `raw:due:${cellOf(n)}`, keyOf(n)) +
          command('HDEL', `raw:tasks:${cellOf(n)}`, keyOf(n)),
      ),
    close: () => socket.destroy(),
  }
}
/** The columns, indexes and fill factor that the table of Tocsin cannot do without. */
const POSTGRES_TABLE = `
  create table raw (
    cell smallint not null, key text collate "C" not null, due_ms bigint not null, body text not null,
    primary key (cell, key)
  ) with (fillfactor = 45);
  create index on raw (due_ms, cell, key)`

export async function openPostgres(place) {
  const pool = new pg.Pool({ connectionString: place.split(' ')[0], max: CONNECTIONS })
  await pool.query(POSTGRES_TABLE)
  const named = (name, text, values) => pool.query({ name, text, values })
  return {
    insert: (from, count, dueMsOf) =>
      inFlight({ values: () => batches(from, count) }, CONNECTIONS, (batch) =>
        named(
          'insert',
          'insert into raw select * from unnest($1::smallint[], $2::text[], $3::bigint[], $4::text[])',
          [batch.map(cellOf), batch.map(keyOf), batch.map((n) => dueMsOf(n)), batch.map(() => BODY)],
        ),
      ),
    remove: (from, count) =>
      inFlight({ values: () => batches(from, count) }, CONNECTIONS, (batch) =>
        named(
          'remove',
          'delete from raw using unnest($1::smallint[], $2::text[]) as gone (cell, key) where raw.cell = gone.cell and raw.key = gone.key',
          [batch.map(cellOf), batch.map(keyOf)],
        ),
      ),
    close: () => pool.end(),
  }
}

export function openSqlite(folder) {
  const database = new Database(join(folder, 'raw.db'))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  // As Tocsin sets them.
  database.pragma('wal_autocheckpoint = 4000')
  database.pragma('cache_size = -65536')
  database.exec(`
    CREATE TABLE raw (
      cell INTEGER NOT NULL, key TEXT NOT NULL, due_ms INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (cell, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX raw_due ON raw (due_ms)`)
  const insert = database.prepare('INSERT INTO raw VALUES (?, ?, ?, ?)')
  const remove = database.prepare('DELETE FROM raw WHERE cell = ? AND key = ?')
  const each = (from, count, work) => {
    const inTransaction = database.transaction((batch) => batch.forEach(work))
    for (const batch of batches(from, count)) inTransaction(batch)
  }
  return {
    insert: (from, count, dueMsOf) =>
      each(from, count, (n) => insert.run(cellOf(n), keyOf(n), dueMsOf(n), BODY)),
    remove: (from, count) => each(from, count, (n) => remove.run(cellOf(n), keyOf(n))),
    close: () => database.close(),
  }
}
