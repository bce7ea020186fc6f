import { CELLS } from '../../values/cell.ts'
import type { Watcher } from '../../timetable.ts'
import { type Client, Connection, type ConnectionParts } from './connection.ts'
import type { Keys } from './keys.ts'
import { type Listener, BoardListeners } from './board-listeners.ts'

/** The delay before a failed first connection is tried again. */
const REOPEN_MS = 1_000

/**
 * Subscribes to the channels of cells and of the board. A message says that a cell has an earlier next ring, that a
 * held task was cancelled or replaced, or that the board changed. The subscriptions have their own connection, because
 * Redis disconnects subscribers with a large output buffer. The first subscription opens this connection.
 *
 * Messages are lost while the connection is down. So every cell is woken and every listener of the board is called
 * after every reconnect, and once when a subscription begins. A regular PING detects a connection that died silently.
 */
export class Wakes {
  readonly #parts: Omit<ConnectionParts, 'onBack'>
  readonly #keys: Keys
  readonly #checkEveryMs: number
  readonly #topics = new Map<string, Set<Watcher>>()
  readonly #boardListeners: BoardListeners
  #connection: Connection | null = null
  #isOpening = false
  #isClosed = false
  #cancelTimer: () => void = noop

  constructor(parts: Omit<ConnectionParts, 'onBack'>, keys: Keys, checkEveryMs: number) {
    this.#parts = parts
    this.#keys = keys
    this.#boardListeners = new BoardListeners(keys.board.channel)
    this.#checkEveryMs = checkEveryMs
  }

  watch(topic: string, watcher: Watcher): () => void {
    const known = this.#topics.get(topic)
    if (known !== undefined) known.add(watcher)
    else {
      this.#topics.set(topic, new Set([watcher]))
      if (this.#connection !== null) void this.#subscribe([topic])
      else void this.#open()
    }
    return () => this.#unwatch(topic, watcher)
  }

  /** Calls `onChange` when the board changes. Returns a function that removes the listener. */
  listen(onChange: () => void): () => void {
    const listener = this.#boardListeners.add(onChange)
    if (this.#connection === null) void this.#open()
    else void this.#subscribeBoard([listener])
    return () => this.#boardListeners.remove(listener, this.#connection?.client)
  }

  close(): void {
    this.#isClosed = true
    this.#cancelTimer()
    this.#topics.clear()
    this.#boardListeners.clear()
    this.#connection?.close()
  }

  #unwatch(topic: string, watcher: Watcher): void {
    const watchers = this.#topics.get(topic)
    watchers?.delete(watcher)
    if (watchers?.size !== 0) return
    this.#topics.delete(topic)
    const client = this.#connection?.client
    // A lost connection has no subscriptions to end.
    if (client?.isReady !== true) return
    // Pass the listener. Without it, the client would also drop a subscription that is made right after this call.
    client.sUnsubscribe(this.#channels(topic), this.#listenerOf(client, topic)).catch(noop)
  }

  async #open(): Promise<void> {
    if (this.#isOpening || this.#isClosed || this.#connection !== null) return
    this.#cancelTimer()
    this.#isOpening = true
    try {
      const connection = await Connection.open({
        ...this.#parts,
        onBack: () => this.#subscribeAll(),
      })
      if (this.#isClosed) return connection.close()
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
    void this.#subscribe([...this.#topics.keys()])
    void this.#subscribeBoard()
  }

  async #subscribeBoard(listeners?: readonly Listener[]): Promise<void> {
    const client = this.#connection?.client
    if (client === undefined) return
    try {
      await this.#boardListeners.subscribe(client, listeners)
    } catch (error) {
      // The connection was lost again. The next reconnect subscribes.
      if (!this.#isClosed) this.#parts.onError(error)
    }
  }

  async #subscribe(topics: readonly string[]): Promise<void> {
    const client = this.#connection?.client
    if (client === undefined) return
    try {
      await Promise.all(topics.map((topic) => this.#subscribeTopic(client, topic)))
    } catch (error) {
      // The connection was lost again. The next reconnect subscribes.
      if (!this.#isClosed) this.#parts.onError(error)
    }
  }

  async #subscribeTopic(client: Client, topic: string): Promise<void> {
    // All subscriptions of a client to a channel use one function, so that subscribing again does not double the
    // messages.
    await client.sSubscribe(this.#channels(topic), this.#listenerOf(client, topic))
    // Wake every cell, because messages sent before the subscription were missed.
    for (const watcher of this.#topics.get(topic) ?? []) {
      watcher.missed()
      for (let cell = 0; cell < CELLS; cell++) watcher.wake(cell, 0, 0)
    }
  }

  readonly #listeners = new WeakMap<Client, Map<string, (message: string, channel: string) => void>>()

  #listenerOf(client: Client, topic: string): (message: string, channel: string) => void {
    const ofClient =
      this.#listeners.get(client) ?? new Map<string, (message: string, channel: string) => void>()
    this.#listeners.set(client, ofClient)
    const known = ofClient.get(topic)
    if (known !== undefined) return known
    const cellOf = new Map(this.#channels(topic).map((channel, cell) => [channel, cell]))
    const listener = (message: string, channel: string) => {
      const cell = cellOf.get(channel)
      if (cell !== undefined) this.#receive(topic, cell, message)
    }
    ofClient.set(topic, listener)
    return listener
  }

  /**
   * Parses a message: 'wake <ring> <now>', times in ms; or 'fence <cause>' and, for each task that was cancelled or
   * replaced, two lines: a stamp and a key.
   */
  #receive(topic: string, cell: number, message: string): void {
    const watchers = this.#topics.get(topic) ?? []
    if (message.startsWith('wake ')) {
      const [, ringMs, nowMs] = message.split(' ').map(Number)
      if (ringMs === undefined || nowMs === undefined) return
      for (const watcher of watchers) watcher.wake(cell, ringMs - nowMs, ringMs)
      return
    }
    const [head = '', ...lines] = message.split('\n')
    const cause = head === 'fence cancelled' ? 'cancelled' : 'replaced'
    for (let i = 0; i + 1 < lines.length; i += 2)
      for (const watcher of watchers) watcher.fence(cell, lines[i + 1] as string, Number(lines[i]), cause)
  }

  #channels(topic: string): string[] {
    return this.#keys.ofTopic(topic).map(({ channel }) => channel)
  }

  /** Sends a PING at regular intervals. A subscriber sends nothing else, so it would never notice a dead connection. */
  #checkLater(): void {
    const { clock, callTimeoutMs } = this.#parts
    this.#cancelTimer = clock.after(this.#checkEveryMs, () => {
      const call = {
        operation: 'ping',
        deadlineMs: clock.monotonicNow() + callTimeoutMs,
        isRepeatable: true,
        isExpiring: false,
      }
      this.#connection?.send(['PING'], call).catch(noop)
      if (!this.#isClosed) this.#checkLater()
    })
  }
}

function noop(): void {}
