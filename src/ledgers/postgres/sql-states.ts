import type { ErrorCode } from '../../errors.ts'

/**
 * The SQLSTATE that the functions of sql-functions.ts raise, one for each error code that they use. The SQLSTATEs never
 * change, just as the error codes never change. docs/errors.md has the same table.
 */
export const SQL_STATES = {
  'bad-topic': 'TC001',
  'unknown-topic': 'TC002',
  'bad-key': 'TC003',
  'bad-tags': 'TC004',
  'bad-payload': 'TC005',
  'payload-too-large': 'TC006',
  'bad-time': 'TC007',
  'bad-duration': 'TC008',
  'bad-option': 'TC009',
  'bad-tx': 'TC010',
} as const satisfies Partial<Record<ErrorCode, string>>

/** The SQLSTATE of a write that came too late, which the function tocsin.in_time raises. It never changes, either. */
export const TOO_LATE = 'TC011'

/** The SQLSTATE of a claim with too large payloads, which the function tocsin.fits raises. */
export const TOO_LARGE = 'TC012'

export type SqlErrorCode = keyof typeof SQL_STATES
