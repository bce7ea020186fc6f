import { createClient, ErrorReply, type RedisClientOptions } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Random } from '../../random.ts'
import { connectError, lostCallError } from './driver-errors.ts'

export type Client = ReturnType<typeof createClient>

/** The delay before a reconnect: doubled with each try, from the minimum to the maximum, with jitter. */
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 2_000

/** Node's default is 16 KB, less than one call with many tasks: the calls to 64 cells would be written one by one. */
const WRITE_AHEAD_BYTES = 1_048_576

export interface ConnectionParts {
  readonly clock: Clock
  readonly random: Random
  readonly options: RedisClientOptions
  /** Host and port, without any secret: for messages. */
  readonly where: string
  readonly callTimeoutMs: number
  /** Called when a lost connection is established again. */
  readonly onBack: () => void
  readonly onError: (error: unknown) => void
}

export interface RedisCall {
  /** 'schedule', 'claim', …: for messages. */
  readonly operation: string
  /** When its caller stops waiting, by the monotonic clock. */
  readonly deadlineMs: number
  /** True if a second run changes nothing: then a lost reply is 'timetable-unavailable', not 'unknown-outcome'. */
  readonly isRepeatable: boolean
}

/**
 * One connection to Redis that reconnects by itself. It queues nothing while it is disconnected, and sends nothing
 * twice. Every call has a deadline. When a deadline passes, the connection is destroyed together with all calls on it:
 * a command that is still in its write buffer must not run after its caller got an error.
 */
export class Connection {
  readonly #parts: ConnectionParts
  #client: Client
  #isFirst = true
  #wasSilent = false
  /** Cancels the handshake's timeout: a server that accepts a connection and never answers would block it for ever. */
  #cancelHandshakeTimeout: () => void = noop
  #isClosed = false

  private constructor(parts: ConnectionParts) {
    this.#parts = parts
    this.#client = this.#make()
  }

  static async open(parts: ConnectionParts): Promise<Connection> {
    const connection = new Connection(parts)
    try {
      await connection.#client.connect()
    } catch (error) {
      const silence = new Error(`no answer within ${parts.callTimeoutMs} ms`)
      const cause = connection.#wasSilent ? silence : error
      connection.close()
      throw connectError(parts.where, cause)
    }
    return connection
  }

  get client(): Client {
    return this.#client
  }

  /** Returns the reply. Throws error replies as they are, and any other failure as a TocsinError. */
  async send(
    args: readonly (string | Buffer)[],
    { operation, deadlineMs, isRepeatable }: RedisCall,
  ): Promise<unknown> {
    if (this.#isClosed) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
    const client = this.#client
    const leftMs = deadlineMs - this.#parts.clock.monotonicNow()
    const notSent = (cause: string) => lostCallError(operation, false, isRepeatable, new Error(cause))
    // A call that is about to time out is not sent: its timeout would destroy the connection, with all calls on it.
    if (leftMs < this.#parts.callTimeoutMs / 20) throw notSent('its deadline passed before it was sent')
    if (!client.isReady) throw notSent(`not connected to ${this.#parts.where}`)
    const cancelTimeout = this.#parts.clock.after(leftMs, () => this.#giveUp(client))
    try {
      return await client.sendCommand(args as (string | Buffer)[])
    } catch (error) {
      // The server was demoted to a replica. Reconnect: the host name may lead to the new primary by now.
      if (error instanceof ErrorReply && error.message.startsWith('READONLY')) this.#giveUp(client)
      if (error instanceof ErrorReply) throw error
      const cause =
        client === this.#client ? error : new Error('no answer in time, or not the primary any more')
      throw lostCallError(operation, true, isRepeatable, cause)
    } finally {
      cancelTimeout()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#cancelHandshakeTimeout()
    this.#client.destroy()
  }

  /** Destroys the connection after a timeout, since Redis or the network is stuck, and reconnects. */
  #giveUp(client: Client): void {
    if (client !== this.#client || this.#isClosed) return
    this.#wasSilent = true
    this.#cancelHandshakeTimeout()
    client.destroy()
    if (this.#isFirst) return
    this.#client = this.#make()
    this.#client.connect().catch(noop)
  }

  #make(): Client {
    const { clock, options, random, callTimeoutMs, onBack, onError } = this.#parts
    const retryInMs = (retries: number): number =>
      Math.min(RECONNECT_MS_MIN * 2 ** Math.min(retries, 10), RECONNECT_MS_MAX) *
      (0.5 + random.fraction() / 2)
    const socket = {
      ...options.socket,
      writableHighWaterMark: WRITE_AHEAD_BYTES,
      // The first connection fails at once, so that `open` reports the error; a lost one is retried for ever.
      reconnectStrategy: (retries: number) => (this.#isFirst || this.#isClosed ? false : retryInMs(retries)),
    }
    const client = createClient({
      ...options,
      disableOfflineQueue: true,
      // `send` has a timer for each call; a second one would cost as much as the call.
      commandOptions: { timeout: 0 },
      socket: socket as NonNullable<RedisClientOptions['socket']>,
    }) as Client
    client.on('connect', () => {
      this.#cancelHandshakeTimeout()
      this.#cancelHandshakeTimeout = clock.after(callTimeoutMs, () => this.#giveUp(client))
    })
    client.on('reconnecting', () => this.#cancelHandshakeTimeout())
    client.on('error', (error: unknown) => {
      if (!this.#isFirst && !this.#isClosed) onError(error)
    })
    client.on('ready', () => {
      this.#cancelHandshakeTimeout()
      const isBack = !this.#isFirst
      this.#isFirst = false
      if (isBack && client === this.#client) onBack()
    })
    return client
  }
}

function noop(): void {}
