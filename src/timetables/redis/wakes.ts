import type { Clock } from '../../clock.ts'
import type { Watcher } from '../../timetable.ts'
import type { CellKeys, Keys } from './keys.ts'
import type { Server, Servers } from './servers.ts'
import { type OnMessage, WakeLine } from './wake-line.ts'

export interface WakesParts {
  readonly clock: Clock
  readonly servers: Servers
  readonly keys: Keys
  readonly callTimeoutMs: number
  readonly checkEveryMs: number
  readonly onError: (server: Server, error: unknown) => void
}

/** The name of the board's channel among those of the topics: no topic has this name. */
const BOARD = ''

/** One registration of a listener. It is an object because the same function may be added twice and removed once. */
interface Listener {
  readonly onChange: () => void
}

/** A topic that is watched, and the channels of its cells. */
interface WatchedTopic {
  readonly watchers: Set<Watcher>
  readonly onMessage: OnMessage
  readonly cellOf: ReadonlyMap<string, number>
}

/**
 * Subscribes to the channels of cells and of the board. A message says that a cell has an earlier next ring, that a
 * held task was cancelled or replaced, or that the board changed. Each server has a line (wake-line.ts) for the channels
 * of its keys.
 *
 * Messages are lost while a line is down, or while a channel moves to another server. So every cell is woken and every
 * listener of the board is called after its channel was subscribed, or subscribed again.
 */
export class Wakes {
  readonly #parts: WakesParts
  readonly #lines = new Map<Server, WakeLine>()
  readonly #topics = new Map<string, WatchedTopic>()
  readonly #boardListeners = new Set<Listener>()
  readonly #stopWatchingMoves: () => void
  #isClosed = false

  constructor(parts: WakesParts) {
    this.#parts = parts
    this.#stopWatchingMoves = parts.servers.onMoved(() => this.#deal())
  }

  watch(topic: string, watcher: Watcher): () => void {
    if (this.#isClosed) return () => {}
    const known = this.#topics.get(topic)
    if (known !== undefined) known.watchers.add(watcher)
    else {
      this.#topics.set(topic, this.#watchedTopic(topic, watcher))
      this.#dealTopic(topic)
    }
    return () => this.#unwatch(topic, watcher)
  }

  /** Calls `onChange` when the board changes. Returns a function that removes the listener. */
  listen(onChange: () => void): () => void {
    if (this.#isClosed) return () => {}
    const listener = { onChange }
    this.#boardListeners.add(listener)
    if (this.#boardListeners.size === 1) this.#dealBoard()
    // Its subscription is there already, and calls only the listeners that were there before.
    else void this.#parts.clock.turn().then(() => this.#boardListeners.has(listener) && onChange())
    return () => {
      if (this.#boardListeners.delete(listener) && this.#boardListeners.size === 0) this.#dealBoard()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#stopWatchingMoves()
    this.#topics.clear()
    this.#boardListeners.clear()
    for (const line of this.#lines.values()) line.close()
  }

  #unwatch(topic: string, watcher: Watcher): void {
    const known = this.#topics.get(topic)
    known?.watchers.delete(watcher)
    if (known?.watchers.size !== 0) return
    for (const line of this.#lines.values()) line.drop(topic)
    this.#topics.delete(topic)
  }

  /** Gives each channel to the line of the server that has its keys now. */
  #deal(): void {
    for (const topic of this.#topics.keys()) this.#dealTopic(topic)
    this.#dealBoard()
    const servers = new Set(this.#parts.servers.all)
    for (const [server, line] of this.#lines) {
      if (servers.has(server)) continue
      this.#lines.delete(server)
      line.close()
    }
  }

  #dealTopic(topic: string): void {
    const { keys, servers } = this.#parts
    const known = this.#topics.get(topic) as WatchedTopic
    const byServer = new Map<Server, string[]>(servers.all.map((server) => [server, []]))
    for (const cell of keys.ofTopic(topic)) byServer.get(servers.of(cell))?.push(cell.channel)
    for (const [server, channels] of byServer) this.#lineOf(server).set(topic, channels, known.onMessage)
  }

  #dealBoard(): void {
    const { keys, servers } = this.#parts
    if (this.#boardListeners.size === 0) return this.#lines.forEach((line) => line.drop(BOARD))
    const owner = servers.of(keys.board)
    for (const server of servers.all) {
      const channels = server === owner ? [keys.board.channel] : []
      this.#lineOf(server).set(BOARD, channels, this.#onBoardMessage)
    }
  }

  readonly #onBoardMessage = (): void => {
    for (const { onChange } of this.#boardListeners) onChange()
  }

  #lineOf(server: Server): WakeLine {
    const known = this.#lines.get(server)
    if (known !== undefined) return known
    const { servers, onError, ...parts } = this.#parts
    const line = new WakeLine({
      ...parts,
      isCluster: servers.isCluster,
      connect: (onBack) => server.openAnother(onBack),
      onSubscribed: (name, channels) => this.#onSubscribed(name, channels),
      onMoved: () => servers.doubt(),
      onError: (error) => onError(server, error),
    })
    this.#lines.set(server, line)
    return line
  }

  /** Wakes every cell, because messages sent before the subscription were missed. */
  #onSubscribed(name: string, channels: readonly string[]): void {
    if (name === BOARD) return this.#onBoardMessage()
    const known = this.#topics.get(name)
    if (known === undefined) return
    for (const watcher of known.watchers) {
      watcher.missed()
      for (const channel of channels) watcher.wake(known.cellOf.get(channel) as number, 0, 0)
    }
  }

  #watchedTopic(topic: string, watcher: Watcher): WatchedTopic {
    const cells: readonly CellKeys[] = this.#parts.keys.ofTopic(topic)
    const cellOf = new Map(cells.map(({ channel }, cell) => [channel, cell]))
    const watchers = new Set([watcher])
    const onMessage = (message: string, channel: string) => {
      const cell = cellOf.get(channel)
      if (cell !== undefined) receive(watchers, cell, message)
    }
    return { watchers, onMessage, cellOf }
  }
}

/**
 * Parses a message: 'wake <ring> <now>', times in ms; or 'fence <cause>' and, for each task that was cancelled or
 * replaced, two lines: a stamp and a key.
 */
function receive(watchers: Iterable<Watcher>, cell: number, message: string): void {
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
