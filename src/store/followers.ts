import type { LedgerTransaction } from '../ledger.ts'
import type { Place } from '../timetable.ts'

/** What a transaction of a caller wrote, by topic and key. */
type Touched = Map<string, Map<string, Place>>

/**
 * Follows the transactions of callers to their end: only then is there something to tell the timetable, or nothing. One
 * follower per connection, however much is written on it.
 */
export class Followers {
  readonly #catchUp: (topic: string, places: readonly Place[]) => Promise<void>
  readonly #onError: (error: unknown) => void
  readonly #touched = new Map<object, Touched>()
  readonly #following = new Set<Promise<void>>()
  #isClosed = false

  constructor(
    catchUp: (topic: string, places: readonly Place[]) => Promise<void>,
    onError: (error: unknown) => void,
  ) {
    this.#catchUp = catchUp
    this.#onError = onError
  }

  follow(tx: object, transaction: LedgerTransaction, topic: string, places: readonly Place[]): void {
    let touched = this.#touched.get(tx)
    if (touched === undefined) {
      touched = new Map()
      this.#touched.set(tx, touched)
      const followed = this.#toTheEnd(tx, transaction, touched)
        .catch(this.#onError)
        .finally(() => this.#following.delete(followed))
      this.#following.add(followed)
    }
    let ofTopic = touched.get(topic)
    if (ofTopic === undefined) {
      ofTopic = new Map()
      touched.set(topic, ofTopic)
    }
    for (const { key, cell } of places) ofTopic.set(key, { key, cell })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#following)
  }

  async #toTheEnd(tx: object, transaction: LedgerTransaction, touched: Touched): Promise<void> {
    await transaction.ended(() => this.#isClosed)
    this.#touched.delete(tx)
    // The ledger has it, or has not: the next start finds what there is. Whoever closes need not wait for strangers.
    if (this.#isClosed) return
    for (const [topic, places] of touched) await this.#catchUp(topic, [...places.values()])
  }
}
