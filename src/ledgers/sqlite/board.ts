import type { Board, Card, ChangeAnswer, PastChange, Pulse, RecordChange, TopicRecord } from '../../board.ts'
import type { SlotBy } from '../../cell.ts'
import type { Clock } from '../../clock.ts'
import type { RecordStepName, Writer } from './committer.ts'
import type { Moment } from './moment.ts'
import type { Records } from './records.ts'
import { translated } from './trouble.ts'

export interface SqliteBoardParts {
  readonly clock: Clock
  readonly records: Records
  readonly writer: Writer
  readonly where: string
}

/**
 * The board of one process, which has the file for itself. Settings outlive it; cards do not, and need not: nobody else
 * could read them.
 */
export class SqliteBoard implements Board {
  readonly isShared = false
  readonly #parts: SqliteBoardParts
  readonly #nodes = new Map<string, Node>()
  readonly #listeners = new Set<{ readonly onNews: () => void }>()

  constructor(parts: SqliteBoardParts) {
    this.#parts = parts
  }

  async beat(card: Card): Promise<Pulse> {
    const { clock } = this.#parts
    const atMs = clock.monotonicNow()
    const former = this.#nodes.get(card.id)
    this.#nodes.set(card.id, { card: structuredClone(card), beats: (former?.beats ?? 0) + 1, atMs })
    if (former?.card.edition !== card.edition) this.#tell()
    const heartbeats = [...this.#nodes.values()].map((node) => ({
      id: node.card.id,
      beats: node.beats,
      edition: node.card.edition,
      ageMs: Math.floor(atMs - node.atMs),
    }))
    return { heartbeats, revision: this.#read((records) => records.revision()), nowMs: clock.now() }
  }

  async cards(): Promise<Card[]> {
    return [...this.#nodes.values()].map(({ card }) => structuredClone(card))
  }

  async leave(id: string): Promise<void> {
    if (this.#nodes.delete(id)) this.#tell()
  }

  async bury(id: string, beats: number): Promise<void> {
    if (this.#nodes.get(id)?.beats === beats) await this.leave(id)
  }

  async records(): Promise<TopicRecord[]> {
    return this.#read((records) => records.all())
  }

  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    const { record, isNew } = await this.#write('createRecord', topic, slots, slotBy)
    if (isNew) this.#tell()
    return record
  }

  async change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer> {
    // A copy: it may wait, and what the caller does with theirs meanwhile is not meant.
    const given = structuredClone(change)
    const { isOurs, record, isNew } = await this.#write('changeRecord', topic, expected, given)
    if (isNew) this.#tell()
    return { isOurs, record }
  }

  async history(topic: string, limit: number): Promise<PastChange[]> {
    return this.#read((records) => records.history(topic, limit))
  }

  listen(onNews: () => void): () => void {
    // An object for each: the same function may listen twice, and end once.
    const listener = { onNews }
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The file is the ledger's. */
  async close(): Promise<void> {
    this.#listeners.clear()
  }

  #tell(): void {
    for (const { onNews } of this.#listeners) onNews()
  }

  #read<T>(work: (records: Records) => T): T {
    try {
      return work(this.#parts.records)
    } catch (error) {
      throw translated(error, this.#parts.where)
    }
  }

  /** Through the ledger's door: one after the other with its writes, and on the disk when it is answered. */
  async #write<N extends RecordStepName>(
    name: N,
    ...args: Parameters<Records[N]> extends [...infer Args, Moment] ? Args : never
  ): Promise<ReturnType<Records[N]>> {
    const { clock, writer } = this.#parts
    const moment: Moment = { nowMs: clock.now(), steadyMs: clock.monotonicNow() }
    return (await writer.run({ name, args: [...args, moment] })) as ReturnType<Records[N]>
  }
}

interface Node {
  readonly card: Card
  readonly beats: number
  /** Monotonic, when it last beat. */
  readonly atMs: number
}
