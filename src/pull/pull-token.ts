import { TocsinError } from '../errors.ts'

/**
 * Proves to any process that shares the store that a client holds a task: the token names the task's cell and the
 * claim. Clients treat the token as opaque. The token need not be signed: a client that may use tokens may also claim
 * all tasks of the topic, and the store checks whether the claim still holds the task.
 */
export interface PullToken {
  readonly cell: number
  readonly stamp: number
  /** The id of the claim call. */
  readonly req: string
  /** The number that the ledger gave to the process that made the claim (its session); null without a ledger. */
  readonly session: number | null
  /** The number of failures before this attempt. */
  readonly failures: number
  /** The task's id. */
  readonly id: string
}

export function encodeToken({ cell, stamp, req, session, failures, id }: PullToken): string {
  return Buffer.from(JSON.stringify([cell, stamp, req, session, failures, id])).toString('base64url')
}

/**
 * Decodes a token. Throws 'bad-token' if the text cannot be a token. An outdated token is decoded; the store answers
 * 'stale'.
 */
export function decodeToken(text: string, field: string): PullToken {
  const [cell, stamp, req, session, failures, id] = parsed(text)
  if (
    isCount(cell) &&
    cell < 64 &&
    isCount(stamp) &&
    typeof req === 'string' &&
    (session === null || isCount(session)) &&
    isCount(failures) &&
    typeof id === 'string'
  )
    return { cell, stamp, req, session, failures, id }
  throw new TocsinError('bad-token', `${field}: this is not a token from the answer to a claim`, { field })
}

function parsed(text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return Array.isArray(value) ? value : []
  } catch {
    return []
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
