/**
 * Access tokens: which client may send which requests to a server. (The token of a claim is another thing: see
 * pull/pull-token.ts.) Only the hash of a token is stored, so reading the board does not give access. Plain data, shared
 * by all servers through the board; the server checks it.
 */

/** What an access token allows. */
export const SCOPES = ['read', 'schedule', 'consume', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

export interface AccessToken {
  /** Public: identifies the token in lists and logs. */
  readonly id: string
  /** A label for people. */
  readonly name: string
  /** SHA-256 of the token, in hex. */
  readonly hash: string
  readonly scopes: readonly Scope[]
  /** The token is valid for topics whose names start with this; null allows all topics. */
  readonly topicPrefix: string | null
  readonly createdMs: number
  /** Null if the token does not expire. */
  readonly expiresMs: number | null
  /** At most `limit` requests in any `perMs`; null applies the server's own limit, if it has one. */
  readonly rate: { readonly limit: number; readonly perMs: number } | null
  /** Largest request body; null applies the server's own limit. */
  readonly bodyBytesMax: number | null
}

/** Oldest first. Sorted here and not by the databases, because each collates ids in its own way. */
export function byCreation(a: AccessToken, b: AccessToken): number {
  return a.createdMs - b.createdMs || (a.id < b.id ? -1 : Number(a.id > b.id))
}
