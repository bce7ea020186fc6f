/**
 * Who may ask a server for what. Of a token only its hash is kept: whoever reads the board cannot use what they find
 * there. Plain data, the same on every server; who checks it is the server.
 */

/** What a token lets its bearer do. */
export const SCOPES = ['read', 'schedule', 'consume', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

export interface TokenRecord {
  /** Public: it names the token in lists and logs. */
  readonly id: string
  /** What people call it. */
  readonly name: string
  /** SHA-256 of the token, in hex. */
  readonly hash: string
  readonly scopes: readonly Scope[]
  /** Only topics whose names begin so. Null: all of them. */
  readonly topicPrefix: string | null
  readonly createdMs: number
  /** Null: never. */
  readonly expiresMs: number | null
  /** So many requests in any such span. Null: the server's own limit, if it has one. */
  readonly rate: { readonly limit: number; readonly perMs: number } | null
  /** Null: the server's own limit. */
  readonly bodyBytesMax: number | null
}

/** The oldest first. Here, and not in each database's words: each would order ids by rules of its own. */
export function byCreation(a: TokenRecord, b: TokenRecord): number {
  return a.createdMs - b.createdMs || (a.id < b.id ? -1 : Number(a.id > b.id))
}
