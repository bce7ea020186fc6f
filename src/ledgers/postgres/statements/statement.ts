/**
 * One SQL statement of the ledger, with the information that a reader needs to run it by hand. statements.sql is
 * generated from these objects.
 */
export interface Statement {
  /** What the statement does, in one or two sentences. */
  readonly does: string
  /** The method that sends the statement. */
  readonly sentBy: string
  /** The parameters, in the order $1, $2, … */
  readonly takes: readonly Parameter[]
  readonly returns: string
  readonly text: string
}

export interface Parameter {
  readonly name: string
  /** The SQL type. */
  readonly type: string
  readonly means: string
}

/** Returns a parameter. `means` is omitted if the name explains the parameter. */
export function param(name: string, type: string, means = ''): Parameter {
  return { name, type, means }
}

export const TOPIC = param('topic', 'integer', 'id of the topic')
export const TOPIC_NAME = param('topic_name', 'text', 'payload of the NOTIFY')
/** The parameters that identify the tasks. Each array of a statement has one element per task. */
export const TASKS = [TOPIC, param('cells', 'smallint[]'), param('keys', 'text[]')] as const
export const STAMPS = param('stamps', 'bigint[]', 'stamp of each claim')
export const SESSION = param('session', 'bigint', 'session of the process that holds the claims')
export const LEASES_MS = param('leases_ms', 'bigint[]', 'length of each lease in milliseconds')
export const LOCK_TIMEOUT_MS = param(
  'lock_timeout_ms',
  'integer',
  'how long to wait for row locks; NULL for the setting of the connection',
)
export const IS_FAST = param(
  'is_fast',
  'boolean',
  'true: the commit of this statement does not wait for the disk (synchronous_commit = off)',
)
export const TRANSACTION_ID = param(
  'transaction_id',
  'text',
  'the statement does nothing in any other transaction; NULL for any transaction',
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
export const NOT_AFTER_MS = param(
  'not_after_ms',
  'bigint',
  'fails, and writes nothing, if it comes to its end after this time; NULL: at any time',
)
export const LIMIT = param('limit', 'bigint')
