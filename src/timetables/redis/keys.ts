import { CELLS } from '../../values/cell.ts'
import { hashSlotOf } from './hash-slot.ts'

/**
 * The keys of one cell, `<prefix>:{<topic>:<cell>}:<name>`, with their Redis types, in the order in which
 * lua/shared/cell.lua reads them from KEYS. The *score of a task* is its ring time in ms * 1000 + the number of its
 * failures (at most 999). 'Rescue' (lua/shared/rescue.lua) is a part of the scripts claim, cancel and reschedule: it
 * puts the tasks of expired claims back into the lanes.
 *
 * | name     | type    | contents                                          | written by                               |
 * |----------|---------|---------------------------------------------------|------------------------------------------|
 * | high     | zset    | waiting tasks of this priority: key → score       | schedule, cancel, reschedule, claim,     |
 * | normal   |         |                                                   | settle, replay, rescue, hints/put,       |
 * | low      |         |                                                   | hints/cancel, hints/drop                 |
 * | suspects | zset    | waiting suspects: key → score                     | put by rescue, settle, hints/put;        |
 * |          |         |                                                   | removed by schedule, cancel, reschedule, |
 * |          |         |                                                   | claim, hints/put, hints/cancel,          |
 * |          |         |                                                   | hints/drop                               |
 * | claims   | hash    | request id → stamp; stamp → request id; 'm' +     | put by claim; removed by scripts that    |
 * |          |         | stamp → members of the claim, as MessagePack;     | end the last task of a claim;            |
 * |          |         | 'k' + stamp → keys that a record still holds;     | changed by scripts that end a task       |
 * |          |         | 'poisoned' → poisoned keys separated by line      | put by rescue; removed by claim          |
 * |          |         | ends, for the reply of the next claim             |                                          |
 * | records  | zset    | leases of the claims that are records: stamp →    | put by claim, extend; removed by scripts |
 * |          |         | end of the lease in ms                            | that end the last task of a claim        |
 * | prepare  | zset    | tasks held by claims that are no records          | put by claim; removed by finish, settle, |
 * |          |         | (lua/shared/claims.lua):                          | schedule, rescue, hints/put, hints/drop  |
 * |          |         | key → stamp * 1000 + failures                     |                                          |
 * | leases   | zset    | their leases: stamp → end of the lease in ms      | put by claim, extend; removed by scripts |
 * |          |         |                                                   | that end the last task of a claim        |
 * | pool     | hash    | every live task, but no hints: key → body         | put by schedule, replay; removed by      |
 * |          |         | (body.ts)                                         | cancel, finish, settle, rescue           |
 * | tries    | hash    | key → earlier claims (lua/shared/tries.lua),      | put by begin, settle, rescue,            |
 * |          |         | after a claim that did not end the task           | reschedule, replay; removed by scripts   |
 * |          |         |                                                   | that end or replace a task               |
 * | tags     | zset    | tag + '\0' + key, all of score 0, read by BYLEX   | put by schedule, replay; removed by      |
 * |          |         |                                                   | scripts that end or replace a task       |
 * | marks    | set     | keys of held tasks that were cancelled            | put by cancel, hints/cancel; removed by  |
 * |          |         |                                                   | scripts that end or replace a task       |
 * | dead     | zset    | key → time of death in ms                         | put by settle, rescue; removed by        |
 * |          |         |                                                   | replay, purge, and over the limits by    |
 * |          |         |                                                   | settle, rescue                           |
 * | graves   | hash    | key → three lines: cause (and ' superseded' if    | the same scripts as dead, and schedule   |
 * |          |         | the key was scheduled again), tries, body         |                                          |
 * | meta     | hash    | format: the version of the data format;           | claim, scripts that put a task,          |
 * |          |         |                                                   | hints/filling                            |
 * |          |         | stamp: the last stamp;                            | claim                                    |
 * |          |         | next: never later than the first ring of the      | claim, scripts that put a task           |
 * |          |         | lanes, in ms;                                     |                                          |
 * |          |         | suspect: never later than the first ring of the   | claim, scripts that put a suspect        |
 * |          |         | suspects, in ms;                                  |                                          |
 * |          |         | lease: the first end of a lease, in ms;           | claim, extend                            |
 * |          |         | scheduled, done, cancelled, obsolete, purged:     | schedule, finish, cancel, settle,        |
 * |          |         | counters of tasks;                                | rescue, purge                            |
 * |          |         | epoch, server, filled (the first cell on each     | hints/filling, hints/filled-to           |
 * |          |         | server, hint tables only):                        |                                          |
 * |          |         | see lua/shared/epoch.lua                          |                                          |
 * | wake     | channel | 'wake <ring ms> <now ms>';                        | scripts that put a task                  |
 * |          |         | 'fence <cause>', then two lines for each task     | schedule, cancel, hints/put,             |
 * |          |         | that was cancelled or replaced: stamp and key     | hints/cancel, hints/drop                 |
 */
export const CELL_KEY_TYPES = {
  high: 'zset',
  normal: 'zset',
  low: 'zset',
  suspects: 'zset',
  claims: 'hash',
  records: 'zset',
  prepare: 'zset',
  leases: 'zset',
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
 * lua/shared/board.lua reads them from KEYS. A script that needs one of the other two keys gets it as KEYS[6].
 *
 * | name            | type    | contents                                            | written by                      |
 * |-----------------|---------|-----------------------------------------------------|---------------------------------|
 * | beats           | hash    | node id → '<beats> <edition> <ms of the last beat>' | board/beat, leave, bury         |
 * | cards           | hash    | node id → NodeCard as JSON                          | board/beat, leave, bury         |
 * | topics          | hash    | topic → three lines: version, fixed part,           | board/create, change            |
 * |                 |         | changeable part                                     |                                 |
 * | meta            | hash    | format; revision: a new value after each change     | board/create, change            |
 * | news            | channel | an empty message: the board has changed             | board/beat, leave, create,      |
 * |                 |         |                                                     | change                          |
 * | changes:<topic> | list    | past changes of a topic, newest first               | board/change                    |
 * | tokens          | hash    | token id → access token as JSON                     | board/put-token, drop-token     |
 */
export const BOARD_KEY_TYPES = {
  beats: 'hash',
  cards: 'hash',
  topics: 'hash',
  meta: 'hash',
  news: 'channel',
} as const satisfies Record<string, KeyType>

/** The sixth key of a script of the board. The name of the key `changes` is followed by ':' and the topic. */
export const BOARD_EXTRA_KEY_TYPES = { changes: 'list', tokens: 'hash' } as const satisfies Record<
  string,
  KeyType
>

export type KeyType = 'zset' | 'hash' | 'set' | 'list' | 'channel'
type CellKeyName = keyof typeof CELL_KEY_TYPES
type BoardKeyName = keyof typeof BOARD_KEY_TYPES

const CELL_KEY_NAMES = Object.keys(CELL_KEY_TYPES) as CellKeyName[]
const BOARD_KEY_NAMES = Object.keys(BOARD_KEY_TYPES) as BoardKeyName[]

/** The keys of one script call. A script may access only the keys that its call passes. */
export interface ScriptKeys {
  readonly all: readonly string[]
  /** The hash slot of all of these keys, by which a Redis Cluster decides which node has them. */
  readonly hashSlot: number
}

/**
 * The keys of one cell. Their common hash tag keeps a cell on one node of a Redis Cluster, and spreads the cells of a
 * topic over all nodes.
 */
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

/**
 * Builds the names of keys and channels. The names of a topic are built once, because every script call passes them.
 */
export class Keys {
  readonly board: BoardKeys
  readonly #prefix: string
  readonly #channelEnd: string
  readonly #topics = new Map<string, readonly CellKeys[]>()

  /**
   * All databases of a server share the channels, so channel names contain the number of the database, unless it is 0.
   */
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

  /** Returns the keys of the board, and the list of a topic's changes as the sixth key. */
  boardOf(topic: string): BoardKeys & { readonly changes: string } {
    const changes = this.#boardKey(`changes:${topic}`)
    return { ...this.#boardWith(changes), changes }
  }

  /** The keys of the board, with `tokens` as the sixth key. */
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
    return {
      all,
      hashSlot: hashSlotOf(channel),
      cards: key('cards'),
      topics: key('topics'),
      tokens: key('tokens'),
      channel,
    }
  }

  /**
   * Builds the name of a key of the board. It cannot equal a key of a topic named 'board', because the hash tag of a
   * cell ends in ':' and a number.
   */
  #boardKey(name: string): string {
    return `${this.#prefix}:{board}:${name}`
  }

  #makeCell(topic: string, cell: number): CellKeys {
    const key = (name: CellKeyName) => `${this.#prefix}:{${topic}:${cell}}:${name}`
    const channel = key('wake') + this.#channelEnd
    const all = CELL_KEY_NAMES.map((name) => (name === 'wake' ? channel : key(name)))
    return { all, hashSlot: hashSlotOf(channel), meta: key('meta'), channel }
  }
}
