import type { SlotBy } from '../../values/cell.ts'
import { TocsinError } from '../../errors.ts'
import type { Placing } from '../../ledger.ts'
import type { Database } from './database.ts'
import { TOPICS } from './statements/topics.ts'
import type { TopicName } from './writes.ts'

/**
 * Topics have numbers in the tables. Those that were seen are kept: a topic never goes. Beside its number stands how its
 * keys are placed, for those who write without this process.
 */
export class Topics {
  readonly #database: Database
  readonly #known = new Map<string, number>()
  readonly #placings = new Map<string, () => Placing>()
  /** Of these the ledger places keys as this process does, for good. */
  readonly #agreed = new Set<string>()
  /** What was last told of each. */
  readonly #toldMergeMs = new Map<string, number>()

  constructor(database: Database) {
    this.#database = database
  }

  configure(name: string, placing: () => Placing): void {
    this.#placings.set(name, placing)
  }

  /** The topic, made if it is not there. On a connection of ours: what a caller undoes must not take it along. */
  async made(name: string): Promise<TopicName> {
    const known = await this.seen(name)
    if (known !== null) return { id: known, name }
    await this.#database.ask('topic', TOPICS.create.text, [name])
    return { id: (await this.seen(name)) as number, name }
  }

  /** Null: there is no such topic yet, and so no task. */
  async seen(name: string): Promise<number | null> {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const [row] = await this.#database.ask('topic', TOPICS.find.text, [name])
    if (row === undefined) return null
    this.#known.set(name, row[0] as number)
    return row[0] as number
  }

  /** The topic, for one who places keys in it. Refuses who would place them elsewhere than others did. */
  async placed(name: string): Promise<TopicName> {
    const topic = await this.made(name)
    const placing = this.#placings.get(name)?.()
    if (placing === undefined || (this.#agreed.has(name) && this.#isTold(name, placing))) return topic
    const { slotBy, mergeMs } = placing
    const rows = await this.#database.ask('topic', TOPICS.place.text, [topic.id, slotBy, mergeMs])
    if (rows.length > 0) {
      this.#agreed.add(name)
      this.#toldMergeMs.set(name, mergeMs)
      return topic
    }
    // Placed otherwise; or somebody's open transaction is at it, which is not waited for: what is known so far has to fit.
    const [row] = await this.#database.ask('topic', TOPICS.slotBy.text, [topic.id])
    if (row?.[0] !== null && row?.[0] !== slotBy) throw otherSlotBy(name, slotBy)
    return topic
  }

  /** As `seen`, for one who asks for keys by where this process places them. */
  async agreed(name: string): Promise<number | null> {
    const id = await this.seen(name)
    const placing = this.#placings.get(name)?.()
    if (id === null || placing === undefined || this.#agreed.has(name)) return id
    const [row] = await this.#database.ask('topic', TOPICS.fixedSlotBy.text, [id])
    if (row === undefined) return id
    if (row[0] !== placing.slotBy) throw otherSlotBy(name, placing.slotBy)
    this.#agreed.add(name)
    return id
  }

  /** It is consumed here, and may be written to from elsewhere. */
  async announce(name: string): Promise<void> {
    const placing = this.#placings.get(name)?.()
    if (placing === undefined || this.#isTold(name, placing)) return
    const { id } = await this.made(name)
    const rows = await this.#database.ask('topic', TOPICS.announce.text, [
      id,
      placing.slotBy,
      placing.mergeMs,
    ])
    if (rows.length > 0) this.#toldMergeMs.set(name, placing.mergeMs)
  }

  #isTold(name: string, { mergeMs }: Placing): boolean {
    return this.#toldMergeMs.get(name) === mergeMs
  }
}

function otherSlotBy(name: string, ours: SlotBy): TocsinError {
  const theirs = ours === 'key' ? 'prefix' : 'key'
  return new TocsinError(
    'bad-topic',
    `topic '${name}': its tasks lie in the ledger by slotBy '${theirs}', and this program has '${ours}', by which it would look for them elsewhere. Share one defineTopic, or take another name`,
    { field: 'slotBy' },
  )
}
