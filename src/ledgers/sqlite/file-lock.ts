import Database, { type Database as Connection } from 'better-sqlite3'
import { TocsinError } from '../../errors.ts'
import { isBusy } from './driver-errors.ts'

/**
 * Locks the ledger for one Tocsin: a second one cannot open it, in this process or another. The lock is a transaction
 * on a small file beside the ledger's file, and stays open until the ledger is closed. If the process dies, the operating
 * system releases the lock, so no stale lock remains. The ledger's file itself is not locked, so that the user's own
 * connections can use it.
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
      `${path} is in use: another Tocsin has it open, in this process or in one that still runs. Only one Tocsin can open an embedded file. To share timers between processes, use Redis or PostgreSQL`,
      { path },
    )
  }
  return { release: () => connection.close() }
}
