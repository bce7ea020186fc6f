import { InOrder } from '../lib/write-queue.ts'
import { checkOptions, needsLedger } from '../values/options.ts'
import type { StoreTransaction, TaskStore } from '../store.ts'
import type { WriteOptions } from './topic.ts'
import type { TopicParts } from './topic-parts.ts'

/**
 * Every write to a topic passes here: not before it is known how the topic places its keys, in the caller's transaction
 * where it names one, and in the order of the calls.
 */
export class WriteGate {
  readonly order = new InOrder()
  readonly #parts: TopicParts

  constructor(parts: TopicParts) {
    this.#parts = parts
  }

  /** By Tocsin itself, without anything said: the common case, as short as can be. */
  passAlone<T>(write: () => Promise<T>, { makes = false } = {}): Promise<T> {
    try {
      this.#parts.checkOpen()
      if (makes) this.#bring()
      return this.#onceCreated(write)
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  /**
   * What goes wrong inside a transaction of SQLite is thrown, not rejected: there nothing is awaited, and a throw undoes
   * it as a whole. Otherwise it is rejected, as anybody expects.
   */
  pass<T>(
    options: WriteOptions | undefined,
    within: (tx: StoreTransaction) => Promise<T>,
    alone: () => Promise<T>,
    { known, makes = false }: PassOptions = {},
  ): Promise<T> {
    let tx: StoreTransaction | null = null
    try {
      tx = this.#transactionOf(options, known)
      if (makes) this.#bring()
      return tx === null ? this.#onceCreated(alone) : this.#withinCreated(within(tx))
    } catch (error) {
      if (tx?.isSynchronous === true) throw error
      return Promise.reject(error as Error)
    }
  }

  /** Resolves when every write called so far has taken effect. */
  async written(): Promise<void> {
    await this.#parts.settings.creating
    await this.order.settled()
  }

  /** The store, when it is known by now that keys are placed as we believe: a write may have waited to hear. */
  get store(): TaskStore {
    this.#parts.settings.check()
    return this.#parts.store
  }

  /** What is scheduled makes a topic, also by its name alone. */
  #bring(): void {
    const { settings } = this.#parts
    if (!settings.isUnknown || settings.creating !== null) return
    settings.create()
  }

  /** Another node may be creating the topic at this moment, and place its keys in another way: writes wait to hear. */
  #onceCreated<T>(write: () => Promise<T>): Promise<T> {
    const { creating } = this.#parts.settings
    return creating === null ? write() : creating.then(write)
  }

  /**
   * In the caller's transaction it is written at once: later it might be another one. But it is not called written before
   * it is known that its place is right.
   */
  #withinCreated<T>(written: Promise<T>): Promise<T> {
    const { settings } = this.#parts
    if (settings.creating === null) return written
    written.catch(() => {})
    return settings.creating.then(() => {
      settings.check()
      return written
    })
  }

  /** The caller's transaction, or null: Tocsin's own. */
  #transactionOf(
    options: WriteOptions | undefined,
    known: readonly string[] = ['tx'],
  ): StoreTransaction | null {
    this.#parts.checkOpen()
    if (options === undefined) return null
    checkOptions(options, known, 'options')
    if (options.tx === undefined) return null
    const { ledger } = this.#parts.store
    if (ledger === undefined) throw needsLedger('{ tx }')
    return ledger.within(options.tx)
  }
}

interface PassOptions {
  /** Options that this write has. */
  readonly known?: readonly string[]
  /** It makes the topic, where there is none. */
  readonly makes?: boolean
}
