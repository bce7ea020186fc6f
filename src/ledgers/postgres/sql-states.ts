import type { ErrorCode } from '../../errors.ts'

/**
 * SQLSTATEs that the functions of sql-functions.ts raise for the library's error codes. Stable, as the codes are.
 * docs/errors.md has the same table.
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

export type SqlErrorCode = keyof typeof SQL_STATES
