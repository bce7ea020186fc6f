import { createClient, ErrorReply, type RedisClientOptions } from '@redis/client'
import { type Clock, sleep, sleepUntil, timeout } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Random } from '../../random.ts'
import type { Endpoint, MovingAddress } from './address.ts'
import { connectError, lostCallError } from './driver-errors.ts'

export type Client = ReturnType<typeof createClient>

/** The delay before a reconnect doubles with each try, from the minimum to the maximum, and has jitter. */
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 2_000

/**
 * The delay before a server is tried again that is not the primary, and before the first connection to a server that
 * may move is tried again: a failover may be under way.
 */
const MOVING_MS = 250

/**
 * The size of the socket's write buffer. Node's default (16 KB in Node 20, 64 KB since Node 22) is less than one call
 * with many tasks, so the calls to 64 cells would be written one by one.
 */
const WRITE_AHEAD_BYTES = 1_048_576

export interface ConnectionParts {
  readonly clock: Clock
  readonly random: Random
  readonly options: RedisClientOptions
  /** Host and port for error messages, without any secret. */
  readonly where: string
  /** Where the server is, if it may move. Otherwise undefined, and `options` has host and port. */
  readonly address?: MovingAddress | undefined
  readonly callTimeoutMs: number
  /** Called when a lost connection is established again. */
  readonly onBack: () => void
  readonly onError: (error: unknown) => void
}

export interface RedisCall {
  /** The name of the operation in error messages: 'schedule', 'claim', … */
  readonly operation: string
  /** The time at which the caller stops waiting, by the monotonic clock. */
  readonly deadlineMs: number
  /** True if a second run does no harm. A lost reply is then 'timetable-unavailable' instead of 'unknown-outcome'. */
  readonly isRepeatable: boolean
  /**
   * True if the call can take effect until its deadline, and not later. If its reply is lost, the caller gets the error
   * at the deadline: then the call has taken effect, or never will.
   */
  readonly isExpiring: boolean
}

/** Returns a call that starts now, may be repeated, and ends after `timeoutMs` at the latest. */
export function repeatableCall(operation: string, clock: Clock, timeoutMs: number): RedisCall {
  const deadlineMs = clock.monotonicNow() + timeoutMs
  return { operation, deadlineMs, isRepeatable: true, isExpiring: false }
}

/**
 * One connection to Redis, which reconnects automatically. It queues no calls while it is disconnected, and sends no
 * call twice. Every call has a deadline. When a deadline passes, the connection is destroyed together with all calls on
 * it: a command that is still in the write buffer must not run after its caller got an error.
 */
export class Connection {
  readonly #parts: ConnectionParts
  #client: Client
  #isFirst = true
  /** False until the server of the client was checked (`MovingAddress.check`). */
  #isChecked = false
  /** The check of the first connection. */
  #firstCheck: Promise<void> = Promise.resolve()
  #wasSilent = false
  /**
   * Cancels the timeout of the handshake. Without a timeout, a server that accepts a connection and never answers would
   * block the connection for ever.
   */
  #cancelHandshakeTimeout: () => void = noop
  #cancelRetry: () => void = noop
  readonly #leaveAddress: () => void
  #isClosed = false
  #session = 0

  private constructor(parts: ConnectionParts) {
    this.#parts = parts
    this.#client = this.#make()
    const user = { isReady: () => this.isReady, onMove: () => this.#giveUp(this.#client) }
    this.#leaveAddress = parts.address?.join(user) ?? noop
  }

  static async open(parts: ConnectionParts): Promise<Connection> {
    const { address, clock, callTimeoutMs } = parts
    if (address === undefined) return Connection.#open(parts, parts.where)
    const latestMs = clock.monotonicNow() + callTimeoutMs - MOVING_MS
    for (;;) {
      await address.find()
      try {
        return await Connection.#open(parts, address.describe(address.endpoint))
      } catch (error) {
        // A failover may be under way: it takes a while until Sentinel names the new primary.
        if (!TocsinError.is(error, 'timetable-unavailable')) throw error
        if (clock.monotonicNow() > latestMs) throw error
      }
      await sleep(clock, MOVING_MS)
    }
  }

  static async #open(parts: ConnectionParts, where: string): Promise<Connection> {
    const connection = new Connection(parts)
    try {
      await connection.#client.connect()
      await connection.#firstCheck
    } catch (error) {
      const silence = new Error(`no answer within ${parts.callTimeoutMs} ms`)
      const cause = connection.#wasSilent ? silence : error
      connection.close()
      throw TocsinError.is(cause) ? cause : connectError(where, cause)
    }
    return connection
  }

  /** Returns a connection that connects in the background, for a server that need not be there yet. */
  static begin(parts: ConnectionParts): Connection {
    const connection = new Connection(parts)
    connection.#isFirst = false
    connection.#client.connect().catch(noop)
    return connection
  }

  get client(): Client {
    return this.#client
  }

  get isReady(): boolean {
    return this.#isChecked && this.#client.isReady
  }

  /** The number of times that this connection was established. */
  get session(): number {
    return this.#session
  }

  /**
   * Returns the reply. Throws an error reply unchanged, and any other failure as a TocsinError. With `isAsking`, a node of
   * a cluster also answers for keys that are being moved to it.
   */
  async send(
    args: readonly (string | Buffer)[],
    { operation, deadlineMs, isRepeatable, isExpiring }: RedisCall,
    isAsking = false,
  ): Promise<unknown> {
    if (this.#isClosed) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
    const client = this.#client
    const leftMs = deadlineMs - this.#parts.clock.monotonicNow()
    const notSent = (cause: string) => lostCallError(operation, false, isRepeatable, new Error(cause))
    // Do not send a call that is about to time out: its timeout would destroy the connection and all calls on it.
    if (leftMs < this.#parts.callTimeoutMs / 20) throw notSent('its deadline passed before it was sent')
    if (!this.isReady) throw notSent(`not connected to ${this.#parts.where}`)
    const cancelTimeout = timeout(this.#parts.clock, leftMs, () => this.#giveUp(client))
    try {
      // It applies to the next command of the connection. Both are queued now, so no other command is between them.
      if (isAsking) client.sendCommand(['ASKING']).catch(noop)
      return await client.sendCommand(args as (string | Buffer)[])
    } catch (error) {
      // Before anything is awaited: at the deadline, the timeout would destroy a connection that is there again.
      cancelTimeout()
      // The server was demoted to a replica. Reconnect, because the host name may resolve to the new primary by now.
      if (error instanceof ErrorReply && error.message.startsWith('READONLY')) this.#giveUp(client)
      if (error instanceof ErrorReply) throw error
      const cause =
        client === this.#client ? error : new Error('no answer in time, or not the primary any more')
      if (isExpiring) await sleepUntil(this.#parts.clock, deadlineMs)
      throw lostCallError(operation, true, isRepeatable, cause)
    } finally {
      cancelTimeout()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#leaveAddress()
    this.#cancelRetry()
    this.#cancelHandshakeTimeout()
    this.#client.destroy()
  }

  /** Destroys the connection and opens a new one: after a timeout, or if the server is no longer the primary. */
  #giveUp(client: Client): void {
    if (client !== this.#client || this.#isClosed) return
    this.#wasSilent = true
    this.#cancelRetry()
    this.#cancelHandshakeTimeout()
    client.destroy()
    if (this.#isFirst) return
    this.#client = this.#make()
    this.#client.connect().catch(noop)
    this.#parts.address?.seek()
  }

  /** Begins to use a connection that was established, if it leads to the server that is wanted. */
  async #begin(client: Client, endpoint: Endpoint | undefined): Promise<void> {
    const { address, clock, onBack, onError } = this.#parts
    const epoch = client.socketEpoch
    // No `await` for a server that cannot move: its connection is used at once.
    if (address !== undefined && endpoint !== undefined) {
      try {
        await address.check(endpoint, client)
      } catch (error) {
        if (this.#isFirst) throw error
        if (client !== this.#client || this.#isClosed) return
        onError(error)
        this.#cancelHandshakeTimeout()
        client.destroy()
        this.#cancelRetry = clock.after(MOVING_MS, () => this.#giveUp(client))
        return
      }
      if (client !== this.#client || this.#isClosed) return
      // The connection was lost meanwhile. The first one is not retried, a later one reconnects and is checked again.
      if (!client.isReady || client.socketEpoch !== epoch) {
        if (this.#isFirst) throw new Error('connection lost')
        return
      }
    }
    this.#isChecked = true
    this.#cancelHandshakeTimeout()
    const isBack = !this.#isFirst
    this.#isFirst = false
    this.#session++
    if (isBack && client === this.#client) onBack()
  }

  #make(): Client {
    const { address, clock, options, random, callTimeoutMs, onError } = this.#parts
    const endpoint = address?.endpoint
    const retryInMs = (retries: number): number =>
      Math.min(RECONNECT_MS_MIN * 2 ** Math.min(retries, 10), RECONNECT_MS_MAX) *
      (0.5 + random.fraction() / 2)
    const socket = {
      ...options.socket,
      ...endpoint,
      writableHighWaterMark: WRITE_AHEAD_BYTES,
      // The first connection is not retried, so that `open` reports the error. A lost connection is retried for ever.
      reconnectStrategy: (retries: number) => (this.#isFirst || this.#isClosed ? false : retryInMs(retries)),
    }
    const client = createClient({
      ...options,
      disableOfflineQueue: true,
      // `send` sets a timer for each call. A second timer in the client would cost as much as the call.
      commandOptions: { timeout: 0 },
      socket: socket as NonNullable<RedisClientOptions['socket']>,
    }) as Client
    client.on('connect', () => {
      // A client that is destroyed while it connects goes on, so it may connect later.
      if (client !== this.#client || this.#isClosed) return client.destroy()
      this.#isChecked = false
      this.#cancelHandshakeTimeout()
      this.#cancelHandshakeTimeout = timeout(clock, callTimeoutMs, () => this.#giveUp(client))
    })
    client.on('reconnecting', () => this.#cancelHandshakeTimeout())
    client.on('error', (error: unknown) => {
      if (this.#isFirst || this.#isClosed) return
      onError(error)
      address?.seek()
    })
    client.on('ready', () => {
      const beginning = this.#begin(client, endpoint)
      if (this.#isFirst) this.#firstCheck = beginning
      beginning.catch(noop)
    })
    return client
  }
}

function noop(): void {}
