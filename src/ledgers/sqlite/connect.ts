import Database, { type Database as Connection } from 'better-sqlite3'

/**
 * The number of pages in the write-ahead log at which SQLite starts a checkpoint. A checkpoint copies the changed pages
 * into the file. A page that changes many times between two checkpoints is copied only once, so fewer checkpoints mean
 * fewer writes.
 */
const CHECKPOINT_PAGES = 4_000
const CACHE_KIB = 65_536

/**
 * Opens a connection. The connection never waits in SQLite's busy handler, because the wait would block the event loop.
 */
export function connect(path: string): Connection {
  const database = new Database(path, { timeout: 0 })
  try {
    database.pragma('journal_mode = WAL')
    // Each commit waits until its data is on the disk, so that an acknowledged write survives a power loss.
    database.pragma('synchronous = FULL')
    // On macOS, only a full fsync waits for the disk. On other systems, this setting has no effect.
    database.pragma('fullfsync = ON')
    database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    database.pragma(`cache_size = -${CACHE_KIB}`)
  } catch (error) {
    database.close()
    throw error
  }
  return database
}
