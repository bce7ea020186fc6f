/**
 * The tokens that clients bear. A token is `tocsin_<id>_<secret>`: by its id it is found, by its SHA-256 it is known. Only
 * that is kept, on the board, so that all servers of a cluster know the same tokens, and nobody who reads the board can
 * use them.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Board } from '../board.ts'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Secrets } from '../random.ts'
import type { Scope, AccessToken } from '../values/access-token.ts'

/** What was heard of the board is believed for so long: a token that is revoked elsewhere is good no longer than that. */
const FRESH_MS = 1_000
const TOKEN = /^tocsin_([a-z0-9]{12})_([A-Za-z0-9_-]{32,64})$/
const NOBODY = Buffer.alloc(32)
/** Lies on the board from the first token on and is good for nothing: by it a server that starts later knows that there were any. */
const LOCK: AccessToken = {
  id: 'lock',
  name: 'there were tokens',
  hash: NOBODY.toString('hex'),
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
  /** Given when the server was started; never on the board. */
  readonly #fixed: AccessToken | null
  #records = new Map<string, AccessToken>()
  #heardMs = Number.NEGATIVE_INFINITY
  #hearing: Promise<void> | null = null
  #everHadAny: boolean

  constructor(board: TokenBoard, clock: Clock, random: Secrets, adminToken: string | null) {
    this.#board = board
    this.#clock = clock
    this.#random = random
    this.#fixed = adminToken === null ? null : adminRecord(adminToken)
    this.#everHadAny = adminToken !== null
  }

  /** Once there were any, nobody comes in without one: who revokes the last locks the door, and does not open it. */
  get isLocked(): boolean {
    return this.#everHadAny
  }

  /** Null: nobody bears this token, or not any more. */
  async bearerOf(token: string): Promise<AccessToken | null> {
    const id = TOKEN.exec(token)?.[1]
    await this.refresh()
    const known = this.#fixed?.id === id ? this.#fixed : id === undefined ? undefined : this.#records.get(id)
    const record = known ?? this.#fixed ?? undefined
    const digest = record === undefined ? NOBODY : Buffer.from(record.hash, 'hex')
    // Compared also where there is nothing to compare with: how long it takes tells nobody whether the id is known.
    const isSame = timingSafeEqual(digest, sha256(token))
    if (!isSame || record === undefined) return null
    return record.expiresMs !== null && record.expiresMs <= this.#clock.now() ? null : record
  }

  async list(): Promise<AccessToken[]> {
    await this.#read()
    return [...this.#records.values()]
  }

  /** The only moment at which anybody sees the token. */
  async create(grant: TokenGrant): Promise<{ record: AccessToken; token: string }> {
    await this.#read()
    if (!this.isLocked && (!grant.scopes.includes('admin') || grant.topicPrefix !== null))
      throw new TocsinError(
        'bad-request',
        "scopes: the first token needs the scope 'admin', for all topics: from then on everybody needs one, and nobody could make another",
        { field: 'scopes' },
      )
    const id = this.#random
      .secret(9)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]/g, '0')
    const token = `tocsin_${id}_${this.#random.secret(24)}`
    const record = { ...grant, id, hash: sha256(token).toString('hex'), createdMs: this.#clock.now() }
    await this.#board.putToken(record)
    // After it: a lock without a key would shut everybody out.
    await this.#board.putToken(LOCK)
    await this.#read()
    return { record, token }
  }

  /** A new one that may do the same; the old one ends after `overlapMs`, so that nobody is cut off meanwhile. */
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
    if (this.#clock.monotonicNow() < this.#heardMs + FRESH_MS) return
    // Where the board cannot be asked, those who were let in before still are: the tasks are elsewhere.
    await (this.#hearing ??= this.#read().finally(() => (this.#hearing = null))).catch((error: unknown) => {
      if (this.#heardMs === Number.NEGATIVE_INFINITY) throw error
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
    // Answers may overtake each other: an older one does not bring back what was revoked.
    if (askedMs < this.#heardMs) return
    this.#records = new Map(records.filter(({ id }) => id !== LOCK.id).map((record) => [record.id, record]))
    this.#heardMs = askedMs
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** Any text that a header can carry, of some length, will do: it comes from where secrets are kept. */
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
