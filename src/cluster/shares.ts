/**
 * Which slots this node pulls. Ownership saves work and keeps nodes out of each other's way; it is never a condition of
 * safety: claims are atomic, and two nodes that both pull a slot for a moment cost a call in vain.
 */
import type { NodeCard, TopicShare } from '../board.ts'
import { assignment, slotsToSet } from './assignment.ts'

/** What a topic's consumers in this process have of it. */
export interface Share {
  /** Ascending. */
  readonly owned: readonly number[]
  readonly slots: number
}

interface Consumer {
  readonly capacity: number
  /** Its slots are others. */
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
  /** More nodes consume a topic than it has slots: some get none. */
  readonly onTooMany: (topic: string, nodes: number, slots: number, slotsToSet: number) => void
}

export class Shares {
  readonly #parts: SharesParts
  readonly #mine = new Map<string, Mine>()
  readonly #crowded = new Set<string>()
  #edition = 1
  /** All that the last dealing went by, and what it came to: while both are the same, so are the shares. */
  #situation = ''
  #dealtEdition = 0

  constructor(parts: SharesParts) {
    this.#parts = parts
  }

  /** Greater whenever `topics` has changed. */
  get edition(): number {
    return this.#edition
  }

  /** For the card. */
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

  /** Answers how to end it. */
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

  /** Who is there, by the cards; this node's own is not asked: it may be older than what we know. */
  deal(alive: readonly NodeCard[]): void {
    const { id, slotsOf } = this.#parts
    const others = alive.filter((card) => card.id !== id)
    // Also those that only others consume: each must solve the same problem, or they do not come to the same answer.
    const topics = new Set([...this.#mine.keys(), ...others.flatMap((card) => card.topics.map(topicOf))])
    const slots = new Map([...topics].map((topic) => [topic, slotsOf(topic)]))
    const situation = JSON.stringify([others.map(nameOf).toSorted(), [...slots].map(String).toSorted()])
    if (situation === this.#situation && this.#edition === this.#dealtEdition) return
    const members = [{ id, topics: this.topics }, ...others].map((member) => ({
      id: member.id,
      topics: member.topics.map((share) => ({
        ...share,
        // Who deals otherwise has not heard yet: its numbers mean other cells.
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
    this.#situation = situation
    this.#dealtEdition = this.#edition
  }

  /** Nobody can be asked who else is there: what we have we keep, and what we know nothing of we take whole. */
  dealBlind(): void {
    for (const [topic, mine] of this.#mine) {
      const slots = this.#parts.slotsOf(topic)
      if (mine.slots === 0) this.#own(topic, mine, allOf(slots), slots)
    }
  }

  #begin(topic: string): Mine {
    // Nothing until we know who else is there.
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
