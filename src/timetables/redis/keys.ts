import { CELLS } from '../../values/cell.ts'

/**
 * The keys of one cell, `<prefix>:{<topic>:<cell>}:<name>`, with their Redis types, in the order in which
 * lua/shared/cell.lua reads them from KEYS. A *score of a task* is its ring time in ms * 1000 + its failures (at most
 * 999). 'Rescue' (lua/shared/rescue.lua) is a step of claim, cancel and reschedule.
 *
 * | name     | type    | contents                                          | written by                                  |
 * |----------|---------|---------------------------------------------------|---------------------------------------------|
 * | high     | zset    | waiting tasks of this priority: key → score       | schedule, cancel, reschedule, claim,        |
 * | normal   |         |                                                   | settle, replay, rescue, hints/put,          |
 * | low      |         |                                                   | hints/cancel, hints/drop                    |
 * | suspects | zset    | waiting suspects: key → score                     | rescue and settle put; the others above     |
 * |          |         |                                                   | except replay remove; hints/put does both   |
 * | prepare  | zset    | held tasks: key → stamp * 1000 + failures         | claim puts; finish, settle, schedule,       |
 * |          |         |                                                   | rescue, hints/put, hints/drop remove        |
 * | leases   | zset    | stamp → end of the lease in ms                    | claim, extend; those that empty a claim     |
 * | claims   | hash    | request id → stamp; stamp → request id;           | claim; those that empty a claim remove      |
 * |          |         | 'm' + stamp → MessagePack of its members;         |                                             |
 * |          |         | 'poisoned' → keys by lines, for the next claim    | rescue; claim removes                       |
 * | pool     | hash    | every live task: key → body (body.ts); no hints   | schedule, replay; cancel, finish, settle    |
 * |          |         |                                                   | and rescue remove                           |
 * | tries    | hash    | key → earlier claims (lua/shared/tries.lua),      | begin, settle, rescue, reschedule, replay;  |
 * |          |         | once one did not end the task                     | those that end or replace a task remove     |
 * | tags     | zset    | tag + '\0' + key, all of score 0: read by BYLEX   | schedule, replay; as above                  |
 * | marks    | set     | keys of held tasks that were cancelled            | cancel, hints/cancel; as above              |
 * | dead     | zset    | key → time of death in ms                         | settle, rescue; replay, purge remove        |
 * | graves   | hash    | key → cause, tries, body, by lines                | settle, rescue; replay, purge remove        |
 * | meta     | hash    | format: of the cell; stamp: the last one given    | all that write                              |
 * |          |         | next, suspect: never later than the first ring    |                                             |
 * |          |         | of the lanes, of the suspects (in ms);            |                                             |
 * |          |         | lease: first end of a lease in ms;                | claim, extend                               |
 * |          |         | scheduled, done, cancelled, obsolete, purged:     |                                             |
 * |          |         | counters of tasks;                                |                                             |
 * |          |         | epoch, server, filled (cell 0, hint tables only): | hints/filling, hints/filled-to              |
 * |          |         | see lua/shared/epoch.lua                          |                                             |
 * | wake     | channel | 'wake <ring ms> <now ms>', or 'fence <cause>' and | all that put a task or take one from its    |
 * |          |         | then by lines stamp and key of each fenced task   | holder                                      |
 */
export const CELL_KEY_TYPES = {
  high: 'zset',
  normal: 'zset',
  low: 'zset',
  suspects: 'zset',
  prepare: 'zset',
  leases: 'zset',
  claims: 'hash',
  pool: 'hash',
  tries: 'hash',
  tags: 'zset',
  marks: 'set',
  dead: 'zset',
  graves: 'hash',
  meta: 'hash',
  wake: 'channel',
} as const satisfies Record<string, KeyType>

/**
 * The keys of the board, `<prefix>:{board}:<name>`, with their Redis types. The first five are in the order in which
 * lua/shared/board.lua reads them from KEYS. The other two are a sixth key, of the scripts that need them.
 *
 * | name            | type    | contents                                              | written by                       |
 * |-----------------|---------|-------------------------------------------------------|----------------------------------|
 * | beats           | hash    | node id → '<beats> <edition> <ms of the last beat>'   | board/beat, leave, bury          |
 * | cards           | hash    | node id → NodeCard as JSON                            | board/beat, leave, bury          |
 * | topics          | hash    | topic → version, fixed and changeable part, by lines  | board/create, change             |
 * | meta            | hash    | format; revision, another one after each change       | board/create, change             |
 * | news            | channel | an empty message: read the board again                | board/beat, leave, create,       |
 * |                 |         |                                                       | change                           |
 * | changes:<topic> | list    | past changes of a topic, newest first                 | board/change                     |
 * | tokens          | hash    | token id → access token as JSON                       | board/put-token, drop-token      |
 */
export const BOARD_KEY_TYPES = {
  beats: 'hash',
  cards: 'hash',
  topics: 'hash',
  meta: 'hash',
  news: 'channel',
} as const satisfies Record<string, KeyType>

/** The sixth key of a board's script. `changes` is followed by ':' and the topic. */
export const BOARD_EXTRA_KEY_TYPES = { changes: 'list', tokens: 'hash' } as const satisfies Record<
  string,
  KeyType
>

export type KeyType = 'zset' | 'hash' | 'set' | 'list' | 'channel'
type CellKeyName = keyof typeof CELL_KEY_TYPES
type BoardKeyName = keyof typeof BOARD_KEY_TYPES

const CELL_KEY_NAMES = Object.keys(CELL_KEY_TYPES) as CellKeyName[]
const BOARD_KEY_NAMES = Object.keys(BOARD_KEY_TYPES) as BoardKeyName[]

/** The keys of one script call. A script may touch only keys that its call names. */
export interface ScriptKeys {
  readonly all: readonly string[]
}

/** The keys of one cell. Their common hash tag keeps a cell on one node of a Cluster; cells are spread over all nodes. */
export interface CellKeys extends ScriptKeys {
  readonly meta: string
  readonly channel: string
}

/** The keys of the board, with their own hash tag. */
export interface BoardKeys extends ScriptKeys {
  readonly cards: string
  readonly topics: string
  readonly tokens: string
  readonly channel: string
}

/** Builds the names of keys and channels. Those of a topic are built once, since every script call names them. */
export class Keys {
  readonly board: BoardKeys
  readonly #prefix: string
  readonly #channelEnd: string
  readonly #topics = new Map<string, readonly CellKeys[]>()

  /** Channels are shared by all databases of a server, so that their names contain the database, unless it is 0. */
  constructor(prefix: string, database = 0) {
    this.#prefix = prefix
    this.#channelEnd = database === 0 ? '' : `:${database}`
    this.board = this.#makeBoard()
  }

  /** The glob pattern of all keys and channels, for an ACL. */
  get pattern(): string {
    return `${this.#prefix}:*`
  }

  of(topic: string, cell: number): CellKeys {
    return this.ofTopic(topic)[cell] as CellKeys
  }

  ofTopic(topic: string): readonly CellKeys[] {
    const known = this.#topics.get(topic)
    if (known !== undefined) return known
    const cells = Array.from({ length: CELLS }, (_, cell) => this.#makeCell(topic, cell))
    this.#topics.set(topic, cells)
    return cells
  }

  /** The keys of the board and the list of a topic's changes. */
  boardOf(topic: string): BoardKeys & { readonly changes: string } {
    const changes = this.#boardKey(`changes:${topic}`)
    return { ...this.#boardWith(changes), changes }
  }

  /** The keys of the board and of the tokens. */
  get boardOfTokens(): BoardKeys {
    return this.#boardWith(this.board.tokens)
  }

  #boardWith(key: string): BoardKeys {
    return { ...this.board, all: [...this.board.all, key] }
  }

  #makeBoard(): BoardKeys {
    const key = (name: BoardKeyName | 'tokens') => this.#boardKey(name)
    const channel = key('news') + this.#channelEnd
    const all = BOARD_KEY_NAMES.map((name) => (name === 'news' ? channel : key(name)))
    return { all, cards: key('cards'), topics: key('topics'), tokens: key('tokens'), channel }
  }

  /** Cannot collide with the keys of a topic named 'board': the hash tag of a cell ends in ':' and a number. */
  #boardKey(name: string): string {
    return `${this.#prefix}:{board}:${name}`
  }

  #makeCell(topic: string, cell: number): CellKeys {
    const key = (name: CellKeyName) => `${this.#prefix}:{${topic}:${cell}}:${name}`
    const channel = key('wake') + this.#channelEnd
    const all = CELL_KEY_NAMES.map((name) => (name === 'wake' ? channel : key(name)))
    return { all, meta: key('meta'), channel }
  }
}
