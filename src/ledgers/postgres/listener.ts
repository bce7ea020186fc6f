import type { Pool, PoolClient } from 'pg'
import { type Clock, sleep, withDeadline } from '../../clock.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Random } from '../../random.ts'
import { BOARD_CHANGED, CHANNEL } from './channel.ts'
import type { Schema } from './schema.ts'
import { UPKEEP } from './statements/upkeep.ts'

/** The delay before the listener reconnects. */
const RECONNECT_MS = 1_000
/**
 * The interval of the health check. Without health checks, the listener would never notice a connection that broke
 * silently.
 */
const CHECK_MS = 10_000
/** How long the listener waits for the NOTIFY that this process sends to itself. */
const ECHO_MS = 2_000

/**
 * Receives a NOTIFY when any process writes a task that rings soon, or changes the board. The listener has its own
 * connection, which is opened when the first callback is added. Notifications are lost while the connection is down. So
 * after each connect, the listener reports that every topic (`onNear(null)`) and the board may have changed.
 *
 * Behind a pooler in transaction mode, LISTEN never receives anything. To detect this, the process sends a NOTIFY to
 * itself. If that NOTIFY does not arrive, the listener stops, and the ledger falls back to polling.
 */
export class Listener {
  readonly #pool: Pool
  readonly #schema: Schema
  readonly #clock: Clock
  readonly #random: Random
  readonly #logger: Logger
  readonly #callTimeoutMs: number
  readonly #listeners = new Set<(topic: string | null) => void>()
  readonly #boardListeners = new Set<{ readonly onChange: () => void }>()
  readonly #stop = new AbortController()
  #running: Promise<void> | null = null

  constructor(
    pool: Pool,
    schema: Schema,
    clock: Clock,
    random: Random,
    logger: Logger,
    callTimeoutMs: number,
  ) {
    this.#pool = pool
    this.#schema = schema
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

  /** Calls `onChange` when the board may have changed. Uses the connection of `listen`. */
  listenToBoard(onChange: () => void): () => void {
    // Each call has its own object, because the same function may be added twice and removed once.
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
    // The listener keeps one connection, and a handler's transaction may keep another. All other calls need at least
    // one more. In a smaller pool, the listener does not start, and the ledger polls.
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
    const { signal } = this.#stop
    const connecting = this.#pool.connect()
    let onStop = () => {}
    const stopped = new Promise<null>((resolve) => {
      onStop = () => resolve(null)
      if (signal.aborted) resolve(null)
      else signal.addEventListener('abort', onStop)
    })
    try {
      const client = await Promise.race([connecting, stopped])
      // Null if the listener was closed while it waited for a connection. If the pool provides the connection later,
      // the connection is released.
      if (client === null) connecting.then((late) => late.release()).catch(() => {})
      return client
    } catch {
      // The error is not logged, because the ledger's own calls fail, too, and report the error.
      return null
    } finally {
      // There is one attempt a second during an outage. Listeners of all of them would be a leak.
      signal.removeEventListener('abort', onStop)
    }
  }

  /** Listens until the connection ends. Returns false if notifications do not arrive on this connection. */
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
      await this.#inTime(client.query(this.#schema.sql(`LISTEN ${CHANNEL}`)))
      await this.#inTime(this.#pool.query(UPKEEP.notify.text, [this.#schema.name, nonce]))
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
      // The connection is destroyed, because the next user of the connection must not receive these notifications.
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
