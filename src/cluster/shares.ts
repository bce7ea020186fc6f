/**
 * The slots that this node pulls. Ownership of slots only saves work. Safety does not depend on ownership, because
 * claims are atomic: if two nodes pull the same slot for a moment, no task is claimed twice.
 */
import type { NodeCard, TopicShare } from '../board.ts'
import { assignment, slotsToSet } from './assignment.ts'

/** The slots of a topic that this process owns, and the number of slots of the topic. */
export interface Share {
  /** The owned slots, ascending. */
  readonly owned: readonly number[]
  readonly slots: number
}

interface Consumer {
  readonly capacity: number
  /** Called when the owned slots have changed. */
  readonly onChange: () => void
}

interface Mine {
  readonly consumers: Set<Consumer>
  owned: readonly number[]
  slots: number
}

const NONE: Share = { owned: [], slots: 0 }

export interface SharesParts {
  readonly id: string
  readonly slotsOf: (topic: string) => number
  readonly onOwned: (topic: string, owned: readonly number[]) => void
  /** Called when more nodes consume a topic than the topic has slots, so that some nodes own no slot. */
  readonly onTooMany: (topic: string, nodes: number, slots: number, slotsToSet: number) => void
}

export class Shares {
  readonly #parts: SharesParts
  readonly #mine = new Map<string, Mine>()
  readonly #crowded = new Set<string>()
  #edition = 1
  /** The input of the last assignment, and the edition after that assignment. If both are unchanged, `deal` ends. */
  #input = ''
  #dealtEdition = 0

  constructor(parts: SharesParts) {
    this.#parts = parts
  }

  /** Incremented whenever `topics` changes. */
  get edition(): number {
    return this.#edition
  }

  /** The `topics` of this node's card. */
  get topics(): TopicShare[] {
    return [...this.#mine].map(([topic, { consumers, owned, slots }]) => ({
      topic,
      capacity: [...consumers].reduce((sum, { capacity }) => sum + capacity, 0),
      slots,
      owned,
    }))
  }

  shareOf(topic: string): Share {
    return this.#mine.get(topic) ?? NONE
  }

  /** Adds a consumer. Returns a function that removes it. */
  consume(topic: string, capacity: number, onChange: () => void): () => void {
    const consumer = { capacity, onChange }
    const mine = this.#mine.get(topic) ?? this.#begin(topic)
    mine.consumers.add(consumer)
    this.#edition++
    return () => {
      if (!mine.consumers.delete(consumer)) return
      if (mine.consumers.size === 0) this.#mine.delete(topic)
      this.#edition++
    }
  }

  /** Computes the shares from the cards of the live nodes. Ignores this node's own card, which may be outdated. */
  deal(alive: readonly NodeCard[]): void {
    const { id, slotsOf } = this.#parts
    const others = alive.filter((card) => card.id !== id)
    // Include topics that only other nodes consume, because all nodes must compute from the same input.
    const topics = new Set([...this.#mine.keys(), ...others.flatMap((card) => card.topics.map(topicOf))])
    const slots = new Map([...topics].map((topic) => [topic, slotsOf(topic)]))
    const input = JSON.stringify([others.map(nameOf).toSorted(), [...slots].map(String).toSorted()])
    if (input === this.#input && this.#edition === this.#dealtEdition) return
    const members = [{ id, topics: this.topics }, ...others].map((member) => ({
      id: member.id,
      topics: member.topics.map((share) => ({
        ...share,
        // Ignore the slots of a node that knows another number of slots: there, the same slot number means other cells.
        owned: share.slots === slots.get(share.topic) ? share.owned : [],
      })),
    }))
    const owners = assignment(members, slots)
    for (const [topic, mine] of this.#mine) {
      const count = slots.get(topic) as number
      const owned = (owners.get(topic) ?? []).flatMap((owner, slot) => (owner === id ? [slot] : []))
      this.#own(topic, mine, owned, count)
      this.#watchCrowd(topic, 1 + others.filter((card) => consumes(card, topic)).length, count)
    }
    this.#input = input
    this.#dealtEdition = this.#edition
  }

  /**
   * Called when the board is unreachable, so that the live nodes are unknown. Keeps the owned slots. Of a topic that
   * was never assigned, takes all slots, so that its tasks are not left waiting.
   */
  dealBlind(): void {
    for (const [topic, mine] of this.#mine) {
      const slots = this.#parts.slotsOf(topic)
      if (mine.slots === 0) this.#own(topic, mine, allOf(slots), slots)
    }
  }

  #begin(topic: string): Mine {
    // This node owns no slot of the topic until the live nodes are known.
    const mine = { consumers: new Set<Consumer>(), owned: [], slots: 0 }
    this.#mine.set(topic, mine)
    return mine
  }

  #own(topic: string, mine: Mine, owned: readonly number[], slots: number): void {
    if (mine.slots === slots && owned.join() === mine.owned.join()) return
    mine.owned = owned
    mine.slots = slots
    this.#edition++
    for (const { onChange } of mine.consumers) onChange()
    this.#parts.onOwned(topic, owned)
  }

  #watchCrowd(topic: string, nodes: number, slots: number): void {
    if (nodes <= slots) return void this.#crowded.delete(topic)
    if (this.#crowded.has(topic)) return
    this.#crowded.add(topic)
    this.#parts.onTooMany(topic, nodes, slots, slotsToSet(nodes))
  }
}

function consumes({ topics }: NodeCard, topic: string): boolean {
  return topics.some((share) => share.topic === topic)
}

function topicOf({ topic }: TopicShare): string {
  return topic
}

function nameOf({ id, edition }: NodeCard): string {
  return `${id}/${edition}`
}

function allOf(slots: number): number[] {
  return Array.from({ length: slots }, (_, slot) => slot)
}
