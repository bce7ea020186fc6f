/** A client that reads while it writes. */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { once } from 'node:events'

/** A line of an answer: what it has depends on what it is. */
export interface AnswerLine {
  readonly line?: number
  readonly key?: string
  readonly outcome?: string
  readonly error?: {
    readonly code: string
    readonly message: string
    readonly field?: string
    readonly hint?: string
  }
  readonly summary?: {
    readonly created: number
    readonly replaced: number
    readonly kept: number
    readonly failed: number
  }
}

export class BulkClient implements Disposable {
  readonly request: ClientRequest
  readonly response: Promise<IncomingMessage>
  #lines: AsyncIterator<string> | null = null

  constructor(url: string, topic: string, query = '') {
    this.request = request(`${url}/v1/topics/${topic}/schedule${query}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
    })
    // A reset is reported by reading.
    this.request.on('error', () => {})
    this.response = once(this.request, 'response').then(([response]) => response as IncomingMessage)
    this.response.catch(() => {})
    this.request.flushHeaders()
  }

  send(...lines: readonly (object | string)[]): boolean {
    return this.request.write(
      lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''),
    )
  }

  /** Resolves when the socket can take more, or is closed. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.request.off('drain', done).off('close', done)
        resolve()
      }
      this.request.on('drain', done).on('close', done)
    })
  }

  end(): void {
    this.request.end()
  }

  /** The next line of the answer; null at its end, or when it was cut. */
  async next(): Promise<AnswerLine | null> {
    this.#lines ??= wholeLinesOf(await this.response)
    const { done, value } = await this.#lines.next()
    return done === true ? null : (JSON.parse(value) as AnswerLine)
  }

  async rest(): Promise<AnswerLine[]> {
    const lines: AnswerLine[] = []
    for (let line = await this.next(); line !== null; line = await this.next()) lines.push(line)
    return lines
  }

  [Symbol.dispose](): void {
    this.request.destroy()
  }
}

/** What a cut took the end of was not said. */
async function* wholeLinesOf(response: IncomingMessage): AsyncGenerator<string> {
  let rest = ''
  try {
    for await (const text of response.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } catch {}
}

export function linesIn(text: string): AnswerLine[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as AnswerLine)
}
