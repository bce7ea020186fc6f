/** What PostgreSQL says when it cannot, in words that help. */
import { describeError, TocsinError } from '../../errors.ts'
import { badTx } from '../../values/tx.ts'

const WRAPPED_MAX = 4

/** Five letters of PostgreSQL, or none when it is the connection that failed. ORMs wrap what the driver threw. */
function stateOf(error: unknown): string {
  for (let one = error, depth = 0; one !== null && typeof one === 'object' && depth < WRAPPED_MAX; depth++) {
    const { code, cause, originalCode } = one as { code?: unknown; cause?: unknown; originalCode?: unknown }
    for (const state of [code, originalCode])
      if (typeof state === 'string' && /^[0-9A-Z]{5}$/.test(state) && !/^P\d{4}$/.test(state)) return state
    one = cause
  }
  return ''
}

/** An earlier statement of the transaction failed: PostgreSQL takes nothing any more but its end. */
export function isSpoiled(error: unknown): boolean {
  return stateOf(error) === '25P02'
}

/** Somebody else's transaction holds a row for longer than we wait. Nothing was written. */
export function isLocked(error: unknown): boolean {
  return stateOf(error) === '55P03'
}

/** Two transactions waited for each other, and this one was undone: it may simply be tried again. */
export function isUndone(error: unknown): boolean {
  return ['40001', '40P01'].includes(stateOf(error))
}

/** Nobody's fault, and over by itself: two that waited for each other, a lock, a server that is full or going down. */
export function isPassing(error: unknown): boolean {
  return /^(40|53|55P03|57|08)/.test(stateOf(error))
}

export function overTx(): TocsinError {
  return badTx(
    "no transaction is open on it (any more): send 'BEGIN' first, and await this call before 'COMMIT' or 'ROLLBACK'",
  )
}

/** The server has answered, and will not have done it: an error of the statement, not of the connection. */
export function isRefusal(error: unknown): boolean {
  const state = stateOf(error)
  const severity: unknown = (error as { severity?: unknown } | null)?.severity
  return state !== '' && severity !== 'FATAL' && severity !== 'PANIC' && !state.startsWith('08')
}

/**
 * `isRepeatable`: a second time does nothing new, so that a lost answer is no mystery, only a nuisance. `isSent`: it was
 * on its way when the connection failed.
 */
export function translated(
  error: unknown,
  where: string,
  doing: string,
  isRepeatable: boolean,
  isSent: boolean,
): unknown {
  if (TocsinError.is(error)) return error
  const says = describeError(error)
  const state = stateOf(error)
  if (isSent && !isRepeatable && !isRefusal(error))
    return new TocsinError(
      'unknown-outcome',
      `${doing}: the answer of ${where} is lost (${says}); it may have taken effect, and was not sent again. Look with get, or schedule again with the same key`,
      {},
      error,
    )
  const fail = (code: 'ledger-unavailable' | 'ledger-full' | 'ledger-refused', text: string) =>
    new TocsinError(code, text, {}, error)
  if (isLocked(error))
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
      `${where} wants a password, and the URL has none: postgres://user:password@…`,
    )
  if (/does not support SSL/.test(says))
    return fail('ledger-refused', `${where} has no TLS, and sslmode asks for it (${says})`)
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
  // Its tables are there, and belong to somebody else.
  if (state === '42501' && !/(schema|database)/.test(says))
    return '. Open it with the role that made the tables, or grant what docs/postgres.md names'
  if (state === '42501')
    return '. The user needs the right to create the schema tocsin: GRANT CREATE ON DATABASE <name> TO <user>'
  return ''
}
