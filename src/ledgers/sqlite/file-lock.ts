import Database, { type Database as Connection } from 'better-sqlite3'
import { TocsinError } from '../../errors.ts'
import { isBusy } from './driver-errors.ts'

/**
 * One process per ledger. The lock is a transaction on a small file beside it that is held open and never ends: the
 * system takes it away when the process dies, however it dies, so there is no stale lock to clean up. The ledger
 * itself stays free for the user's own connections.
 */
export function lockFile(path: string): { release(): void } {
  const connection: Connection = new Database(`${path}-lock`, { timeout: 0 })
  try {
    connection.pragma('journal_mode = DELETE')
    connection.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    connection.close()
    if (!isBusy(error)) throw error
    throw new TocsinError(
      'ledger-in-use',
      `${path} is in use: another Tocsin has it open, in this process or in one that still runs. An embedded ledger belongs to one at a time; several processes share a Redis`,
      { path },
    )
  }
  return { release: () => connection.close() }
}
