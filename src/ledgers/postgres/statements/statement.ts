/**
 * One SQL statement of the ledger, with what a reader needs to run it by hand. statements.sql is rendered from these.
 */
export interface Statement {
  /** What it does, in a sentence or two. */
  readonly does: string
  /** Method that sends it. */
  readonly sentBy: string
  /** In the order of $1, $2, … */
  readonly takes: readonly Parameter[]
  readonly returns: string
  readonly text: string
}

export interface Parameter {
  readonly name: string
  /** SQL type. */
  readonly type: string
  readonly means: string
}

/** `means` is left out where the name says it all. */
export function param(name: string, type: string, means = ''): Parameter {
  return { name, type, means }
}

export const TOPIC = param('topic', 'integer', 'id of the topic')
export const TOPIC_NAME = param('topic_name', 'text', 'payload of the NOTIFY')
/** The arrays of a statement have one element per task. */
export const TASKS = [TOPIC, param('cells', 'smallint[]'), param('keys', 'text[]')] as const
export const STAMPS = param('stamps', 'bigint[]', 'stamp of each claim')
export const SESSION = param('session', 'bigint', 'session of the process that holds the claims')
export const LEASES_MS = param('leases_ms', 'bigint[]', 'length of each lease in milliseconds')
export const LOCK_TIMEOUT_MS = param(
  'lock_timeout_ms',
  'integer',
  'how long to wait for row locks; NULL: as the connection is set',
)
export const TRANSACTION_ID = param(
  'transaction_id',
  'text',
  'does nothing in another transaction than this one; NULL: any',
)
export const MERGE_MS = param(
  'merge_ms',
  'bigint',
  'ring times are rounded up to a multiple of this; 0: not rounded',
)
export const NOTIFY_WITHIN_MS = param(
  'notify_within_ms',
  'bigint',
  'sends a NOTIFY if a task rings within this; 0: never',
)
export const POISON_FORMAT = param(
  'poison_format',
  'text',
  'error of a poison task; %s is the number of lost leases',
)
export const LIMIT = param('limit', 'bigint')
