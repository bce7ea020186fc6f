import { type Clock, sleep } from '../../clock.ts'
import type { SlotBy } from '../../values/cell.ts'
import { TocsinError } from '../../errors.ts'
import type { LedgerSettings, Placing, TopicCreated } from '../../ledger.ts'
import type { Database } from './database.ts'
import { TOPICS } from './statements/topics.ts'
import type { TopicName } from './writes.ts'

/** The delay before the placing of a topic is stored again if another transaction has locked its row. */
const LOCKED_MS = 50

/**
 * Looks up and caches the ids of topics. An id stays valid, because a topic is never deleted. The table also stores the
 * placing of each topic: how its keys are assigned to cells (`slotBy`), and how its times are rounded (`mergeMs`).
 * Other writers than this program, such as the SQL functions, read the placing there.
 */
export class Topics {
  readonly #database: Database
  readonly #clock: Clock
  readonly #known = new Map<string, number>()
  readonly #configured = new Map<
    string,
    { readonly settings: () => LedgerSettings; readonly created: TopicCreated }
  >()
  /** The topics whose stored `slotBy` is final and equal to the `slotBy` of this process. */
  readonly #agreed = new Set<string>()
  /** The mergeMs that this process last stored for each topic. */
  readonly #storedMergeMs = new Map<string, number>()

  constructor(database: Database, clock: Clock) {
    this.#database = database
    this.#clock = clock
  }

  configure(name: string, settings: () => LedgerSettings, created: TopicCreated): void {
    this.#configured.set(name, { settings, created })
  }

  /** True if claims of the topic do not wait until they are on disk. The setting is live, so it is read for each claim. */
  hasFastClaims(name: string): boolean {
    return this.#configured.get(name)?.settings().fastClaims === true
  }

  /** Returns false if the topic keeps no ended tasks, because its retention is 0. */
  keepsEnded(name: string): boolean {
    return this.#configured.get(name)?.settings().keepsEnded ?? true
  }

  /**
   * Returns the topic. If the topic does not exist, creates it on the ledger's own connection, so that a caller's
   * ROLLBACK does not remove the topic.
   */
  async made(name: string): Promise<TopicName> {
    const known = await this.seen(name)
    if (known !== null) return { id: known, name }
    await this.#database.ask('topic', TOPICS.create.text, [name])
    return { id: (await this.seen(name)) as number, name }
  }

  /** Returns the id of the topic, or null if the topic does not exist yet and so has no tasks. */
  async seen(name: string): Promise<number | null> {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const [row] = await this.#database.ask('topic', TOPICS.find.text, [name])
    if (row === undefined) return null
    this.#known.set(name, row[0] as number)
    return row[0] as number
  }

  /**
   * Returns the topic for writing new keys. Stores the placing, and makes the stored `slotBy` final. Throws if another
   * `slotBy` is final.
   */
  async placed(name: string): Promise<TopicName> {
    const topic = await this.made(name)
    const configured = this.#configured.get(name)
    if (configured === undefined) return topic
    const { settings: placing, created } = configured
    if (this.#agreed.has(name) && this.#isStored(name, placing())) return topic
    // Wait until the topic exists on the board, because a write in a caller's transaction has not waited yet. Otherwise
    // another node could create the topic with another slotBy. Then the board would reject this node, and the ledger
    // would reject the other node.
    await created()
    const { slotBy, mergeMs } = placing()
    const deadlineMs = this.#database.deadlineMs()
    for (;;) {
      const rows = await this.#database.ask('topic', TOPICS.place.text, [topic.id, slotBy, mergeMs])
      if (rows.length > 0) {
        this.#agreed.add(name)
        this.#storedMergeMs.set(name, mergeMs)
        return topic
      }
      // No row was updated: another slotBy is final, or another transaction has locked the row. If the stored slotBy is
      // the same, the call does not wait for the lock.
      const [row] = await this.#database.ask('topic', TOPICS.slotBy.text, [topic.id])
      const [stored, isFinal] = row as [SlotBy | null, boolean]
      if (stored === null || stored === slotBy) return topic
      if (isFinal) throw otherSlotBy(name, slotBy)
      // Another slotBy was only announced. The transaction with the lock makes it final, or replaces it by this one. So
      // the call has to wait: a refusal could be wrong, and so could a task in the cell of this slotBy.
      if (this.#clock.monotonicNow() + LOCKED_MS >= deadlineMs) throw undecidedSlotBy(name, stored)
      await sleep(this.#clock, LOCKED_MS)
    }
  }

  /**
   * Like `seen`, for calls that look up keys by cell. Throws if the stored `slotBy` is final and differs from the
   * `slotBy` of this program, because then the keys are in other cells.
   */
  async agreed(name: string): Promise<number | null> {
    const id = await this.seen(name)
    const placing = this.#configured.get(name)?.settings()
    if (id === null || placing === undefined || this.#agreed.has(name)) return id
    const [row] = await this.#database.ask('topic', TOPICS.fixedSlotBy.text, [id])
    if (row === undefined) return id
    if (row[0] !== placing.slotBy) throw otherSlotBy(name, placing.slotBy)
    this.#agreed.add(name)
    return id
  }

  /**
   * Stores the placing of a topic that this process consumes, for other writers than this program. Does not make
   * `slotBy` final.
   */
  async announce(name: string): Promise<void> {
    const placing = this.#configured.get(name)?.settings()
    if (placing === undefined || this.#isStored(name, placing)) return
    const { id } = await this.made(name)
    const rows = await this.#database.ask('topic', TOPICS.announce.text, [
      id,
      placing.slotBy,
      placing.mergeMs,
    ])
    if (rows.length > 0) this.#storedMergeMs.set(name, placing.mergeMs)
  }

  #isStored(name: string, { mergeMs }: Placing): boolean {
    return this.#storedMergeMs.get(name) === mergeMs
  }
}

function undecidedSlotBy(name: string, announced: SlotBy): TocsinError {
  return new TocsinError(
    'ledger-unavailable',
    `topic '${name}': another transaction is still writing its first task, perhaps with slotBy '${announced}'; nothing was written. Try again when it is over`,
    { field: 'slotBy' },
  )
}

function otherSlotBy(name: string, ours: SlotBy): TocsinError {
  const theirs = ours === 'key' ? 'prefix' : 'key'
  return new TocsinError(
    'bad-topic',
    `topic '${name}': its tasks are stored with slotBy '${theirs}', and this program has '${ours}', so it would look for them in other slots. Share one defineTopic, or use another name`,
    { field: 'slotBy' },
  )
}
