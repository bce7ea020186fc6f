import type {
  Board,
  NodeCard,
  ChangeAnswer,
  PastChange,
  BeatReply,
  RecordChange,
  TopicRecord,
} from '../../board.ts'
import { NodeList } from '../../boards/node-list.ts'
import type { SlotBy } from '../../values/cell.ts'
import type { Clock } from '../../clock.ts'
import type { AccessToken } from '../../values/access-token.ts'
import type { BoardStepName, BoardSteps, Writer } from './committer.ts'
import type { StepTime } from './step-time.ts'
import type { Readings } from './readings.ts'
import { toTocsinError } from './driver-errors.ts'

export interface SqliteBoardParts {
  readonly clock: Clock
  readonly readings: Pick<Readings, 'records' | 'tokens'>
  readonly writer: Writer
  readonly where: string
}

/**
 * The board of a SQLite ledger, whose file only one Tocsin at a time has open. Settings and tokens are stored in the
 * file. Node cards are only in memory, because no other process reads them.
 */
export class SqliteBoard implements Board {
  readonly isShared = false
  readonly #parts: SqliteBoardParts
  readonly #nodes = new NodeList()

  constructor(parts: SqliteBoardParts) {
    this.#parts = parts
  }

  async beat(card: NodeCard): Promise<BeatReply> {
    const { clock } = this.#parts
    const heartbeats = this.#nodes.beat(card, clock.monotonicNow())
    return { heartbeats, revision: this.#read(({ records }) => records.revision()), nowMs: clock.now() }
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
    return this.#read(({ records }) => records.all())
  }

  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    const { record, isNew } = await this.#write('createRecord', topic, slots, slotBy)
    if (isNew) this.#nodes.tell()
    return record
  }

  async change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer> {
    // The change is copied, because the caller may modify its object while the step waits for the transaction.
    const given = structuredClone(change)
    const { isOurs, record, isNew } = await this.#write('changeRecord', topic, expected, given)
    if (isNew) this.#nodes.tell()
    return { isOurs, record }
  }

  async history(topic: string, limit: number): Promise<PastChange[]> {
    return this.#read(({ records }) => records.history(topic, limit))
  }

  async tokens(): Promise<AccessToken[]> {
    return this.#read(({ tokens }) => tokens.all())
  }

  async putToken(token: AccessToken): Promise<void> {
    await this.#write('putToken', token.id, JSON.stringify(token))
  }

  async dropToken(id: string): Promise<boolean> {
    return this.#write('dropToken', id)
  }

  listen(onChange: () => void): () => void {
    return this.#nodes.listen(onChange)
  }

  /** Ends the listeners. The file stays open, because the ledger closes it. */
  async close(): Promise<void> {
    this.#nodes.close()
  }

  #read<T>(work: (readings: SqliteBoardParts['readings']) => T): T {
    try {
      return work(this.#parts.readings)
    } catch (error) {
      throw toTocsinError(error, this.#parts.where)
    }
  }

  /**
   * Runs a step with the ledger's writer, so that the board's and the ledger's writes have one order. Resolves when the
   * change is on the disk.
   */
  async #write<N extends BoardStepName>(
    name: N,
    ...args: Parameters<BoardSteps[N]> extends [...infer Args, StepTime] ? Args : never
  ): Promise<ReturnType<BoardSteps[N]>> {
    const { clock, writer } = this.#parts
    const time: StepTime = { nowMs: clock.now(), steadyMs: clock.monotonicNow() }
    return (await writer.run({ name, args: [...args, time] })) as ReturnType<BoardSteps[N]>
  }
}
