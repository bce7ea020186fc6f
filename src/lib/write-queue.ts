/**
 * Writes take effect in the order in which they were called, also without an await between them. Mostly that is so
 * by itself. It is not when one has to wait before it writes (a schema that answers later, a bulk call in pieces):
 * then those called after it wait as well.
 */
export class InOrder {
  #tail: Promise<unknown> | null = null

  /** Batcher now if nothing is under way, else after it. `blocks` says that what comes later must wait for this one. */
  run<T>(write: () => Promise<T>, blocks = false): Promise<T> {
    const result = this.#tail === null ? write() : this.#tail.then(write)
    if (blocks || this.#tail !== null) this.#follow(result)
    return result
  }

  /** Resolves when everything called so far has taken effect. */
  async settled(): Promise<void> {
    // The tail of this moment: waiting for later ones as well could take for ever.
    await this.#tail
  }

  #follow(result: Promise<unknown>): void {
    const tail = result.then(ignore, ignore).then(() => {
      if (this.#tail === tail) this.#tail = null
    })
    this.#tail = tail
  }
}

function ignore(): void {}
