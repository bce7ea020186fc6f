import { createClient, ErrorReply, type RedisClientOptions } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Random } from '../../random.ts'
import { cutOff, notReached } from './driver-errors.ts'

export type Client = ReturnType<typeof createClient>

/** After a lost connection, the wait before the next try; doubled up to the second figure. */
const RECONNECT_MS_MIN = 50
const RECONNECT_MS_MAX = 2_000

/** So much is handed to the socket at once. */
const WRITE_AHEAD_BYTES = 1_048_576

export interface ConnectionParts {
  readonly clock: Clock
  readonly random: Random
  readonly options: RedisClientOptions
  /** For messages: host and port, without any secret. */
  readonly where: string
  readonly callTimeoutMs: number
  /** The connection is back after it was lost. */
  readonly onBack: () => void
  readonly onError: (error: unknown) => void
}

export interface Call {
  /** For messages: 'schedule', 'claim', … */
  readonly doing: string
  /** Monotonic: after this nobody waits for it any more. */
  readonly deadlineMs: number
  /** A second time does nothing new, so that a lost reply is no mystery, only a nuisance. */
  readonly repeatable: boolean
}

/**
 * One connection to Redis that comes back by itself. Nothing is queued while it is away and nothing is sent twice;
 * every call has a deadline. When one passes, the connection is thrown away with everything on it: what was not sent
 * yet must not run after its caller was told otherwise.
 */
export class Connection {
  readonly #parts: ConnectionParts
  #client: Client
  #isFirst = true
  #wasSilent = false
  /** Somebody who accepts a connection and then says nothing sensible would be waited for without end. */
  #callOffSilence: () => void = ignore
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
      throw notReached(parts.where, cause)
    }
    return connection
  }

  get client(): Client {
    return this.#client
  }

  /** Answers what Redis answered. Its error replies are thrown as they are; anything else as a TocsinError. */
  async send(args: readonly (string | Buffer)[], { doing, deadlineMs, repeatable }: Call): Promise<unknown> {
    if (this.#isClosed) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
    const client = this.#client
    const leftMs = deadlineMs - this.#parts.clock.monotonicNow()
    // What has hardly any time left would only take the connection down, with everybody's calls on it.
    if (leftMs < this.#parts.callTimeoutMs / 20)
      throw cutOff(doing, false, repeatable, new Error('its time was up'))
    if (!client.isReady) throw cutOff(doing, false, repeatable, new Error(`${this.#parts.where} is away`))
    const callOff = this.#parts.clock.after(leftMs, () => this.#giveUp(client))
    try {
      return await client.sendCommand(args as (string | Buffer)[])
    } catch (error) {
      // The node was demoted. What is behind its name may be another one by now: connect anew.
      if (error instanceof ErrorReply && error.message.startsWith('READONLY')) this.#giveUp(client)
      if (error instanceof ErrorReply) throw error
      const cause =
        client === this.#client ? error : new Error(`no answer in time, or not the primary any more`)
      throw cutOff(doing, true, repeatable, cause)
    } finally {
      callOff()
    }
  }

  close(): void {
    this.#isClosed = true
    this.#callOffSilence()
    this.#client.destroy()
  }

  /** A call's time is up: Redis, or the way to it, is stuck. */
  #giveUp(client: Client): void {
    if (client !== this.#client || this.#isClosed) return
    this.#wasSilent = true
    this.#callOffSilence()
    client.destroy()
    if (this.#isFirst) return
    this.#client = this.#make()
    this.#client.connect().catch(ignore)
  }

  #make(): Client {
    const { clock, options, random, callTimeoutMs, onBack, onError } = this.#parts
    const retryInMs = (retries: number): number =>
      Math.min(RECONNECT_MS_MIN * 2 ** Math.min(retries, 10), RECONNECT_MS_MAX) *
      (0.5 + random.fraction() / 2)
    const socket = {
      ...options.socket,
      // Node's own mark is 16 KB, less than one call of many tasks: the calls of 64 cells would leave one by one.
      writableHighWaterMark: WRITE_AHEAD_BYTES,
      // The first connection says at once what is wrong; a lost one is tried for ever.
      reconnectStrategy: (retries: number) => (this.#isFirst || this.#isClosed ? false : retryInMs(retries)),
    }
    const client = createClient({
      ...options,
      disableOfflineQueue: true,
      // Each call has a deadline of ours; a second timer for each would cost as much as the call.
      commandOptions: { timeout: 0 },
      socket: socket as NonNullable<RedisClientOptions['socket']>,
    }) as Client
    client.on('connect', () => {
      this.#callOffSilence()
      this.#callOffSilence = clock.after(callTimeoutMs, () => this.#giveUp(client))
    })
    client.on('reconnecting', () => this.#callOffSilence())
    client.on('error', (error: unknown) => {
      if (!this.#isFirst && !this.#isClosed) onError(error)
    })
    client.on('ready', () => {
      this.#callOffSilence()
      const isBack = !this.#isFirst
      this.#isFirst = false
      if (isBack && client === this.#client) onBack()
    })
    return client
  }
}

function ignore(): void {}
