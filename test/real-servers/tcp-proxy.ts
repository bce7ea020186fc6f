/** A TCP proxy that injects network faults between a client and a server: cuts, stalls, lost replies, delays, refusals. */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'

const HOST = '127.0.0.1'
const PORTS_TRIED_MAX = 10

export type Target = { host: string; port: number }

/** Starts a proxy in front of `target`. The caller stops it: `stop()`, or `await using`. */
export async function startProxy(target: Target): Promise<TcpProxy> {
  for (let tries = 1; ; tries++) {
    const proxy = new TcpProxy(target, await freePort())
    try {
      await proxy.accept()
      return proxy
    } catch (error) {
      if (tries === PORTS_TRIED_MAX) throw error
    }
  }
}

export class TcpProxy implements AsyncDisposable {
  readonly host = HOST
  readonly port: number
  readonly #target: Target
  readonly #links = new Set<Link>()
  readonly #faults = new Faults()
  #server: Server | undefined

  constructor(target: Target, port: number) {
    this.#target = target
    this.port = port
  }

  /** Rewrites an address of the server, such as `redis://127.0.0.1:6379/2`, so that it leads through this proxy. */
  url(base: string): string {
    const url = new URL(base)
    url.hostname = HOST
    url.port = String(this.port)
    return url.href
  }

  /** How many clients are connected. */
  connections(): number {
    return [...this.#links].filter((link) => link.isOpen).length
  }

  /** Destroys all connections now. */
  cut(): void {
    for (const link of this.#links) link.destroy()
  }

  /**
   * Forwards requests and discards replies until `resume()`. Call `cut()` before `resume()`: a client that kept its
   * connection would match the next reply with a request whose own reply was discarded.
   */
  dropReplies(): void {
    this.#faults.dropsReplies = true
  }

  /**
   * Discards the next bytes that the server sends on any connection and destroys that connection: the request was
   * carried out, and the client does not know. Resolves when that has happened.
   */
  dropNextReply(): Promise<void> {
    return new Promise((resolve) => this.#faults.onNextReply.push(resolve))
  }

  /** Holds back bytes and ends in both directions until `resume()`. Connections stay open. */
  stall(): void {
    this.#faults.stall()
  }

  /** Ends `stall()` and `dropReplies()`. Bytes that were held back are forwarded in order. */
  resume(): void {
    this.#faults.dropsReplies = false
    this.#faults.unstall()
  }

  /** Delays everything that arrives from now on, in both directions; 0 ends it. */
  delay(ms: number): void {
    this.#faults.delayMs = ms
  }

  /** Refuses new connections, as a server that is down does, until `accept()`. Open connections stay. */
  refuse(): void {
    this.#server?.close()
    this.#server = undefined
  }

  async accept(): Promise<void> {
    if (this.#server !== undefined) return
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#link(client))
    this.#server = server
    server.listen(this.port, HOST)
    await once(server, 'listening')
  }

  async stop(): Promise<void> {
    this.refuse()
    const gone = [...this.#links].map((link) => link.gone)
    this.cut()
    await Promise.all(gone)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  #link(client: Socket): void {
    const server = connect({ ...this.#target, allowHalfOpen: true, noDelay: true })
    const link = new Link(client, server, this.#faults)
    this.#links.add(link)
    void link.gone.then(() => this.#links.delete(link))
  }
}

/** The faults in force, for all connections. */
class Faults {
  dropsReplies = false
  delayMs = 0
  /** Callers of `dropNextReply` that wait; each takes one reply. */
  readonly onNextReply: (() => void)[] = []
  #passage: PromiseWithResolvers | undefined

  stall(): void {
    this.#passage ??= withResolvers()
  }

  unstall(): void {
    this.#passage?.resolve()
    this.#passage = undefined
  }

  /** Resolves when nothing is stalled. */
  async passable(): Promise<void> {
    while (this.#passage !== undefined) await this.#passage.promise
  }
}

/** A client's connection and its counterpart to the server. */
class Link {
  /** Resolves when both sockets are closed. */
  readonly gone: Promise<void>
  readonly #sockets: [client: Socket, server: Socket]
  readonly #ended = new AbortController()

  constructor(client: Socket, server: Socket, faults: Faults) {
    this.#sockets = [client, server]
    this.gone = Promise.all(this.#sockets.map(closed)).then(() => {})
    this.#flow(client, server, faults, () => true)
    this.#flow(server, client, faults, () => this.#passesReply(faults))
  }

  get isOpen(): boolean {
    return !this.#ended.signal.aborted
  }

  destroy(): void {
    this.#ended.abort()
    for (const socket of this.#sockets) socket.destroy()
  }

  #passesReply(faults: Faults): boolean {
    const dropped = faults.onNextReply.shift()
    if (dropped !== undefined) {
      this.destroy()
      dropped()
      return false
    }
    return !faults.dropsReplies
  }

  /** Forwards bytes and the end of the stream in order. Bytes that are held back stay in memory. */
  #flow(from: Socket, to: Socket, faults: Faults, passes: () => boolean): void {
    let last = Promise.resolve()
    const next = (act: () => void): void => {
      const dueMs = performance.now() + faults.delayMs
      last = last.then(async () => {
        const leftMs = dueMs - performance.now()
        if (leftMs > 0) await sleep(leftMs, undefined, { signal: this.#ended.signal }).catch(() => {})
        await faults.passable()
        if (this.isOpen) act()
      })
    }
    from.on('data', (chunk) => next(() => passes() && to.write(chunk)))
    from.on('end', () => next(() => to.end()))
    // A reset is forwarded as the end of both directions. Its 'error' event comes before and adds nothing.
    from.on('error', () => {})
    from.on('close', (hadError) => hadError && next(() => this.destroy()))
  }
}

const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => socket.once('close', () => resolve()))

type PromiseWithResolvers = { promise: Promise<void>; resolve: () => void }

function withResolvers(): PromiseWithResolvers {
  let resolve = (): void => {}
  const promise = new Promise<void>((fulfil) => {
    resolve = fulfil
  })
  return { promise, resolve }
}
