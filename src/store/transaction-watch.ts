import type { Place } from '../timetable.ts'

/** Resolves when a transaction has ended, or as soon as `isPointless` returns true, because the store is closing. */
type Ended = (isPointless: () => boolean) => Promise<void>

/** The places that a caller's transaction wrote, by topic and key. */
type Touched = Map<string, Map<string, Place>>

/**
 * Waits for the end of callers' transactions, and then updates the hint table. Before the end, a transaction may still
 * roll back. There is one wait per transaction object, however many tasks the transaction writes.
 */
export class TransactionWatch {
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

  follow(tx: object, ended: Ended, topic: string, places: readonly Place[]): void {
    let touched = this.#touched.get(tx)
    if (touched === undefined) {
      touched = new Map()
      this.#touched.set(tx, touched)
      const followed = this.#toTheEnd(tx, ended, touched)
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

  async #toTheEnd(tx: object, ended: Ended, touched: Touched): Promise<void> {
    await ended(() => this.#isClosed)
    this.#touched.delete(tx)
    // When closing, do not wait for callers' transactions: the next start loads the tasks that they committed.
    if (this.#isClosed) return
    for (const [topic, places] of touched) await this.#catchUp(topic, [...places.values()])
  }
}
