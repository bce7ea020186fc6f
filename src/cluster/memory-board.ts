import type { Board, Card, ChangeAnswer, PastChange, Pulse, RecordChange, TopicRecord } from '../board.ts'
import type { SlotBy } from '../cell.ts'
import type { Clock } from '../clock.ts'

/** So many changes of a topic are kept. */
const HISTORY_MAX = 100

/**
 * The board of a process that is alone, and of the simulator, whose nodes share one. What comes in and goes out is
 * copied: nobody can change what is stored by what they hold in their hands.
 */
export class MemoryBoard implements Board {
  readonly isShared: boolean
  readonly #clock: Clock
  readonly #nodes = new Map<string, Node>()
  readonly #topics = new Map<string, Topic>()
  readonly #listeners = new Set<{ readonly onNews: () => void }>()
  #revision = 0
  /** Of all nodes: who was buried and comes back is never taken for who it was then. */
  #beats = 0

  constructor(clock: Clock, isShared = false) {
    this.#clock = clock
    this.isShared = isShared
  }

  async beat(card: Card): Promise<Pulse> {
    const atMs = this.#clock.monotonicNow()
    const former = this.#nodes.get(card.id)
    this.#nodes.set(card.id, { card: structuredClone(card), beats: ++this.#beats, atMs })
    const heartbeats = [...this.#nodes.values()].map((node) => ({
      id: node.card.id,
      beats: node.beats,
      edition: node.card.edition,
      ageMs: Math.floor(atMs - node.atMs),
    }))
    const pulse = { heartbeats, revision: String(this.#revision), nowMs: this.#clock.now() }
    if (former?.card.edition !== card.edition) this.#tell()
    return pulse
  }

  async cards(): Promise<Card[]> {
    return structuredClone([...this.#nodes.values()].map(({ card }) => card))
  }

  async leave(id: string): Promise<void> {
    if (this.#nodes.delete(id)) this.#tell()
  }

  async bury(id: string, beats: number): Promise<void> {
    if (this.#nodes.get(id)?.beats === beats) this.#nodes.delete(id)
  }

  async records(): Promise<TopicRecord[]> {
    return structuredClone([...this.#topics.values()].map(({ record }) => record))
  }

  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    const known = this.#topics.get(topic)
    if (known !== undefined) return structuredClone(known.record)
    const record = { topic, version: 0, slots, slotBy, live: {}, isPaused: false }
    this.#topics.set(topic, { record, past: [] })
    this.#recordsChanged()
    return structuredClone(record)
  }

  async change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer> {
    const known = this.#topics.get(topic)
    if (known === undefined) return { isOurs: false, record: null }
    if (known.record.version !== expected) {
      // Somebody may have changed it since: it is looked for under its own version.
      const { changeId } = known.past.find(({ version }) => version === expected + 1) ?? {}
      return { isOurs: changeId === change.changeId, record: structuredClone(known.record) }
    }
    const { live, isPaused, patch, by, changeId } = structuredClone(change)
    const version = expected + 1
    known.record = { ...known.record, version, live, isPaused }
    known.past.unshift({ version, atMs: this.#clock.now(), by, patch, changeId })
    known.past.length = Math.min(known.past.length, HISTORY_MAX)
    this.#recordsChanged()
    return { isOurs: true, record: structuredClone(known.record) }
  }

  async history(topic: string, limit: number): Promise<PastChange[]> {
    const past = this.#topics.get(topic)?.past.slice(0, limit) ?? []
    return past.map(({ version, atMs, by, patch }) => ({ version, atMs, by, patch: structuredClone(patch) }))
  }

  listen(onNews: () => void): () => void {
    // An object for each: the same function may listen twice, and end once.
    const listener = { onNews }
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    this.#listeners.clear()
  }

  #recordsChanged(): void {
    this.#revision += 1
    this.#tell()
  }

  #tell(): void {
    for (const { onNews } of this.#listeners) onNews()
  }
}

interface Node {
  readonly card: Card
  readonly beats: number
  /** Monotonic, when it last beat. */
  readonly atMs: number
}

interface Topic {
  record: TopicRecord
  /** The newest first. */
  readonly past: (PastChange & { readonly changeId: string })[]
}
