import { CELLS } from '../../cell.ts'

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

/** The keys of one cell. They share a hash tag, so that a cell lives on one node of a Cluster, and cells on all. */
export interface CellKeys {
  readonly all: readonly string[]
  readonly meta: string
  readonly channel: string
}

/** Made once per topic and kept: a script call names all the keys it may touch. */
export class Keys {
  readonly #prefix: string
  readonly #channelEnd: string
  readonly #topics = new Map<string, readonly CellKeys[]>()

  /** Channels know no databases: those of another one get another name. */
  constructor(prefix: string, database = 0) {
    this.#prefix = prefix
    this.#channelEnd = database === 0 ? '' : `:${database}`
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

  #make(topic: string, cell: number): CellKeys {
    const named = (name: (typeof NAMES)[number]) => `${this.#prefix}:{${topic}:${cell}}:${name}`
    const channel = named('wake') + this.#channelEnd
    return { all: [...NAMES.slice(0, -1).map(named), channel], meta: named('meta'), channel }
  }
}
