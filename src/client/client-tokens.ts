/** Manages the access tokens of a server. */
import type { Duration } from '../values/duration.ts'
import { checkOptions } from '../values/options.ts'
import type { Scope } from '../values/access-token.ts'
import type { Http } from './http.ts'
import { dateIn, durationOut, type Wire } from './wire.ts'

export interface TokenInfo {
  /** Identifies the token. The id is not secret. */
  readonly id: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** The token is valid only for topics whose names start with this prefix; null for all topics. */
  readonly topicPrefix: string | null
  readonly createdAt: Date
  /** Null if the token does not expire. */
  readonly expiresAt: Date | null
  readonly rate: { readonly limit: number; readonly per: string } | null
  readonly bodyBytesMax: number | null
}

/** A created token with its secret. The server shows the secret only once. */
export interface NewToken extends TokenInfo {
  readonly token: string
}

export interface NewTokenOptions {
  /** What the token is for. */
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly topicPrefix?: string | undefined
  /** By default the token does not expire. */
  readonly expiresIn?: Duration | undefined
  readonly rate?: { readonly limit: number; readonly per: Duration } | undefined
  readonly bodyBytesMax?: number | undefined
}

const FIELDS = ['name', 'scopes', 'topicPrefix', 'expiresIn', 'rate', 'bodyBytesMax']
const PATH = '/v1/tokens'

export class ClientTokens {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  async list(): Promise<TokenInfo[]> {
    return this.#http.get(PATH, ({ tokens }: { tokens: Wire<TokenInfo>[] }) => tokens.map(tokenIn))
  }

  async create(options: NewTokenOptions): Promise<NewToken> {
    checkOptions(options, FIELDS, 'token')
    const { expiresIn, rate, ...others } = options
    const body = JSON.stringify({
      ...others,
      expiresIn: expiresIn === undefined ? undefined : durationOut(expiresIn, 'expiresIn'),
      rate: rate === undefined ? undefined : { limit: rate.limit, per: durationOut(rate.per, 'rate.per') },
    })
    return this.#http.send('POST', PATH, body, newTokenIn)
  }

  /** Creates a token with the same rights. The old token expires after `overlap`, which is 1d by default. */
  async rotate(id: string, options: { readonly overlap?: Duration | undefined } = {}): Promise<NewToken> {
    checkOptions(options, ['overlap'], 'rotate')
    const { overlap } = options
    const body = JSON.stringify({
      overlap: overlap === undefined ? undefined : durationOut(overlap, 'overlap'),
    })
    return this.#http.send('POST', `${PATH}/${encodeURIComponent(id)}/rotate`, body, newTokenIn)
  }

  async revoke(id: string): Promise<void> {
    await this.#http.send('DELETE', `${PATH}/${encodeURIComponent(id)}`, null, () => {})
  }
}

function tokenIn(token: Wire<TokenInfo>): TokenInfo {
  const { id, name, scopes, topicPrefix, createdAt, expiresAt, rate, bodyBytesMax } = token
  return {
    id,
    name,
    scopes,
    topicPrefix,
    createdAt: dateIn(createdAt),
    expiresAt: expiresAt === null ? null : dateIn(expiresAt),
    rate,
    bodyBytesMax,
  }
}

function newTokenIn(made: Wire<NewToken>): NewToken {
  if (typeof made.token !== 'string') throw new TypeError('expected a token')
  return { ...tokenIn(made), token: made.token }
}
