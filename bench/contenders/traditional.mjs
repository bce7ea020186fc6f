/**
 * What most services do: a table with an index on the due time, scanned every ten seconds. Implemented as well as
 * possible: due rows are taken in batches, by one statement each that several processes could run concurrently, until none
 * is left; the next scan starts ten seconds after the start of the last, not after its end.
 */
import { inFlight, inPieces } from '../load.mjs'
import { peer } from '../peers.mjs'

const SCAN_MS = 10_000
const BATCH = 2_000
const CHUNK = 5_000

const TABLE = `
  create table timers (
    id bigint generated always as identity primary key,
    key text not null unique,
    due_at timestamptz not null,
    payload json not null,
    taken_at timestamptz
  );
  create index on timers (due_at) where taken_at is null`

const SCHEDULE = `
  insert into timers (key, due_at, payload)
  select * from unnest($1::text[], $2::timestamptz[], $3::json[])
  on conflict (key) do update set due_at = excluded.due_at, payload = excluded.payload, taken_at = null`

const TAKE = `
  update timers set taken_at = now() where id in (
    select id from timers where taken_at is null and due_at <= now()
    order by due_at limit ${BATCH} for update skip locked
  ) returning id, key, payload`

export async function open(url) {
  const { Pool } = peer('pg')
  const pool = new Pool({ connectionString: url })
  await pool.query(TABLE)
  const named = (name, text, values) => pool.query({ name, text, values })

  async function scan(handle, concurrency) {
    for (;;) {
      const { rows } = await named('take', TAKE, [])
      await inFlight(rows, concurrency, async ({ key }) => handle(key))
      await named('delete', 'delete from timers where id = any($1)', [rows.map(({ id }) => id)])
      if (rows.length < BATCH) return
    }
  }

  return {
    taskOf: (task) => task,
    scheduleMany: async (tasks) => {
      for (const piece of inPieces(tasks, CHUNK))
        await named('schedule', SCHEDULE, [
          piece.map(({ key }) => key),
          piece.map(({ atMs }) => new Date(atMs)),
          piece.map(({ payload }) => JSON.stringify(payload)),
        ])
    },
    consume: (handle, concurrency) => {
      let scanning = null
      const look = () => {
        scanning ??= scan(handle, concurrency).finally(() => {
          scanning = null
        })
      }
      look()
      const timer = setInterval(look, SCAN_MS)
      return async () => {
        clearInterval(timer)
        await scanning
      }
    },
    left: async () => Number((await pool.query('select count(*) from timers')).rows[0].count),
    close: () => pool.end(),
  }
}
