/**
 * A cache of the settings of all topics on the board. With the cache, scheduling a task needs no call to the board. A
 * change is written with compare-and-set on the version. In this process, the change is in force once the board has
 * stored it. Other nodes are notified, or read the change with their next beat.
 */
import type { Board, PastChange, RecordChange, TopicRecord } from '../board.ts'
import type { SlotBy } from '../values/cell.ts'
import { type Clock, sleep } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Random } from '../random.ts'

type State = Pick<TopicRecord, 'declared' | 'live' | 'isPaused'>

/**
 * Computes a change from the current record. Fields that are not returned do not change. Called again if another node
 * changed the record first. Returns null if the record already has the wanted values; then nothing is written.
 */
export type Change = (record: TopicRecord) => (Partial<State> & Pick<RecordChange, 'patch'>) | null

/** The maximum number of tries. So many version conflicts mean that another process keeps changing the topic. */
const TRIES_MAX = 50
/** The unit of the backoff after a conflict. The backoff grows and is random: two writers should not collide again. */
const AGAIN_MS = 5
const REPEATS_MAX = 3
const REPEAT_MS = 100

export class TopicConfigs {
  readonly #board: Board
  readonly #clock: Clock
  readonly #random: Random
  readonly #by: string
  readonly #records = new Map<string, TopicRecord>()
  readonly #listeners = new Map<string, Set<() => void>>()
  readonly #wanted = new Map<string, { readonly slots: number; readonly slotBy: SlotBy }>()
  /** For each topic, the last change that is under way or queued. */
  readonly #changing = new Map<string, Promise<void>>()
  #revision: string | null = null
  /** The number of records received so far. */
  #learned = 0

  constructor(board: Board, clock: Clock, random: Random, by: string) {
    this.#board = board
    this.#clock = clock
    this.#random = random
    this.#by = by
  }

  /** True if other nodes also write to the board. */
  get isShared(): boolean {
    return this.#board.isShared
  }

  turn(): Promise<void> {
    return this.#clock.turn()
  }

  /** Returns the names of all known topics on the board, sorted. */
  names(): string[] {
    return [...this.#records.keys()].toSorted()
  }

  /** Returns the cached record of the topic, or null if there is none. */
  get(topic: string): TopicRecord | null {
    return this.#records.get(topic) ?? null
  }

  onChange(topic: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set()
    this.#listeners.set(topic, listeners)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }

  /** Reads all records, unless `revision` equals the revision of the last read. With null, always reads. */
  async refresh(revision: string | null = null): Promise<void> {
    if (revision !== null && revision === this.#revision) return
    const learned = this.#learned
    const records = await this.#board.records()
    for (const record of records) this.#learn(record)
    // Store the revision from before the read. If a record changes during the read, the next beat reads again.
    this.#revision = revision
    // If the board has no record of a cached topic, or an older record, the board was rolled back. Then the cache takes
    // over the board's records. But if another call received a record during this read, this read may be outdated. Then
    // clear the revision, so that the next beat reads again.
    if (this.#learned !== learned + records.length) this.#revision = null
    else this.#keepOnly(records)
  }

  /** Creates topics of this process that are missing on the board, because it was unreachable or has lost them. */
  async recreate(): Promise<void> {
    for (const [topic, { slots, slotBy }] of this.#wanted)
      if (!this.#records.has(topic)) this.#learn(await this.#board.create(topic, slots, slotBy))
  }

  /** Creates the topic if it does not exist. Returns its record, which another node may have created differently. */
  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    this.#wanted.set(topic, { slots, slotBy })
    const record = this.get(topic) ?? (await this.#board.create(topic, slots, slotBy))
    this.#learn(record)
    return record
  }

  /**
   * Changes the record of a topic. The changes of one topic run one after another, so that they do not conflict.
   * Rejects with 'version-conflict' if the record does not have the version `ifVersion`; undefined accepts any version.
   */
  change(topic: string, change: Change, ifVersion: number | undefined): Promise<TopicRecord> {
    const before = this.#changing.get(topic) ?? Promise.resolve()
    const changed = before.then(() => this.#change(topic, change, ifVersion))
    const settled = changed.then(
      () => {},
      () => {},
    )
    this.#changing.set(topic, settled)
    void settled.then(() => {
      if (this.#changing.get(topic) === settled) this.#changing.delete(topic)
    })
    return changed
  }

  async #change(topic: string, change: Change, ifVersion: number | undefined): Promise<TopicRecord> {
    // Another node may have received this version earlier than this node, and the caller may have read it there.
    if (ifVersion !== undefined && ifVersion !== this.get(topic)?.version) await this.refresh()
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = this.get(topic)
      if (record === null)
        throw new TocsinError('version-conflict', `topic '${topic}' is being created again; retry`)
      if (ifVersion !== undefined && ifVersion !== record.version)
        throw conflict(topic, ifVersion, record.version)
      const changed = change(record)
      if (changed === null) return record
      const { declared, live, isPaused } = record
      const asked = { by: this.#by, changeId: this.#random.uniqueId() }
      const wanted: RecordChange = { declared, live, isPaused, ...changed, ...asked }
      const answer = await this.#write(topic, record.version, wanted)
      if (answer.record !== null) this.#learn(answer.record)
      if (answer.isOurs && answer.record !== null) return answer.record
      // If the board has lost the topic, create it again. If the board was rolled back, read all records again.
      if (answer.record === null) this.#learn(await this.#board.create(topic, record.slots, record.slotBy))
      if ((answer.record?.version ?? -1) < record.version) await this.refresh()
      if (ifVersion === undefined) await sleep(this.#clock, this.#random.fraction() * AGAIN_MS * tries)
    }
    throw new TocsinError(
      'version-conflict',
      `topic '${topic}': its configuration was changed by others ${TRIES_MAX} times while this change waited; try again`,
    )
  }

  history(topic: string, limit: number): Promise<PastChange[]> {
    return this.#board.history(topic, limit)
  }

  /** Writes a change. Retries after a lost answer, because the board recognises the change by its id. */
  async #write(topic: string, version: number, change: RecordChange): ReturnType<Board['change']> {
    for (let repeats = 1; ; repeats++) {
      try {
        return await this.#board.change(topic, version, change)
      } catch (error) {
        const mayWork = TocsinError.is(error) && (error.retryable || error.code === 'unknown-outcome')
        // If the board refused the first call, nothing was written. After a call with a lost answer, the outcome is
        // unknown, even if the board refuses a retry.
        if (repeats === 1 && !mayWork) throw error
        if (repeats === REPEATS_MAX || !mayWork) throw lost(topic, error)
        await sleep(this.#clock, REPEAT_MS)
      }
    }
  }

  /** Caches a record, unless the cached record is newer: answers may arrive in the wrong order. */
  #learn(record: TopicRecord): void {
    this.#learned++
    const known = this.#records.get(record.topic)
    if (known !== undefined && known.version >= record.version) return
    this.#set(record.topic, record)
  }

  #keepOnly(records: readonly TopicRecord[]): void {
    const there = new Map(records.map((record) => [record.topic, record]))
    for (const [topic, known] of this.#records) {
      const record = there.get(topic)
      // Compare more than the version: a record that was lost and created again may have the same version.
      if (JSON.stringify(record) !== JSON.stringify(known)) this.#set(topic, record)
    }
  }

  #set(topic: string, record: TopicRecord | undefined): void {
    if (record === undefined) this.#records.delete(topic)
    else this.#records.set(topic, record)
    for (const listener of this.#listeners.get(topic) ?? []) listener()
  }
}

function lost(topic: string, cause: unknown): TocsinError {
  return new TocsinError(
    'unknown-outcome',
    `topic '${topic}': its configuration may have been changed, the answer is lost; read it again`,
    {},
    cause,
  )
}

function conflict(topic: string, expected: number, version: number): TocsinError {
  return new TocsinError(
    'version-conflict',
    `topic '${topic}': version ${expected} was expected, ${version} is in force; read it again`,
    { expected, version },
  )
}
