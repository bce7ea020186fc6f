import type {
  Board,
  NodeCard,
  ChangeAnswer,
  Heartbeat,
  PastChange,
  BeatReply,
  RecordChange,
  TopicRecord,
} from '../../board.ts'
import type { SlotBy } from '../../values/cell.ts'
import type { TopicConfig } from '../../values/config.ts'
import { byCreation, type AccessToken } from '../../values/access-token.ts'
import type { Database } from './database.ts'
import type { Listener } from './listener.ts'
import { toTocsinError } from './driver-errors.ts'
import { type BeatRow, BOARD, type RecordRow } from './statements/board.ts'

/**
 * The board of many processes, in the ledger's database. Each statement is a transaction of its own, so all calls
 * except `listen` work behind every connection pooler.
 */
export class PostgresBoard implements Board {
  readonly isShared = true
  readonly #database: Database
  readonly #listener: Listener
  readonly #ends = new Set<() => void>()

  constructor(database: Database, listener: Listener) {
    this.#database = database
    this.#listener = listener
  }

  async beat(card: NodeCard): Promise<BeatReply> {
    const values = [card.id, card.edition, JSON.stringify(card)]
    const rows = (await this.#ask('beat', BOARD.beat.text, values)) as BeatRow[]
    const heartbeats = rows.map(([id, beats, edition, ageMs]): Heartbeat => ({ id, beats, edition, ageMs }))
    // The result has at least one row, that of the node itself. The columns about the board are the same in each row.
    const [, , , , revision, nowMs] = rows[0] as BeatRow
    return { heartbeats, revision, nowMs }
  }

  async cards(): Promise<NodeCard[]> {
    const rows = await this.#ask('cards', BOARD.cards.text)
    return (rows as [string][]).map(([card]) => JSON.parse(card) as NodeCard)
  }

  /** Returns whether all nodes read batches of ended tasks. A node of an earlier version does not. */
  async readsBatches(): Promise<boolean> {
    const [row] = await this.#ask('read', BOARD.readsBatches.text)
    return row?.[0] === true
  }

  async leave(id: string): Promise<void> {
    await this.#ask('leave', BOARD.leave.text, [id])
  }

  async bury(id: string, beats: number): Promise<void> {
    await this.#ask('bury', BOARD.bury.text, [id, beats])
  }

  async records(): Promise<TopicRecord[]> {
    const rows = await this.#ask('config', BOARD.records.text)
    return (rows as RecordRow[]).map((row) => recordOf(row))
  }

  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    const deadlineMs = this.#database.deadlineMs()
    for (;;) {
      const [row] = await this.#ask('create', BOARD.create.text, [topic, slots, slotBy], deadlineMs)
      if (row !== undefined) return recordOf(row as RecordRow)
      // Another process created the record after the snapshot of this statement. The next statement sees the record.
    }
  }

  async change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer> {
    const { isPaused, by, changeId } = change
    const [declared, live, patch] = [change.declared, change.live, change.patch].map((one) =>
      JSON.stringify(one),
    )
    const values = [topic, expected, live, isPaused, changeId, by, patch, declared]
    const deadlineMs = this.#database.deadlineMs()
    for (;;) {
      const [row] = await this.#ask('change', BOARD.change.text, values, deadlineMs)
      if (row === undefined) return { isOurs: false, record: null }
      const [isOurs, ...rest] = row as [boolean, ...RecordRow]
      const record = recordOf(rest)
      if (isOurs || record.version !== expected) return { isOurs, record }
      // The record changed while the statement waited for the row lock, after its snapshot. The next statement sees the
      // change.
    }
  }

  async history(topic: string, limit: number): Promise<PastChange[]> {
    const rows = await this.#ask('history', BOARD.history.text, [topic, limit])
    return (rows as [number, number, string, string][]).map(([version, atMs, by, patch]) => ({
      version,
      atMs,
      by,
      patch: JSON.parse(patch) as PastChange['patch'],
    }))
  }

  async tokens(): Promise<AccessToken[]> {
    const rows = (await this.#ask('tokens', BOARD.tokens.text)) as [string][]
    return rows.map(([token]) => JSON.parse(token) as AccessToken).toSorted(byCreation)
  }

  async putToken(token: AccessToken): Promise<void> {
    await this.#ask('token', BOARD.putToken.text, [token.id, JSON.stringify(token)])
  }

  async dropToken(id: string): Promise<boolean> {
    return (await this.#ask('token', BOARD.dropToken.text, [id])).length > 0
  }

  listen(onChange: () => void): () => void {
    const unlisten = this.#listener.listenToBoard(onChange)
    const end = () => {
      this.#ends.delete(end)
      unlisten()
    }
    this.#ends.add(end)
    return end
  }

  /** Ends the listeners. The connections stay open, because the ledger closes them. */
  async close(): Promise<void> {
    for (const end of this.#ends) end()
  }

  /** Runs a statement of the board. Every statement of the board may be sent again after a lost answer. */
  async #ask(
    doing: string,
    text: string,
    values: readonly unknown[] = [],
    deadlineMs = this.#database.deadlineMs(),
  ): Promise<unknown[][]> {
    try {
      return await this.#database.query(text, values, { doing, deadlineMs, isRepeatable: true })
    } catch (error) {
      // `query` does not translate the error of a statement that was rolled back at every attempt. Such an error may
      // occur if the default isolation level is stricter than READ COMMITTED.
      throw toTocsinError(error, this.#database.where, doing, true, true)
    }
  }
}

function recordOf([topic, version, slots, slotBy, declared, live, isPaused]: RecordRow): TopicRecord {
  const configOf = (text: string) => JSON.parse(text) as TopicConfig
  return { topic, version, slots, slotBy, declared: configOf(declared), live: configOf(live), isPaused }
}
