import {
  type Board,
  type NodeCard,
  CHANGES_KEPT,
  type ChangeAnswer,
  type PastChange,
  type BeatReply,
  type RecordChange,
  type TopicRecord,
} from '../board.ts'
import { NodeList } from './node-list.ts'
import type { SlotBy } from '../values/cell.ts'
import type { Clock } from '../clock.ts'
import { byCreation, type AccessToken } from '../values/access-token.ts'

/**
 * The board of a single process. The simulator also uses it: there, all simulated nodes share one board. Arguments and
 * results are copied, so that a caller cannot change the stored data.
 */
export class MemoryBoard implements Board {
  readonly isShared: boolean
  readonly #clock: Clock
  readonly #nodes = new NodeList()
  readonly #topics = new Map<string, Topic>()
  readonly #tokens = new Map<string, AccessToken>()
  #revision = 0

  constructor(clock: Clock, isShared = false) {
    this.#clock = clock
    this.isShared = isShared
  }

  async beat(card: NodeCard): Promise<BeatReply> {
    // Read the revision before `#nodes.beat` calls the listeners, because a listener may change the revision.
    const [revision, nowMs] = [String(this.#revision), this.#clock.now()]
    return { heartbeats: this.#nodes.beat(card, this.#clock.monotonicNow()), revision, nowMs }
  }

  async cards(): Promise<NodeCard[]> {
    return this.#nodes.cards()
  }

  async leave(id: string): Promise<void> {
    this.#nodes.leave(id)
  }

  async bury(id: string, beats: number): Promise<void> {
    this.#nodes.bury(id, beats)
  }

  async records(): Promise<TopicRecord[]> {
    return structuredClone([...this.#topics.values()].map(({ record }) => record))
  }

  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    const known = this.#topics.get(topic)
    if (known !== undefined) return structuredClone(known.record)
    const record = { topic, version: 0, slots, slotBy, declared: {}, live: {}, isPaused: false }
    this.#topics.set(topic, { record, past: [] })
    this.#recordsChanged()
    return structuredClone(record)
  }

  async change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer> {
    const known = this.#topics.get(topic)
    if (known === undefined) return { isOurs: false, record: null }
    if (known.record.version !== expected) {
      // A retry has the change id that is stored under version `expected` + 1, even if other changes followed.
      const { changeId } = known.past.find(({ version }) => version === expected + 1) ?? {}
      return { isOurs: changeId === change.changeId, record: structuredClone(known.record) }
    }
    const { declared, live, isPaused, patch, by, changeId } = structuredClone(change)
    const version = expected + 1
    known.record = { ...known.record, version, declared, live, isPaused }
    known.past.unshift({ version, atMs: this.#clock.now(), by, patch, changeId })
    known.past.length = Math.min(known.past.length, CHANGES_KEPT)
    this.#recordsChanged()
    return { isOurs: true, record: structuredClone(known.record) }
  }

  async history(topic: string, limit: number): Promise<PastChange[]> {
    const past = this.#topics.get(topic)?.past.slice(0, limit) ?? []
    return past.map(({ version, atMs, by, patch }) => ({ version, atMs, by, patch: structuredClone(patch) }))
  }

  async tokens(): Promise<AccessToken[]> {
    return structuredClone([...this.#tokens.values()]).toSorted(byCreation)
  }

  async putToken(token: AccessToken): Promise<void> {
    this.#tokens.set(token.id, structuredClone(token))
  }

  async dropToken(id: string): Promise<boolean> {
    return this.#tokens.delete(id)
  }

  listen(onChange: () => void): () => void {
    return this.#nodes.listen(onChange)
  }

  async close(): Promise<void> {
    this.#nodes.close()
  }

  #recordsChanged(): void {
    this.#revision += 1
    this.#nodes.tell()
  }
}

interface Topic {
  record: TopicRecord
  /** The topic's changes, newest first. */
  readonly past: (PastChange & { readonly changeId: string })[]
}
