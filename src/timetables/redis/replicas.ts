import { ErrorReply } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import { repeatableCall } from './connection.ts'
import { replyError } from './driver-errors.ts'
import { replyOf } from './one-server.ts'
import type { Server } from './servers.ts'

/**
 * Waits for replicas to confirm writes (option `waitReplicas`). A WAIT covers all earlier writes of its connection. So
 * all writes to a server that are answered before the next WAIT is sent share that WAIT.
 */
export class Replicas {
  readonly #clock: Clock
  readonly #wanted: number
  readonly #waitMs: number
  readonly #callTimeoutMs: number
  readonly #waits = new WeakMap<Server, Waits>()

  constructor(clock: Clock, wanted: number, callTimeoutMs: number) {
    this.#clock = clock
    this.#wanted = wanted
    this.#callTimeoutMs = callTimeoutMs
    // WAIT must return before the deadline of its call. The connection is destroyed when a deadline passes.
    this.#waitMs = Math.floor(callTimeoutMs / 2)
  }

  /**
   * Resolves after enough replicas have confirmed the writes of the server's connection. Must be called at once after the
   * answer to a write. Rejects with 'unknown-outcome' if too few replicas confirm in time.
   */
  confirm(server: Server): Promise<void> {
    let waits = this.#waits.get(server)
    if (waits === undefined) this.#waits.set(server, (waits = { underWay: Promise.resolve(), next: null }))
    const { session } = server.connection
    // A WAIT on a new connection knows nothing of the write: it would confirm at once.
    if (waits.next !== null && waits.next.session === session) return waits.next.confirmed
    // Send one WAIT at a time. Each WAIT blocks the connection, so the last of many would miss its deadline.
    const of = waits
    const confirmed = Promise.allSettled([of.underWay, this.#clock.turn()]).then(() => {
      if (of.next === next) of.next = null
      of.underWay = this.#wait(server, session)
      return of.underWay
    })
    const next = { session, confirmed }
    of.next = next
    return confirmed
  }

  /** Returns whether enough replicas of the server are connected now. */
  async areThere(server: Server): Promise<boolean> {
    const reply = await this.#send(server, 1)
    if (reply instanceof ErrorReply) throw replyError(reply, 'wait')
    return Number(reply) >= this.#wanted
  }

  async #wait(server: Server, session: number): Promise<void> {
    let confirmed = 0
    let cause: unknown = null
    // If the WAIT fails after Redis has done the write, the outcome is unknown, because the write may reach the replicas.
    if (server.connection.session === session) {
      const reply = await this.#send(server, this.#waitMs).catch((error: unknown) => error)
      if (typeof reply === 'number') confirmed = reply
      else cause = reply
    } else cause = new Error('the connection was lost after the write')
    if (confirmed >= this.#wanted) return
    throw new TocsinError(
      'unknown-outcome',
      `written, but only ${confirmed} of ${this.#wanted} replicas of ${server.where} confirmed it in time${
        cause === null ? '' : ` (${describeError(cause)})`
      }: a failover now could lose it. Check the replicas, or lower waitReplicas`,
      { confirmed, wanted: this.#wanted },
      cause,
    )
  }

  #send(server: Server, waitMs: number): Promise<unknown> {
    const call = repeatableCall('wait', this.#clock, this.#callTimeoutMs)
    return replyOf(server, ['WAIT', String(this.#wanted), String(waitMs)], call)
  }
}

/** The WAITs of one server. */
interface Waits {
  underWay: Promise<void>
  /** The WAIT that is sent next, for writes of one session of the connection. */
  next: { readonly session: number; readonly confirmed: Promise<void> } | null
}
