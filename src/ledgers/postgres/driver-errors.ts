/** Translates errors of PostgreSQL and of its driver into errors of Tocsin that say what to do. */
import { describeError, TocsinError } from '../../errors.ts'
import { badTx } from '../../values/tx.ts'

/** ORMs wrap the driver's error in errors of their own. The SQLSTATE is searched for in at most this many layers. */
const WRAPPERS_MAX = 4

/** Returns the SQLSTATE, or '' if the connection failed and there is none. Codes like 'P2028' are Prisma's own. */
function sqlStateOf(error: unknown): string {
  for (let one = error, depth = 0; one !== null && typeof one === 'object' && depth < WRAPPERS_MAX; depth++) {
    const { code, cause, originalCode } = one as { code?: unknown; cause?: unknown; originalCode?: unknown }
    for (const state of [code, originalCode])
      if (typeof state === 'string' && /^[0-9A-Z]{5}$/.test(state) && !/^P\d{4}$/.test(state)) return state
    one = cause
  }
  return ''
}

/** An earlier statement of the transaction failed: PostgreSQL accepts only its end now (in_failed_sql_transaction). */
export function isTransactionAborted(error: unknown): boolean {
  return sqlStateOf(error) === '25P02'
}

/** Another transaction held a row for longer than lock_timeout (lock_not_available). Nothing was written. */
export function isLockTimeout(error: unknown): boolean {
  return sqlStateOf(error) === '55P03'
}

/** A deadlock or a serialization failure: the statement was rolled back, and can be retried as it is. */
export function isRetryable(error: unknown): boolean {
  return ['40001', '40P01'].includes(sqlStateOf(error))
}

/** Goes away by itself: a deadlock, a lock, a server that is full, shutting down or unreachable. */
export function isTransient(error: unknown): boolean {
  return /^(40|53|55P03|57|08)/.test(sqlStateOf(error))
}

export function noOpenTransaction(): TocsinError {
  return badTx(
    "no transaction is open on it (any more): send 'BEGIN' first, and await this call before 'COMMIT' or 'ROLLBACK'",
  )
}

/** The server answered, and did not carry out the statement. False if the connection failed: the outcome is unknown then. */
export function isStatementRejected(error: unknown): boolean {
  const state = sqlStateOf(error)
  const severity: unknown = (error as { severity?: unknown } | null)?.severity
  return state !== '' && severity !== 'FATAL' && severity !== 'PANIC' && !state.startsWith('08')
}

/**
 * `isRepeatable`: a second time changes nothing, so a lost answer leaves nothing unknown. `isSent`: the statement was
 * under way when the error came.
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
  // The tables exist, and belong to another role.
  if (state === '42501' && !/(schema|database)/.test(says))
    return '. Open it with the role that made the tables, or grant what docs/postgres.md names'
  if (state === '42501')
    return '. The user needs the right to create the schema tocsin: GRANT CREATE ON DATABASE <name> TO <user>'
  return ''
}
