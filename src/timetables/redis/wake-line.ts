import { ErrorReply } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { type Client, type Connection, repeatableCall } from './connection.ts'

/** The delay before a failed first connection is tried again. */
const REOPEN_MS = 1_000

/** Replies of a server that does not have the channel, or does not know whether it has. */
const HAS_MOVED = /^(MOVED|ASK|CLUSTERDOWN|TRYAGAIN) /

/** In a cluster, a subscription that was refused is tried again after this time at the latest. */
const CHECK_MS_MAX = 1_000

export type OnMessage = (message: string, channel: string) => void

export interface WakeLineParts {
  readonly clock: Clock
  readonly callTimeoutMs: number
  /** The interval of the PINGs. A subscriber sends nothing else, so it would never notice a dead connection. */
  readonly checkEveryMs: number
  /** True if a command may have channels of one hash slot only. */
  readonly isCluster: boolean
  readonly connect: (onBack: () => void) => Promise<Connection>
  /** Called after these channels were subscribed: messages sent before were missed. */
  readonly onSubscribed: (name: string, channels: readonly string[]) => void
  /** Called when the server no longer serves a channel, because its hash slot has moved. */
  readonly onMoved: () => void
  readonly onError: (error: unknown) => void
}

/** The channels of a topic, or of the board, that one server has. All of them use one function. */
interface Group {
  readonly channels: readonly string[]
  readonly onMessage: OnMessage
}

/**
 * The subscriptions to the channels of one server. They have their own connection, because Redis disconnects subscribers
 * with a large output buffer. The first channel opens this connection.
 */
export class WakeLine {
  readonly #parts: WakeLineParts
  readonly #groups = new Map<string, Group>()
  /** Channels that the server has dropped by itself. */
  readonly #dropped = new Set<string>()
  #connection: Connection | null = null
  #isOpening = false
  #isClosed = false
  #cancelTimer: () => void = noop

  constructor(parts: WakeLineParts) {
    this.#parts = parts
  }

  /** Subscribes to the channels of `name`, and to no others of it. */
  set(name: string, channels: readonly string[], onMessage: OnMessage): void {
    const before = this.#groups.get(name)?.channels ?? []
    const lost = before.filter((channel) => !channels.includes(channel))
    const more = channels.filter((channel) => !before.includes(channel))
    if (channels.length === 0) this.#groups.delete(name)
    else this.#groups.set(name, { channels, onMessage })
    if (lost.length > 0) this.#leave(lost)
    if (more.length === 0) return
    if (this.#connection === null) void this.#open()
    else void this.#subscribe(name, more)
  }

  /** Ends the subscriptions of `name`: nothing watches it any more. */
  drop(name: string): void {
    const group = this.#groups.get(name)
    this.#groups.delete(name)
    const client = this.#connection?.client
    // A lost connection has no subscriptions to end.
    if (group === undefined || client?.isReady !== true) return
    // Pass the listener. Without it, the client would also drop a subscription that is made right after this call.
    for (const channels of this.#commandsOf(group.channels))
      client.sUnsubscribe(channels, group.onMessage).catch(noop)
  }

  close(): void {
    this.#isClosed = true
    this.#groups.clear()
    this.#disconnect()
  }

  #disconnect(): void {
    this.#cancelTimer()
    this.#connection?.close()
    this.#connection = null
    this.#dropped.clear()
  }

  /** Leaves channels that another server has now. */
  #leave(channels: readonly string[]): void {
    const kept = channels.filter((channel) => !this.#dropped.delete(channel))
    if (this.#connection === null || kept.length === 0) return
    // The client subscribes to all of its channels again after a reconnect, and a server that does not have them refuses.
    // So a connection with channels of another server is replaced.
    this.#disconnect()
    if (this.#groups.size > 0) void this.#open()
  }

  async #open(): Promise<void> {
    if (this.#isOpening || this.#isClosed || this.#connection !== null) return
    this.#cancelTimer()
    this.#isOpening = true
    try {
      const connection = await this.#parts.connect(() => this.#subscribeAll())
      if (this.#isClosed || this.#groups.size === 0) return connection.close()
      this.#connection = connection
      this.#subscribeAll()
      this.#checkLater()
    } catch (error) {
      this.#parts.onError(error)
      if (!this.#isClosed) this.#cancelTimer = this.#parts.clock.after(REOPEN_MS, () => void this.#open())
    } finally {
      this.#isOpening = false
    }
  }

  #subscribeAll(): void {
    this.#dropped.clear()
    for (const [name, { channels }] of this.#groups) void this.#subscribe(name, channels)
  }

  async #subscribe(name: string, channels: readonly string[]): Promise<void> {
    const client = this.#connection?.client
    const group = this.#groups.get(name)
    if (client === undefined || group === undefined) return
    this.#watchMoves(client)
    const commands = this.#commandsOf(channels)
    // All subscriptions of a client to a channel use one function, so that subscribing again does not double the
    // messages.
    const answers = await Promise.allSettled(commands.map((some) => client.sSubscribe(some, group.onMessage)))
    if (this.#isClosed || !this.#groups.has(name)) return
    const isDone = (_: unknown, n: number) => answers[n]?.status === 'fulfilled'
    const subscribed = commands.filter(isDone).flat()
    if (subscribed.length > 0) this.#parts.onSubscribed(name, subscribed)
    const failure = answers.find((answer) => answer.status === 'rejected')
    if (failure !== undefined)
      this.#onFailure(failure.reason, commands.filter((_, n) => !isDone(_, n)).flat())
  }

  /** The connection was lost again, and the next reconnect subscribes; or another server has the channels. */
  #onFailure(error: unknown, channels: readonly string[]): void {
    const hasMoved = error instanceof ErrorReply && HAS_MOVED.test(error.message)
    if (!hasMoved) return this.#parts.onError(error)
    // The server that has them may not know it yet: a later check subscribes again.
    for (const channel of channels) this.#dropped.add(channel)
    this.#parts.onMoved()
  }

  /** The channels of each command: all of them, or in a cluster those of one hash slot. */
  #commandsOf(channels: readonly string[]): string[][] {
    return this.#parts.isCluster ? channels.map((channel) => [channel]) : [[...channels]]
  }

  readonly #watched = new WeakSet<Client>()

  #watchMoves(client: Client): void {
    if (this.#watched.has(client)) return
    this.#watched.add(client)
    client.on('sharded-channel-moved', (channel: string) => {
      this.#dropped.add(channel)
      this.#parts.onMoved()
    })
  }

  /** Sends a PING at regular intervals, and subscribes again to what the server has dropped and still has. */
  #checkLater(): void {
    const { clock, callTimeoutMs, checkEveryMs, isCluster } = this.#parts
    // What was refused is tried again soon.
    this.#cancelTimer = clock.after(isCluster ? Math.min(checkEveryMs, CHECK_MS_MAX) : checkEveryMs, () => {
      this.#connection?.send(['PING'], repeatableCall('ping', clock, callTimeoutMs)).catch(noop)
      const dropped = [...this.#dropped]
      this.#dropped.clear()
      for (const [name, { channels }] of this.#groups) {
        const again = dropped.filter((channel) => channels.includes(channel))
        if (again.length > 0) void this.#subscribe(name, again)
      }
      if (!this.#isClosed) this.#checkLater()
    })
  }
}

function noop(): void {}
