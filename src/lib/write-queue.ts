/**
 * Makes writes take effect in call order, even if the caller does not await one write before the next. A store keeps
 * the order of the calls that it gets, so most writes call the store at once and are never queued. Only a write that
 * must wait before it calls the store makes all later writes wait. Such a write has an async schema, or is a bulk call
 * of several batches.
 */
export class WriteQueue {
  /** Resolves when the last queued write has ended; null if no write is queued. */
  #tail: Promise<unknown> | null = null

  /**
   * Starts `write` at once if the queue is empty, else after the queued writes. With `isBlocking`, later writes wait
   * until this write has ended.
   */
  run<T>(write: () => Promise<T>, isBlocking = false): Promise<T> {
    const result = this.#tail === null ? write() : this.#tail.then(write)
    if (isBlocking || this.#tail !== null) this.#append(result)
    return result
  }

  /** Resolves when every write queued so far has ended. */
  async settled(): Promise<void> {
    // Await the current tail, not an empty queue: with steady traffic the queue may never be empty.
    await this.#tail
  }

  #append(result: Promise<unknown>): void {
    const tail = result.then(ignore, ignore).then(() => {
      if (this.#tail === tail) this.#tail = null
    })
    this.#tail = tail
  }
}

function ignore(): void {}
