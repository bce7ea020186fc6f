import type { Pool, PoolClient } from 'pg'
import { type Clock, sleep, withDeadline } from '../../clock.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Random } from '../../random.ts'
import { BOARD_CHANGED, CHANNEL } from './channel.ts'
import { UPKEEP } from './statements/upkeep.ts'

/** Delay before the listener reconnects. */
const RECONNECT_MS = 1_000
/** Interval of a health check: without one, a connection that broke silently would never be noticed. */
const CHECK_MS = 10_000
/** Time that a NOTIFY to this process itself may take to arrive. */
const ECHO_MS = 2_000

/**
 * Receives a NOTIFY when any process writes a task that rings soon, or changes the board. It has a connection of its own,
 * opened for the first listener. Notifications are lost while the connection is down, so after each reconnect every topic
 * and the board count as changed.
 *
 * Behind a pooler in transaction mode, LISTEN never receives anything. A NOTIFY to this process itself detects that. Then
 * the listener stops, and tasks are found by polling.
 */
export class Listener {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #random: Random
  readonly #logger: Logger
  readonly #callTimeoutMs: number
  readonly #listeners = new Set<(topic: string | null) => void>()
  readonly #boardListeners = new Set<{ readonly onChange: () => void }>()
  readonly #stop = new AbortController()
  #running: Promise<void> | null = null

  constructor(pool: Pool, clock: Clock, random: Random, logger: Logger, callTimeoutMs: number) {
    this.#pool = pool
    this.#clock = clock
    this.#random = random
    this.#logger = logger
    this.#callTimeoutMs = callTimeoutMs
  }

  listen(onNear: (topic: string | null) => void): () => void {
    this.#listeners.add(onNear)
    this.#running ??= this.#run()
    return () => this.#listeners.delete(onNear)
  }

  /** Calls `onChange` when the board may have changed. Uses the same connection. */
  listenToBoard(onChange: () => void): () => void {
    // An object for each call: the same function may be registered twice, and removed once.
    const listener = { onChange }
    this.#boardListeners.add(listener)
    this.#running ??= this.#run()
    return () => this.#boardListeners.delete(listener)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    // The listener keeps one connection, and a handler's transaction may keep another. One more must remain for the rest.
    if ((this.#pool.options.max ?? 10) < 3) return
    while (!this.#stop.signal.aborted) {
      const client = await this.#connected()
      if (client !== null) {
        const isReceived = await this.#listenOn(client).catch(() => true)
        if (!isReceived) {
          this.#logger.info({}, 'LISTEN/NOTIFY unavailable (transaction pooler?); falling back to polling')
          return
        }
      }
      await sleep(this.#clock, RECONNECT_MS, this.#stop.signal, true)
    }
  }

  async #connected(): Promise<PoolClient | null> {
    const connecting = this.#pool.connect()
    try {
      const client = await Promise.race([connecting, this.#stopped()])
      // The listener was closed while the caller's pool had no free connection: a late one goes back to the pool.
      if (client === null) connecting.then((late) => late.release()).catch(() => {})
      return client
    } catch {
      // Not logged: the ledger's own calls fail, too, and report it.
      return null
    }
  }

  #stopped(): Promise<null> {
    return new Promise((resolve) => {
      const { signal } = this.#stop
      if (signal.aborted) resolve(null)
      else signal.addEventListener('abort', () => resolve(null), { once: true })
    })
  }

  /** Listens until the connection ends. Returns false if no notification arrives on it. */
  async #listenOn(client: PoolClient): Promise<boolean> {
    const over = new AbortController()
    const end = () => over.abort()
    const nonce = `?${this.#random.uniqueId()}`
    let onEcho = () => {}
    const echoed = new Promise<true>((resolve) => {
      onEcho = () => resolve(true)
    })
    const onNotification = ({ payload = '' }: { payload?: string | undefined }) => {
      if (payload === nonce) onEcho()
      else if (payload === BOARD_CHANGED) this.#boardChanged()
      else if (!payload.startsWith('?')) this.#notify(payload)
    }
    client.on('error', end)
    client.on('end', end)
    client.on('notification', onNotification)
    this.#stop.signal.addEventListener('abort', end)
    try {
      await this.#inTime(client.query(`LISTEN ${CHANNEL}`))
      await this.#inTime(this.#pool.query(UPKEEP.notify.text, [CHANNEL, nonce]))
      const isReceived = await Promise.race([
        echoed,
        sleep(this.#clock, ECHO_MS, over.signal).then(() => over.signal.aborted),
      ])
      if (!isReceived) return false
      this.#notify(null)
      this.#boardChanged()
      while (!over.signal.aborted) {
        await sleep(this.#clock, CHECK_MS, over.signal, true)
        if (!over.signal.aborted) await this.#inTime(client.query('SELECT 1'))
      }
      return true
    } finally {
      this.#stop.signal.removeEventListener('abort', end)
      client.off('notification', onNotification)
      // Destroyed: the next user of the connection must not receive these notifications.
      client.release(true)
    }
  }

  #inTime(query: Promise<unknown>): Promise<unknown> {
    return withDeadline(this.#clock, this.#callTimeoutMs, query, () => new Error('no answer in time'))
  }

  #notify(topic: string | null): void {
    for (const listener of this.#listeners) listener(topic)
  }

  #boardChanged(): void {
    for (const { onChange } of this.#boardListeners) onChange()
  }
}
