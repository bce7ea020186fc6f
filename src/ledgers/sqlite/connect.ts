import Database, { type Database as Connection } from 'better-sqlite3'

/** So much is written before it is moved from the log into the file: hot pages are then moved once, not every time. */
const CHECKPOINT_PAGES = 4_000
const CACHE_KIB = 65_536

/** A connection that never waits in SQLite's busy handler, which would hold up everything else. */
export function connect(path: string): Connection {
  const database = new Database(path, { timeout: 0 })
  try {
    database.pragma('journal_mode = WAL')
    // Each commit waits until it is on the disk: what was acknowledged outlives a power loss.
    database.pragma('synchronous = FULL')
    // On macOS it is on the disk only then; elsewhere this does nothing.
    database.pragma('fullfsync = ON')
    database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    database.pragma(`cache_size = -${CACHE_KIB}`)
  } catch (error) {
    database.close()
    throw error
  }
  return database
}
