/** Translates errors of SQLite into errors of Tocsin that say what to do. */
import { describeError, TocsinError } from '../../errors.ts'

function codeOf(error: unknown): string {
  const code: unknown = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

/** Returns true if the statement failed because another connection was writing (SQLITE_BUSY or SQLITE_LOCKED). */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(codeOf(error))
}

export function toTocsinError(error: unknown, where: string): unknown {
  const code = codeOf(error)
  if (TocsinError.is(error) || !code.startsWith('SQLITE_')) return error
  const says = describeError(error)
  if (/^SQLITE_(FULL|IOERR_SHMSIZE)/.test(code))
    return new TocsinError(
      'ledger-full',
      `${where}: the disk is full (${says}); nothing was written. Make room: it goes on by itself`,
      {},
      error,
    )
  if (code.startsWith('SQLITE_NOTADB'))
    return new TocsinError(
      'ledger-damaged',
      `${where} is not a SQLite file: it is something else, or its beginning is damaged. Nothing was changed; name another file, or restore this one from a copy`,
      {},
      error,
    )
  if (code.startsWith('SQLITE_CORRUPT'))
    return new TocsinError(
      'ledger-damaged',
      `${where} is damaged (${says}). Nothing more is read from it; restore it from a copy, or recover it with: sqlite3 <file> .recover`,
      {},
      error,
    )
  return new TocsinError('ledger-unavailable', `${where}: ${says} (${code}); nothing was written`, {}, error)
}
