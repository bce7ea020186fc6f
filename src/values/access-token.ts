/**
 * An access token decides which requests a client may send to a server. (The token of a claim is something else: see
 * pull/pull-token.ts.) All servers share the access tokens through the board. The board stores only the hash of a
 * token, so a reader of the board cannot use the token. This file has only the data type. The server checks the tokens.
 */

/** The rights that an access token can have. */
export const SCOPES = ['read', 'schedule', 'consume', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

export interface AccessToken {
  /** Identifies the token in lists and logs. It is not secret. */
  readonly id: string
  /** A label for people. */
  readonly name: string
  /** SHA-256 of the token, in hex. */
  readonly hash: string
  readonly scopes: readonly Scope[]
  /** The token is valid for topics whose names start with this text; null if it is valid for all topics. */
  readonly topicPrefix: string | null
  readonly createdMs: number
  /** Null if the token does not expire. */
  readonly expiresMs: number | null
  /** At most `limit` requests in any span of `perMs`. If null, the server's own limit applies, if it has one. */
  readonly rate: { readonly limit: number; readonly perMs: number } | null
  /** Maximum size of a request body in bytes; null if only the server's own limit applies. */
  readonly bodyBytesMax: number | null
}

/** Compares tokens, the oldest first. Databases do not sort tokens, because each of them collates ids differently. */
export function byCreation(a: AccessToken, b: AccessToken): number {
  return a.createdMs - b.createdMs || (a.id < b.id ? -1 : Number(a.id > b.id))
}
