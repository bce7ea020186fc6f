import type { NodeCard } from '../../board.ts'

/** The newest format of a cell that this version can read: FORMAT_MAX of lua/shared/cell.lua. */
const CELL_FORMAT = 2

/** The shape in which lua/claim.lua stores a claim (lua/shared/claims.lua). */
export type ClaimShape = 'tasks' | 'record' | 'hints'

/**
 * Knows whether all nodes on the board can read format 2 of a cell, in which claims are records. While an older node
 * is there, as in a rolling restart, claims are stored as that node can read them. Each node writes its newest format
 * into its card. A card without it is of the first version.
 */
export class NodeFormats {
  readonly #formatOf = new Map<string, number>()
  #areNew = false

  /** The shape of the claims of tasks. Before the first beat, another node may be there that is not known yet. */
  get shape(): ClaimShape {
    return this.#areNew ? 'record' : 'tasks'
  }

  /** Returns the text of this node's card. */
  cardText(card: NodeCard): string {
    this.#formatOf.set(card.id, CELL_FORMAT)
    return JSON.stringify({ ...card, format: CELL_FORMAT })
  }

  /** Parses the text of a card that was read from the board. */
  read(text: string): NodeCard {
    const { format = 1, ...card } = JSON.parse(text) as NodeCard & { readonly format?: number }
    this.#formatOf.set(card.id, format)
    return card
  }

  /** Takes the ids of all nodes on the board, after a beat. A node whose card was not read yet may be an older one. */
  beaten(ids: readonly string[]): void {
    const there = new Set(ids)
    for (const id of this.#formatOf.keys()) if (!there.has(id)) this.#formatOf.delete(id)
    this.#areNew = ids.every((id) => (this.#formatOf.get(id) ?? 1) >= CELL_FORMAT)
  }
}
