/** A proxy that loses the reply to a request of one kind, and the connection with it. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { Target } from '../../real-servers/tcp-proxy.ts'

const HOST = '127.0.0.1'
/** Replies come in order: in this time those before it, and it, have come too, and are swallowed. */
const SWALLOW_MS = 20

interface Order {
  readonly mark: string
  readonly done: () => void
}

export async function startDropper(target: Target): Promise<ReplyDropper> {
  const dropper = new ReplyDropper(target)
  await dropper.listening
  return dropper
}

export class ReplyDropper implements AsyncDisposable {
  readonly listening: Promise<unknown>
  readonly #target: Target
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #order: Order | null = null

  constructor(target: Target) {
    this.#target = target
    this.#server = createServer({ noDelay: true }, (client) => this.#link(client))
    this.#server.listen(0, HOST)
    this.listening = once(this.#server, 'listening')
  }

  get url(): string {
    return `redis://${HOST}:${(this.#server.address() as AddressInfo).port}`
  }

  /** The next request that contains `mark` reaches the server; its reply does not come back. Resolves then. */
  dropReplyTo(mark: string): Promise<void> {
    return new Promise((done) => (this.#order = { mark, done }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #link(client: Socket): void {
    const server = connect({ ...this.#target, noDelay: true })
    const ends = [client, server]
    const destroy = () => ends.forEach((socket) => socket.destroy())
    for (const socket of ends) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        this.#sockets.delete(socket)
        destroy()
      })
    }
    let swallows: Order | null = null
    client.on('data', (request) => {
      if (this.#order !== null && request.includes(this.#order.mark)) {
        swallows = this.#order
        this.#order = null
      }
      server.write(request)
    })
    server.on('data', (reply) => {
      if (swallows === null) return void client.write(reply)
      const { done } = swallows
      swallows = { mark: '', done: () => {} }
      setTimeout(() => {
        destroy()
        done()
      }, SWALLOW_MS)
    })
  }
}
