/**
 * Which slots this node pulls. Ownership saves work and keeps nodes out of each other's way; it is never a condition of
 * safety: claims are atomic, and two nodes that both pull a slot for a moment cost a call in vain.
 */
import type { Card, TopicShare } from '../board.ts'
import { assignment, slotsToSet } from './assignment.ts'

/** What a topic's consumers in this process have of it. */
export interface Share {
  /** Ascending. */
  readonly owned: readonly number[]
  readonly slots: number
}

interface Mine {
  /** Of each consumer. */
  readonly capacities: Map<object, number>
  readonly listeners: Map<object, () => void>
  owned: readonly number[]
  slots: number
}

const NONE: Share = { owned: [], slots: 0 }

export interface SharesParts {
  readonly id: string
  /** Nobody else is there, or ever will be. */
  readonly isAlone: boolean
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
  /** All that the last dealing went by: while it is the same, so are the shares. */
  #situation = ''

  constructor(parts: SharesParts) {
    this.#parts = parts
  }

  /** Greater whenever `topics` has changed. */
  get edition(): number {
    return this.#edition
  }

  /** For the card. */
  get topics(): TopicShare[] {
    return [...this.#mine].map(([topic, { capacities, owned, slots }]) => ({
      topic,
      capacity: [...capacities.values()].reduce((sum, one) => sum + one, 0),
      slots,
      owned,
    }))
  }

  shareOf(topic: string): Share {
    return this.#mine.get(topic) ?? NONE
  }

  /** Answers how to end it. */
  consume(topic: string, capacity: number, onChange: () => void): () => void {
    const consumer = {}
    const mine = this.#mine.get(topic) ?? this.#begin(topic)
    mine.capacities.set(consumer, capacity)
    mine.listeners.set(consumer, onChange)
    this.#edition++
    return () => {
      if (!mine.capacities.delete(consumer)) return
      mine.listeners.delete(consumer)
      if (mine.capacities.size === 0) this.#mine.delete(topic)
      this.#edition++
    }
  }

  /** Who is there, by the cards; this node's own is not asked: it may be older than what we know. */
  deal(alive: readonly Card[]): void {
    const { id, isAlone, slotsOf } = this.#parts
    const others = isAlone ? [] : alive.filter((card) => card.id !== id)
    // Also those that only others consume: each must solve the same problem, or they do not come to the same answer.
    const topics = new Set([...this.#mine.keys(), ...others.flatMap((card) => card.topics.map(topicOf))])
    const slots = new Map([...topics].map((topic) => [topic, slotsOf(topic)]))
    const situation = JSON.stringify([
      this.#edition,
      others.map(nameOf).toSorted(),
      [...slots].map(String).toSorted(),
    ])
    if (situation === this.#situation) return
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
    // What we got is what we would get again.
    this.#situation = situation.replace(/^\[\d+/, `[${this.#edition}`)
  }

  /** Nobody can be asked who else is there: what we have we keep, and what we know nothing of we take whole. */
  dealBlind(): void {
    for (const [topic, mine] of this.#mine)
      if (mine.slots === 0)
        this.#own(topic, mine, allOf(this.#parts.slotsOf(topic)), this.#parts.slotsOf(topic))
  }

  #begin(topic: string): Mine {
    // Nothing until we know who else is there.
    const mine = { capacities: new Map(), listeners: new Map(), owned: [], slots: 0 }
    this.#mine.set(topic, mine)
    return mine
  }

  #own(topic: string, mine: Mine, owned: readonly number[], slots: number): void {
    if (mine.slots === slots && owned.join() === mine.owned.join()) return
    mine.owned = owned
    mine.slots = slots
    this.#edition++
    for (const onChange of mine.listeners.values()) onChange()
    this.#parts.onOwned(topic, owned)
  }

  #watchCrowd(topic: string, nodes: number, slots: number): void {
    if (nodes <= slots) return void this.#crowded.delete(topic)
    if (this.#crowded.has(topic)) return
    this.#crowded.add(topic)
    this.#parts.onTooMany(topic, nodes, slots, slotsToSet(nodes))
  }
}

function consumes({ topics }: Card, topic: string): boolean {
  return topics.some((share) => share.topic === topic)
}

function topicOf({ topic }: TopicShare): string {
  return topic
}

function nameOf({ id, edition }: Card): string {
  return `${id}/${edition}`
}

function allOf(slots: number): number[] {
  return Array.from({ length: slots }, (_, slot) => slot)
}
