import type { NodeCard, Heartbeat } from '../board.ts'

interface Place {
  readonly card: NodeCard
  readonly beats: number
  /** When the node last beat, by the monotonic clock. */
  readonly atMs: number
}

/**
 * The cards of a board in this process, and the listeners for changes. Cards are copied in and out: a caller cannot change
 * what is stored.
 */
export class NodeList {
  readonly #places = new Map<string, Place>()
  readonly #listeners = new Set<{ readonly onChange: () => void }>()
  /** One counter for all nodes: a node whose card was deleted never gets the same count again when it returns. */
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

  /** Notifies no listener: each node decides by itself which nodes are dead. */
  bury(id: string, beats: number): void {
    if (this.#places.get(id)?.beats === beats) this.#places.delete(id)
  }

  listen(onChange: () => void): () => void {
    // Wrapped in an object: the same function may be added twice and removed once.
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

/** Copies by hand, because every beat makes a copy: `structuredClone` takes ten times as long. */
function copyOf(card: NodeCard): NodeCard {
  const topics = card.topics.map((share) => ({ ...share, owned: [...share.owned] }))
  return { ...card, topics, figures: { ...card.figures } }
}
