import type { ServerResponse } from 'node:http'

/** Enough for a write to be worth it. */
const WRITE_LENGTH = 32 * 1_024

/** Lines of JSON to a client, gathered into larger writes; `drained` waits for one that reads slowly. */
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

  /** Resolves when the client has read enough of what was written, or is gone, or `stopped` aborts. */
  drained(stopped: AbortSignal): Promise<void> {
    const response = this.#response
    // As the response has it now, not as the last write said: it may have been read since.
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
