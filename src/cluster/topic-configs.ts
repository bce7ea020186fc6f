/**
 * The settings of all topics as the board has them, kept at hand: nothing has to be asked before a task is scheduled. A
 * change is written by comparing versions, and is in force here when it is in force on the board; the other nodes hear
 * of it, or find out with their next beat.
 */
import type { Board, PastChange, RecordChange, TopicRecord } from '../board.ts'
import type { SlotBy } from '../values/cell.ts'
import { type Clock, sleep } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Random } from '../random.ts'

type State = Pick<TopicRecord, 'declared' | 'live' | 'isPaused'>

/**
 * What a change makes of a record: what it does not speak of stays. It is asked again when somebody else was faster. Null:
 * the record says so already, and nothing is written.
 */
export type Change = (record: TopicRecord) => (Partial<State> & Pick<RecordChange, 'patch'>) | null

/** Somebody else was faster so often: there is a loop somewhere that changes this topic all the time. */
const TRIES_MAX = 50
/** After each time a little longer, by chance, so that they do not meet again. */
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
  /** The change of each topic that is under way, the last of those that wait. */
  readonly #changing = new Map<string, Promise<void>>()
  #revision: string | null = null
  /** How many records were heard of. */
  #learned = 0

  constructor(board: Board, clock: Clock, random: Random, by: string) {
    this.#board = board
    this.#clock = clock
    this.#random = random
    this.#by = by
  }

  /** Other nodes write them, too. */
  get isShared(): boolean {
    return this.#board.isShared
  }

  turn(): Promise<void> {
    return this.#clock.turn()
  }

  /** Of all that are on the board, as far as is known. */
  names(): string[] {
    return [...this.#records.keys()].toSorted()
  }

  /** Null: nobody created it yet. */
  get(topic: string): TopicRecord | null {
    return this.#records.get(topic) ?? null
  }

  onChange(topic: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set()
    this.#listeners.set(topic, listeners)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }

  /** Reads them all, unless the board's revision says that there is nothing new. */
  async refresh(revision: string | null = null): Promise<void> {
    if (revision !== null && revision === this.#revision) return
    const learned = this.#learned
    const records = await this.#board.records()
    for (const record of records) this.#learn(record)
    // As it was before the reading: what came meanwhile is read with the next beat.
    this.#revision = revision
    // What is older than what we know, or not there at all: the board forgot, and it is right. Unless we learned of
    // something while it was read: then look once more.
    if (this.#learned !== learned + records.length) this.#revision = null
    else this.#keepOnly(records)
  }

  /** Topics that this process created and that are not on the board: it was away, or forgot them. */
  async recreate(): Promise<void> {
    for (const [topic, { slots, slotBy }] of this.#wanted)
      if (!this.#records.has(topic)) this.#learn(await this.#board.create(topic, slots, slotBy))
  }

  /** Answers what is there, which somebody else may have created otherwise. */
  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    this.#wanted.set(topic, { slots, slotBy })
    const record = this.get(topic) ?? (await this.#board.create(topic, slots, slotBy))
    this.#learn(record)
    return record
  }

  /** One after the other in this process: it need not race with itself. */
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
    // Whoever names a version may have read it on a node that heard of it before us.
    if (ifVersion !== undefined && ifVersion !== this.get(topic)?.version) await this.refresh()
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = this.get(topic)
      if (record === null)
        throw new TocsinError('version-conflict', `topic '${topic}' is being made anew; try again`)
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
      // The board forgot it, or went back to what was before.
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

  /** A lost answer is asked for again: by its id the board recognises the change. */
  async #write(topic: string, version: number, change: RecordChange): ReturnType<Board['change']> {
    for (let repeats = 1; ; repeats++) {
      try {
        return await this.#board.change(topic, version, change)
      } catch (error) {
        const mayWork = TocsinError.is(error) && (error.retryable || error.code === 'unknown-outcome')
        // Refused at once, nothing was done. Otherwise any of the calls may have taken effect, or do so yet.
        if (repeats === 1 && !mayWork) throw error
        if (repeats === REPEATS_MAX || !mayWork) throw lost(topic, error)
        await sleep(this.#clock, REPEAT_MS)
      }
    }
  }

  /** An answer that was under way for long may be older than what we know. */
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
      // Not by its version alone: wiped and made again, it may have come to the same one.
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
