/** One Sentinel: a connection that asks for the primary and hears of failovers. */
import { createClient, ErrorReply, type RedisClientOptions } from '@redis/client'
import { type Clock, timeout } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { addressOf, type Endpoint } from './address.ts'
import type { Client } from './connection.ts'
import { connectError, refusedError } from './driver-errors.ts'
import { pairsOf } from './server.ts'

/**
 * Sentinel publishes the first message when a replica was promoted, and the second when the failover is over. From the
 * first on, the old primary loses what is written to it.
 */
const CHANNELS = ['+promoted-slave', '+switch-master']

export interface SentinelNodeParts {
  readonly clock: Clock
  readonly endpoint: Endpoint
  /** The name of the primary. */
  readonly name: string
  /** The options of the client, except for host and port. */
  readonly options: RedisClientOptions
  readonly timeoutMs: number
  /** Called when there may be news: a failover, or the connection was lost. */
  readonly onNews: () => void
}

export interface SentinelAnswer {
  readonly primary: Endpoint
  /**
   * The number of the configuration. It increases with each failover, so a greater number is newer. -1 if this user may
   * not read it.
   */
  readonly epoch: number
}

export class SentinelNode {
  readonly where: string
  readonly #parts: SentinelNodeParts
  /** Null if there is no connection. The next question opens one. */
  #client: Client | null = null
  #asking: Promise<SentinelAnswer> | null = null
  #failure: TocsinError | null = null
  #isClosed = false

  constructor(parts: SentinelNodeParts) {
    this.#parts = parts
    this.where = addressOf(parts.endpoint.host, parts.endpoint.port)
  }

  /** Why the last question got no answer. Null if it got one. */
  get failure(): TocsinError | null {
    return this.#failure
  }

  /** Asks for the primary. Rejects with a TocsinError within `timeoutMs`. Asks once for all callers at a time. */
  ask(): Promise<SentinelAnswer> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  close(): void {
    this.#isClosed = true
    this.#client?.destroy()
    this.#client = null
  }

  async #ask(): Promise<SentinelAnswer> {
    if (this.#isClosed) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
    const { clock, timeoutMs } = this.#parts
    const client = this.#client ?? this.#make()
    this.#client = client
    let isSilent = false
    const cancelTimeout = timeout(clock, timeoutMs, () => {
      isSilent = true
      this.#drop(client)
    })
    try {
      const answer = await this.#answerOf(client)
      this.#failure = null
      return answer
    } catch (error) {
      // A Sentinel that refuses keeps refusing on this connection, for example with an old password.
      this.#drop(client)
      this.#failure = this.#errorOf(isSilent ? new Error(`no answer within ${timeoutMs} ms`) : error)
      throw this.#failure
    } finally {
      cancelTimeout()
    }
  }

  async #answerOf(client: Client): Promise<SentinelAnswer> {
    const { name, onNews } = this.#parts
    if (!client.isOpen) {
      await client.connect()
      const listener = (message: string) => {
        if (message.split(' ').includes(name)) onNews()
      }
      // A user without the right to subscribe learns of a failover from the polls.
      await client.subscribe(CHANNELS, listener).catch(unlessRefused)
    }
    const [address, state] = await Promise.all([
      client.sendCommand(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]),
      client.sendCommand(['SENTINEL', 'MASTER', name]).catch(unlessRefused),
    ])
    if (address === null)
      throw refusedError(
        `the Sentinel at ${this.where} knows no primary named '${name}'; use the name after 'sentinel monitor' in sentinel.conf`,
      )
    const [host, port] = address as unknown as [string, string]
    const epoch = Number(new Map(pairsOf(state)).get('config-epoch') ?? -1)
    return { primary: { host, port: Number(port) }, epoch }
  }

  #make(): Client {
    const { endpoint, options, timeoutMs, onNews } = this.#parts
    const client = createClient({
      ...options,
      disableOfflineQueue: true,
      // A Sentinel does not know these notifications.
      maintNotifications: 'disabled',
      commandOptions: { timeout: 0 },
      // `ask` reconnects.
      socket: { ...options.socket, ...endpoint, connectTimeout: timeoutMs, reconnectStrategy: false },
    } as RedisClientOptions) as Client
    // A client that is destroyed while it connects goes on, so it may connect later.
    client.on('connect', () => {
      if (client !== this.#client) client.destroy()
    })
    client.on('error', () => {
      if (client !== this.#client) return
      this.#drop(client)
      if (this.#asking === null) onNews()
    })
    return client
  }

  #drop(client: Client): void {
    if (client === this.#client) this.#client = null
    client.destroy()
  }

  #errorOf(error: unknown): TocsinError {
    if (TocsinError.is(error)) return error
    const message = error instanceof Error ? error.message : ''
    const [word = ''] = message.split(' ', 1)
    if (word === 'NOAUTH')
      return refusedError(
        `the Sentinel at ${this.where} requires a password; give it with redis({ sentinel: { password } }), or in the URL as ?sentinelPassword=…`,
        error,
      )
    if (word === 'WRONGPASS')
      return refusedError(
        `the Sentinel at ${this.where} does not accept this user name or password; they are those of the Sentinels (redis({ sentinel: { username, password } })), not those of Redis`,
        error,
      )
    if (word === 'NOPERM')
      return refusedError(
        `the Sentinel at ${this.where} does not allow this user to ask for the primary; allow it with ACL SETUSER … +sentinel|get-master-addr-by-name`,
        error,
      )
    if (/^ERR unknown command '?SENTINEL/i.test(message))
      return refusedError(
        `what answers at ${this.where} is a Redis, not a Sentinel; name the Sentinels, usually on port 26379, or connect with redis://${this.where}`,
        error,
      )
    return connectError(this.where, error, 'Sentinel')
  }
}

/** Returns null for an error reply, and throws any other error. */
function unlessRefused(error: unknown): null {
  if (error instanceof ErrorReply) return null
  throw error
}
