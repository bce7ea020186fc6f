import type { Pool, PoolClient } from 'pg'
import { type Clock, sleep, withDeadline } from '../../clock.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Random } from '../../random.ts'
import { BOARD_CHANGED, CHANNEL } from './channel.ts'
import { UPKEEP } from './statements/upkeep.ts'

/** A connection that is lost, or cannot be had, is asked for again after so long. */
const RECONNECT_MS = 1_000
/** So often the connection is tried out: a listener that hears nothing would never notice that it is deaf. */
const CHECK_MS = 10_000
/** So long a message to ourselves may take. */
const ECHO_MS = 2_000

/**
 * Hears from all processes that a task was written that rings soon. It has a connection of its own, made when the first
 * one listens. Messages are lost while the connection is: whenever it is there again, all topics count as told.
 *
 * Behind a pooler that gives a connection to others after each transaction nothing is ever heard. That is found out by a
 * message to ourselves; then nobody listens, and what rings is found by looking.
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

  /** The same for news of the board, on the same connection. */
  listenToBoard(onChange: () => void): () => void {
    // An object for each: the same function may listen twice, and end once.
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
    // Whoever listens keeps a connection for itself, and so may a handler with its transaction: one more must be left.
    if ((this.#pool.options.max ?? 10) < 3) return
    while (!this.#stop.signal.aborted) {
      const client = await this.#connected()
      if (client !== null) {
        const isHeard = await this.#listenOn(client).catch(() => true)
        if (!isHeard) {
          this.#logger.info({}, 'LISTEN is not heard here (a pooler in transaction mode?); looking instead')
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
      // Closed meanwhile, while a pool that is somebody else's has none free: what comes late is given back.
      if (client === null) connecting.then((late) => late.release()).catch(() => {})
      return client
    } catch {
      // Whoever writes or reads has said so already.
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

  /** Listens until the connection is gone. False: nothing is heard on it. */
  async #listenOn(client: PoolClient): Promise<boolean> {
    const over = new AbortController()
    const end = () => over.abort()
    const nonce = `?${this.#random.uniqueId()}`
    let hearEcho = () => {}
    const echoed = new Promise<true>((resolve) => {
      hearEcho = () => resolve(true)
    })
    const onNotification = ({ payload = '' }: { payload?: string | undefined }) => {
      if (payload === nonce) hearEcho()
      else if (payload === BOARD_CHANGED) this.#tellOfBoard()
      else if (!payload.startsWith('?')) this.#tell(payload)
    }
    client.on('error', end)
    client.on('end', end)
    client.on('notification', onNotification)
    this.#stop.signal.addEventListener('abort', end)
    try {
      await this.#inTime(client.query(`LISTEN ${CHANNEL}`))
      await this.#inTime(this.#pool.query(UPKEEP.notify.text, [CHANNEL, nonce]))
      const isHeard = await Promise.race([
        echoed,
        sleep(this.#clock, ECHO_MS, over.signal).then(() => over.signal.aborted),
      ])
      if (!isHeard) return false
      this.#tell(null)
      this.#tellOfBoard()
      while (!over.signal.aborted) {
        await sleep(this.#clock, CHECK_MS, over.signal, true)
        if (!over.signal.aborted) await this.#inTime(client.query('SELECT 1'))
      }
      return true
    } finally {
      this.#stop.signal.removeEventListener('abort', end)
      client.off('notification', onNotification)
      // Thrown away: whoever gets it next must not hear what we listened to.
      client.release(true)
    }
  }

  #inTime(query: Promise<unknown>): Promise<unknown> {
    return withDeadline(this.#clock, this.#callTimeoutMs, query, () => new Error('no answer in time'))
  }

  #tell(topic: string | null): void {
    for (const listener of this.#listeners) listener(topic)
  }

  #tellOfBoard(): void {
    for (const { onChange } of this.#boardListeners) onChange()
  }
}
