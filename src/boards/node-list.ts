import type { NodeCard, Heartbeat } from '../board.ts'

interface Place {
  readonly card: NodeCard
  readonly beats: number
  /** When the node last beat, by the monotonic clock. */
  readonly atMs: number
}

/**
 * The cards of a board in this process, and the listeners for changes. Cards are copied when they are stored and when
 * they are returned, so that a caller cannot change the stored cards.
 */
export class NodeList {
  readonly #places = new Map<string, Place>()
  readonly #listeners = new Set<{ readonly onChange: () => void }>()
  /** One counter for all nodes. So a node that returns after its card was deleted never gets an old count again. */
  #beats = 0

  beat(card: NodeCard, atMs: number): Heartbeat[] {
    const former = this.#places.get(card.id)
    this.#places.set(card.id, { card: copyOf(card), beats: ++this.#beats, atMs })
    const heartbeats = [...this.#places.values()].map((place) => ({
      id: place.card.id,
      beats: place.beats,
      edition: place.card.edition,
      ageMs: Math.floor(atMs - place.atMs),
    }))
    if (former?.card.edition !== card.edition) this.tell()
    return heartbeats
  }

  cards(): NodeCard[] {
    return [...this.#places.values()].map(({ card }) => copyOf(card))
  }

  leave(id: string): void {
    if (this.#places.delete(id)) this.tell()
  }

  /** Does not notify the listeners, because each node decides on its own which nodes are dead. */
  bury(id: string, beats: number): void {
    if (this.#places.get(id)?.beats === beats) this.#places.delete(id)
  }

  listen(onChange: () => void): () => void {
    // Wrap the function in an object, because the same function may be added twice and removed once.
    const listener = { onChange }
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  tell(): void {
    for (const { onChange } of this.#listeners) onChange()
  }

  close(): void {
    this.#listeners.clear()
  }
}

/** Copies a card without `structuredClone`, which takes ten times as long. Every beat makes a copy. */
function copyOf(card: NodeCard): NodeCard {
  const topics = card.topics.map((share) => ({ ...share, owned: [...share.owned] }))
  return { ...card, topics, figures: { ...card.figures } }
}
