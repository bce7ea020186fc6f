/** Reads Server-Sent Events as they come, as a browser would. */
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { once } from 'node:events'

/** Its fields depend on its name. */
export interface EventData {
  readonly topic?: string
  readonly key?: string
  readonly count?: number
  readonly error?: object
}

export interface SeenEvent {
  /** Null: a comment. */
  readonly name: string | null
  readonly data: EventData
  readonly text: string
}

export class EventReader implements Disposable {
  readonly request: ClientRequest
  readonly response: IncomingMessage
  readonly seen: SeenEvent[] = []
  /** Resolves when the server has ended it. */
  readonly ended: Promise<void>
  #rest = ''

  private constructor(sent: ClientRequest, response: IncomingMessage) {
    this.request = sent
    this.response = response
    this.ended = new Promise((resolve) => response.once('end', resolve).once('error', () => resolve()))
  }

  /** Listens from when this resolves. It reads nothing more before `read()`. */
  static async open(url: string, query = ''): Promise<EventReader> {
    const sent = request(`${url}/v1/events${query}`)
    sent.end()
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    response.setEncoding('utf8')
    return new EventReader(sent, response)
  }

  static async read(url: string, query = ''): Promise<EventReader> {
    const reader = await EventReader.open(url, query)
    reader.read()
    return reader
  }

  read(): void {
    this.response.on('data', (text: string) => {
      const blocks = (this.#rest + text).split('\n\n')
      this.#rest = blocks.pop() ?? ''
      for (const block of blocks) this.seen.push(eventOf(block))
    })
  }

  of(name: string): SeenEvent[] {
    return this.seen.filter((event) => event.name === name)
  }

  get comments(): string[] {
    return this.seen.filter(({ name }) => name === null).map(({ text }) => text)
  }

  [Symbol.dispose](): void {
    this.request.destroy()
  }
}

function eventOf(block: string): SeenEvent {
  if (block.startsWith(': ')) return { name: null, data: {}, text: block }
  const [, name, data] = /^event: (.+)\ndata: (.+)$/.exec(block) ?? []
  if (name === undefined) throw new Error(`no event: ${block}`)
  return { name, data: JSON.parse(data as string) as EventData, text: block }
}
