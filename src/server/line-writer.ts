import type { ServerResponse } from 'node:http'

/** Lines are buffered up to this length and then written together. */
const WRITE_LENGTH = 32 * 1_024

/**
 * Writes lines of JSON to a client, and joins them into larger writes. `drained` waits for a client that reads slowly.
 */
export class LineWriter {
  readonly #response: ServerResponse
  #text = ''

  constructor(response: ServerResponse) {
    this.#response = response
  }

  write(value: unknown): void {
    this.#text += `${JSON.stringify(value)}\n`
    if (this.#text.length >= WRITE_LENGTH) this.flush()
  }

  flush(): void {
    if (this.#text === '') return
    this.#response.write(this.#text)
    this.#text = ''
  }

  /** Resolves when the response can take more data, when the client has disconnected, or when `stopped` aborts. */
  drained(stopped: AbortSignal): Promise<void> {
    const response = this.#response
    // Check the current state, not the result of the last write: the client may have read data since then.
    if (!response.writableNeedDrain || response.destroyed || stopped.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        response.off('drain', done)
        response.off('close', done)
        stopped.removeEventListener('abort', done)
        resolve()
      }
      response.on('drain', done)
      response.on('close', done)
      stopped.addEventListener('abort', done)
    })
  }

  end(): void {
    this.flush()
    this.#response.end()
  }
}
