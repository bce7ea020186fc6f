import { TocsinError } from '../errors.ts'

/**
 * What proves a claim to whoever bears it, in any process that shares the store: it says where the task lies and under
 * which claim it was handed out. It is opaque to its bearer, who can do with it what the right to consume the topic allows
 * anyway; that the claim still holds is for the store to say.
 */
export interface PullToken {
  readonly cell: number
  readonly stamp: number
  readonly req: string
  /** Who claimed, to a ledger; null where there is none. */
  readonly session: number | null
  /** Failures before this attempt. */
  readonly failures: number
  /** Of the task. */
  readonly id: string
}

export function encodeToken({ cell, stamp, req, session, failures, id }: PullToken): string {
  return Buffer.from(JSON.stringify([cell, stamp, req, session, failures, id])).toString('base64url')
}

/** Refuses what was never a token; one that is outdated is found stale by the store. */
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
  throw new TocsinError('bad-token', `${field}: this is no token that a claim handed out`, { field })
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
