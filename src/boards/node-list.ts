import type { NodeCard, Heartbeat } from '../board.ts'

interface Place {
  readonly card: NodeCard
  readonly beats: number
  /** Monotonic, when it last beat. */
  readonly atMs: number
}

/**
 * The cards of a board that lies in this process, and who wants to hear of news. Cards are copied on their way in and
 * out: nobody can change what is stored by what they hold in their hands.
 */
export class NodeList {
  readonly #places = new Map<string, Place>()
  readonly #listeners = new Set<{ readonly onChange: () => void }>()
  /** Of all nodes: who was buried and comes back is never taken for who it was then. */
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

  /** Each judges for itself who is gone: nobody need be told. */
  bury(id: string, beats: number): void {
    if (this.#places.get(id)?.beats === beats) this.#places.delete(id)
  }

  listen(onChange: () => void): () => void {
    // An object for each: the same function may listen twice, and end once.
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

/** By hand, because every beat makes one: `structuredClone` takes ten times as long. */
function copyOf(card: NodeCard): NodeCard {
  const topics = card.topics.map((share) => ({ ...share, owned: [...share.owned] }))
  return { ...card, topics, figures: { ...card.figures } }
}
