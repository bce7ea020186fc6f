import { CELLS } from '../../values/cell.ts'

/** In the order in which lua/shared/cell.lua takes them. The last is no key but the cell's channel. */
const NAMES = [
  'high',
  'normal',
  'low',
  'suspects',
  'prepare',
  'leases',
  'claims',
  'pool',
  'tries',
  'tags',
  'marks',
  'dead',
  'graves',
  'meta',
  'wake',
] as const

/** In the order in which lua/shared/board.lua takes them. The last is no key but the board's channel. */
const BOARD_NAMES = ['beats', 'cards', 'topics', 'meta', 'news'] as const

/** All that a script may touch: it is told at each call. */
export interface ScriptKeys {
  readonly all: readonly string[]
}

/** The keys of one cell. They share a hash tag, so that a cell lives on one node of a Cluster, and cells on all. */
export interface CellKeys extends ScriptKeys {
  readonly meta: string
  readonly channel: string
}

/** The board's, with a hash tag of its own. */
export interface BoardKeys extends ScriptKeys {
  readonly cards: string
  readonly topics: string
  readonly tokens: string
  readonly channel: string
}

/** Made once per topic and kept: a script call names all the keys it may touch. */
export class Keys {
  readonly board: BoardKeys
  readonly #prefix: string
  readonly #channelEnd: string
  readonly #topics = new Map<string, readonly CellKeys[]>()

  /** Channels know no databases: those of another one get another name. */
  constructor(prefix: string, database = 0) {
    this.#prefix = prefix
    this.#channelEnd = database === 0 ? '' : `:${database}`
    this.board = this.#makeBoard()
  }

  /** What every key and channel matches. */
  get pattern(): string {
    return `${this.#prefix}:*`
  }

  of(topic: string, cell: number): CellKeys {
    return this.ofTopic(topic)[cell] as CellKeys
  }

  ofTopic(topic: string): readonly CellKeys[] {
    const known = this.#topics.get(topic)
    if (known !== undefined) return known
    const cells = Array.from({ length: CELLS }, (_, cell) => this.#make(topic, cell))
    this.#topics.set(topic, cells)
    return cells
  }

  /** A queue per cell for what is to be done there, by the name of its meta key. */
  queuesOf(topic: string): string[] {
    return this.ofTopic(topic).map(({ meta }) => meta)
  }

  /** The board's, and besides where the changes of a topic are. */
  boardOf(topic: string): BoardKeys & { readonly changes: string } {
    const changes = this.#boardKey(`changes:${topic}`)
    return { ...this.#boardWith(changes), changes }
  }

  /** The board's, and besides where the tokens are: a beat need not name them. */
  get boardOfTokens(): BoardKeys {
    return this.#boardWith(this.board.tokens)
  }

  #boardWith(key: string): BoardKeys {
    return { ...this.board, all: [...this.board.all, key] }
  }

  #makeBoard(): BoardKeys {
    const channel = this.#boardKey('news') + this.#channelEnd
    const all = [...BOARD_NAMES.slice(0, -1).map((name) => this.#boardKey(name)), channel]
    const key = (name: string) => this.#boardKey(name)
    return { all, cards: key('cards'), topics: key('topics'), tokens: key('tokens'), channel }
  }

  /** No topic's cells are in its way: their hash tags end in ':' and a number. */
  #boardKey(name: string): string {
    return `${this.#prefix}:{board}:${name}`
  }

  #make(topic: string, cell: number): CellKeys {
    const named = (name: (typeof NAMES)[number]) => `${this.#prefix}:{${topic}:${cell}}:${name}`
    const channel = named('wake') + this.#channelEnd
    return { all: [...NAMES.slice(0, -1).map(named), channel], meta: named('meta'), channel }
  }
}
