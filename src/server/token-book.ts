/**
 * The access tokens of a cluster. A token is `tocsin_<id>_<secret>`. The id finds the record of the token, and the
 * SHA-256 hash of the token verifies it. Only the hash is stored, on the board. So all servers share the tokens, and a
 * reader of the board gets no access.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Board } from '../board.ts'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Secrets } from '../random.ts'
import type { Scope, AccessToken } from '../values/access-token.ts'

/**
 * How long records from the board are cached. While the board is reachable, a token that was revoked on another server
 * stays valid for at most this time.
 */
const FRESH_MS = 1_000
const TOKEN = /^tocsin_([a-z0-9]{12})_([A-Za-z0-9_-]{32,64})$/
/** A hash that no token has. It is compared if the id of a token is unknown. */
const NO_DIGEST = Buffer.alloc(32)
/**
 * A record that is valid for no token. It is stored with the first token, and tells a server that starts later that
 * tokens have existed.
 */
const LOCK: AccessToken = {
  id: 'lock',
  name: 'there were tokens',
  hash: NO_DIGEST.toString('hex'),
  scopes: [],
  topicPrefix: null,
  createdMs: 0,
  expiresMs: 0,
  rate: null,
  bodyBytesMax: null,
}

export interface TokenGrant {
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly topicPrefix: string | null
  readonly expiresMs: number | null
  readonly rate: AccessToken['rate']
  readonly bodyBytesMax: number | null
}

export type TokenBoard = Pick<Board, 'tokens' | 'putToken' | 'dropToken'>

export class TokenBook {
  readonly #board: TokenBoard
  readonly #clock: Clock
  readonly #random: Secrets
  /** The token from TOCSIN_ADMIN_TOKEN. It is never stored on the board. */
  readonly #fixed: AccessToken | null
  #records = new Map<string, AccessToken>()
  #readMs = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | null = null
  #everHadAny: boolean

  constructor(board: TokenBoard, clock: Clock, random: Secrets, adminToken: string | null) {
    this.#board = board
    this.#clock = clock
    this.#random = random
    this.#fixed = adminToken === null ? null : adminRecord(adminToken)
    this.#everHadAny = adminToken !== null
  }

  /**
   * True once a token has existed. Then every request needs a token, so revoking the last token does not open the
   * server.
   */
  get isLocked(): boolean {
    return this.#everHadAny
  }

  /** Returns the record of a valid token; null if the token is unknown, expired or revoked. */
  async find(token: string): Promise<AccessToken | null> {
    const id = TOKEN.exec(token)?.[1]
    await this.refresh()
    const known = this.#fixed?.id === id ? this.#fixed : id === undefined ? undefined : this.#records.get(id)
    const record = known ?? this.#fixed ?? undefined
    const digest = record === undefined ? NO_DIGEST : Buffer.from(record.hash, 'hex')
    // Always compare, because the response time must not reveal which ids exist. A token without a known id is compared
    // with the admin token, which may be any text, or with NO_DIGEST if there is no admin token.
    const isSame = timingSafeEqual(digest, sha256(token))
    if (!isSame || record === undefined) return null
    return record.expiresMs !== null && record.expiresMs <= this.#clock.now() ? null : record
  }

  async list(): Promise<AccessToken[]> {
    await this.#read()
    return [...this.#records.values()]
  }

  /** Creates a token. The secret is only returned here and is not stored. */
  async create(grant: TokenGrant): Promise<{ record: AccessToken; token: string }> {
    await this.#read()
    if (!this.isLocked && (!grant.scopes.includes('admin') || grant.topicPrefix !== null))
      throw new TocsinError(
        'bad-request',
        "scopes: the first token needs the scope 'admin', for all topics; from then on every request needs a token, and no other could create more",
        { field: 'scopes' },
      )
    const id = this.#random
      .secret(9)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, '0')
    const token = `tocsin_${id}_${this.#random.secret(24)}`
    const record = { ...grant, id, hash: sha256(token).toString('hex'), createdMs: this.#clock.now() }
    await this.#board.putToken(record)
    // Write the lock after the token: if writing the token failed, the lock alone would reject every client.
    await this.#board.putToken(LOCK)
    await this.#read()
    return { record, token }
  }

  /**
   * Creates a token with the same rights and the same lifetime. The old token expires after `overlapMs`, or earlier if
   * it would expire earlier anyway. So clients have time to change to the new token.
   */
  async rotate(id: string, overlapMs: number): Promise<{ record: AccessToken; token: string }> {
    const old = await this.#known(id)
    const { name, scopes, topicPrefix, rate, bodyBytesMax } = old
    const nowMs = this.#clock.now()
    const lifeMs = old.expiresMs === null ? null : old.expiresMs - old.createdMs
    const expiresMs = lifeMs === null ? null : nowMs + lifeMs
    const made = await this.create({ name, scopes, topicPrefix, rate, bodyBytesMax, expiresMs })
    await this.#board.putToken({
      ...old,
      expiresMs: Math.min(old.expiresMs ?? Number.POSITIVE_INFINITY, nowMs + overlapMs),
    })
    await this.#read()
    return made
  }

  async revoke(id: string): Promise<void> {
    await this.#known(id)
    await this.#board.dropToken(id)
    await this.#read()
  }

  async refresh(): Promise<void> {
    if (this.#clock.monotonicNow() < this.#readMs + FRESH_MS) return
    // If the board is unreachable, keep the cached records: the store of the tasks may still work.
    await (this.#reading ??= this.#read().finally(() => (this.#reading = null))).catch((error: unknown) => {
      if (this.#readMs === Number.NEGATIVE_INFINITY) throw error
    })
  }

  async #known(id: string): Promise<AccessToken> {
    await this.#read()
    const record = this.#records.get(id)
    if (record !== undefined) return record
    throw new TocsinError('not-found', `there is no token '${id.slice(0, 40)}'`, { field: 'id' })
  }

  async #read(): Promise<void> {
    const askedMs = this.#clock.monotonicNow()
    const records = await this.#board.tokens()
    if (records.length > 0) this.#everHadAny = true
    // Reads may complete out of order. An older read must not restore a revoked token.
    if (askedMs < this.#readMs) return
    this.#records = new Map(records.filter(({ id }) => id !== LOCK.id).map((record) => [record.id, record]))
    this.#readMs = askedMs
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/**
 * Returns the record of the admin token. Any printable text of 20 characters or more is allowed, because the operator
 * chooses it.
 */
function adminRecord(token: string): AccessToken {
  if (!/^[\x21-\x7e]{20,}$/.test(token))
    throw new TocsinError(
      'bad-option',
      'TOCSIN_ADMIN_TOKEN: too short to be a secret, or not plain text; use 20 or more letters, digits and signs, without spaces',
      { field: 'adminToken' },
    )
  return {
    id: TOKEN.exec(token)?.[1] ?? 'environment',
    name: 'TOCSIN_ADMIN_TOKEN',
    hash: sha256(token).toString('hex'),
    scopes: ['admin'],
    topicPrefix: null,
    createdMs: 0,
    expiresMs: null,
    rate: null,
    bodyBytesMax: null,
  }
}
