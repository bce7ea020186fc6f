/** Translates errors of PostgreSQL and of its driver into errors of Tocsin that say what to do. */
import { describeError, TocsinError } from '../../errors.ts'
import { badTx } from '../../values/tx.ts'
import { TOO_LARGE, TOO_LATE } from './sql-states.ts'

/**
 * The maximum number of nested errors in which the SQLSTATE is searched for: ORMs wrap the driver's error in their own
 * errors.
 */
const WRAPPERS_MAX = 4

/**
 * Returns the SQLSTATE of the error, or '' if it has none because the connection failed. Codes like 'P2028' are
 * Prisma's own, and no SQLSTATEs.
 */
function sqlStateOf(error: unknown): string {
  for (let one = error, depth = 0; one !== null && typeof one === 'object' && depth < WRAPPERS_MAX; depth++) {
    const { code, cause, originalCode } = one as { code?: unknown; cause?: unknown; originalCode?: unknown }
    for (const state of [code, originalCode])
      if (typeof state === 'string' && /^[0-9A-Z]{5}$/.test(state) && !/^P\d{4}$/.test(state)) return state
    one = cause
  }
  return ''
}

/**
 * Returns true if an earlier statement of the transaction failed. Then PostgreSQL only accepts the end of the
 * transaction (in_failed_sql_transaction).
 */
export function isTransactionAborted(error: unknown): boolean {
  return sqlStateOf(error) === '25P02'
}

/**
 * Returns true if another transaction held a row lock for longer than lock_timeout (lock_not_available). The statement
 * wrote nothing.
 */
export function isLockTimeout(error: unknown): boolean {
  return sqlStateOf(error) === '55P03'
}

/**
 * Returns PostgreSQL's time if a write came too late, and so wrote nothing (tocsin.in_time). Returns null for any other
 * error.
 */
export function tooLateAt(error: unknown): number | null {
  if (sqlStateOf(error) !== TOO_LATE) return null
  const atMs = Number((error as { detail?: unknown }).detail)
  return Number.isFinite(atMs) ? atMs : null
}

/** Returns true if the payloads of a claim were too large for one answer (tocsin.fits). The claim took nothing. */
export function isTooLarge(error: unknown): boolean {
  return sqlStateOf(error) === TOO_LARGE
}

/**
 * Returns true for a deadlock or a serialization failure. PostgreSQL rolled the statement back, and the same statement
 * can be retried.
 */
export function isRetryable(error: unknown): boolean {
  return ['40001', '40P01'].includes(sqlStateOf(error))
}

/**
 * Returns true if a later attempt may succeed: after a deadlock, a lock timeout, or if the server is full, shutting
 * down or unreachable.
 */
export function isTransient(error: unknown): boolean {
  return /^(40|53|55P03|57|08)/.test(sqlStateOf(error))
}

export function noOpenTransaction(): TocsinError {
  return badTx(
    "no transaction is open on it (any more): send 'BEGIN' first, and await this call before 'COMMIT' or 'ROLLBACK'",
  )
}

/** Returns true if the server said that it ends the connection. Its statement does not go on. */
export function hasServerEnded(error: unknown): boolean {
  const { severity } = (error ?? {}) as { severity?: unknown }
  return severity === 'FATAL' || severity === 'PANIC'
}

/**
 * Returns true if the server answered that it did not carry out the statement. Returns false if the connection failed,
 * because then the outcome is unknown.
 */
export function isStatementRejected(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state !== '' && !hasServerEnded(error) && !state.startsWith('08')
}

/**
 * Translates an error of the driver. `isRepeatable` is true if the statement can be sent again without another effect.
 * Then a lost answer is not reported as 'unknown-outcome'. `isSent` is true if the statement was sent before the error
 * occurred.
 */
export function toTocsinError(
  error: unknown,
  where: string,
  doing: string,
  isRepeatable: boolean,
  isSent: boolean,
): unknown {
  if (TocsinError.is(error)) return error
  const says = describeError(error)
  const state = sqlStateOf(error)
  if (isSent && !isRepeatable && !isStatementRejected(error))
    return new TocsinError(
      'unknown-outcome',
      `${doing}: the answer of ${where} is lost (${says}); it may have taken effect, and was not sent again. Look with get, or schedule again with the same key`,
      {},
      error,
    )
  const fail = (code: 'ledger-unavailable' | 'ledger-full' | 'ledger-refused', text: string) =>
    new TocsinError(code, text, {}, error)
  if (isLockTimeout(error))
    return fail(
      'ledger-unavailable',
      `${doing}: another transaction on ${where} holds this task; nothing was written. Try again when it is over`,
    )
  if (state === TOO_LATE)
    return fail(
      'ledger-unavailable',
      `${doing}: it reached ${where} too late, so nothing was written; try again`,
    )
  if (state === '53100')
    return fail('ledger-full', `${where}: its disk is full (${says}); nothing was written`)
  if (/^(28|3D|42501|0A|3F)/.test(state))
    return fail('ledger-refused', `${where} refuses: ${says}${hint(state, says)}`)
  if (/client password must be a string/.test(says))
    return fail(
      'ledger-refused',
      `${where} requires a password, and the URL has none: postgres://user:password@…`,
    )
  if (/does not support SSL/.test(says))
    return fail('ledger-refused', `${where} has no TLS, and sslmode requires it (${says})`)
  if (/ECONNREFUSED|ENOTFOUND|EAI_AGAIN/.test(says))
    return fail(
      'ledger-unavailable',
      `${doing}: cannot connect to ${where} (${says}): is it running there? Check host and port. Nothing was written`,
    )
  if (state === '25006')
    return fail(
      'ledger-unavailable',
      `${where} is read-only: it is a standby, or was demoted; nothing was written. Name the primary`,
    )
  return fail(
    'ledger-unavailable',
    `${doing}: ${where} cannot do it now (${says}${state === '' ? '' : `, ${state}`}); nothing was written`,
  )
}

function hint(state: string, says: string): string {
  if (state.startsWith('28')) return '. Check user and password'
  if (state === '3D000') return '. Create the database first: createdb <name>'
  // The tables exist, but belong to another role.
  if (state === '42501' && !/(schema|database)/.test(says))
    return '. Open it with the role that made the tables, or grant what docs/postgres.md names'
  if (state === '42501')
    return '. The user needs the right to create the schema: GRANT CREATE ON DATABASE <name> TO <user>'
  return ''
}
