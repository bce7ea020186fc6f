import { ErrorReply } from '@redis/client'
import { type Clock, sleep } from '../../../clock.ts'
import { TocsinError } from '../../../errors.ts'
import { hostAndPort } from '../address.ts'
import { Connection, type ConnectionParts, type RedisCall, repeatableCall } from '../connection.ts'
import { refusedError, replyError } from '../driver-errors.ts'
import { HASH_SLOTS } from '../hash-slot.ts'
import type { ScriptKeys } from '../keys.ts'
import { replyOf } from '../one-server.ts'
import type { CommandArgs, Sent, Server, Servers } from '../servers.ts'
import { ClusterServer } from './cluster-server.ts'
import { areWhole, redirectOf, type SlotRange, slotRangesOf } from './slot-map.ts'

export interface ClusterParts {
  readonly clock: Clock
  /** The addresses of some nodes, from which the others are learned. */
  readonly seeds: readonly string[]
  /** Returns what a connection to a node needs. */
  readonly partsFor: (host: string, port: number) => ConnectionParts
  readonly callTimeoutMs: number
  /** How often the cluster is asked which node has which slot, if no call shows that this has changed. */
  readonly askEveryMs: number
}

/** How long a call waits for the first connection to a node. */
const CONNECT_MS = 1_000

/** Replies of a node that a replica may have replaced meanwhile. */
const IS_NO_MASTER = /^(LOADING|MASTERDOWN) /

/** The delay before a call to a slot that is being moved, or not served, is sent again. It doubles up to the maximum. */
const RETRY_MS_MIN = 5
const RETRY_MS_MAX = 100

/** The cluster is asked again after this time at the earliest; after this time, too, while a master is not connected. */
const ASK_AGAIN_MS = 100
const ASK_WHILE_AWAY_MS = 250

/**
 * Clocks of two masters differ by less than this. The clock of a new master is estimated from another one's, that much
 * behind, until the first answer. A write that this estimate makes too late is sent again, with the time of the answer.
 */
const SKEW_MS = 1_000

/**
 * The masters of a Redis Cluster, each with a connection. It knows which master has which hash slot, and learns of changes
 * from redirects, from lost connections and by asking:
 *
 *   send ──▶ owner of the slot ──┬─ reply ───────────────────────────────────▶ caller
 *     ▲                          ├─ MOVED: the slot has another owner ──┐
 *     │                          ├─ ASK: this time, the other node ─────┤ nothing was executed: send again,
 *     └──────────────────────────┼─ TRYAGAIN: half moved, wait a little ┤ until the deadline
 *                                ├─ CLUSTERDOWN: wait a little, ask ────┘
 *                                └─ no reply: never sent again ──────────────▶ unknown-outcome, or unavailable
 *
 * The client's own cluster would send calls again after a lost connection, and queue them meanwhile.
 */
export class ClusterServers implements Servers {
  readonly isCluster = true
  readonly #parts: ClusterParts
  readonly #byAddress = new Map<string, ClusterServer>()
  /** The owner of each hash slot. */
  readonly #owners: ClusterServer[] = []
  readonly #listeners = new Set<() => void>()
  /** Nodes that did not answer, or do not serve their slots, since the cluster was asked last. */
  readonly #doubted = new Set<ClusterServer>()
  /** Nodes that had slots. Calls may still be on their connections. Each value cancels the timer that closes them. */
  readonly #retired = new Map<ClusterServer, () => void>()
  #all: readonly ClusterServer[] = []
  #asking: Promise<void> | null = null
  #askedAtMs = Number.NEGATIVE_INFINITY
  /** When to ask again, if a call wanted that while the cluster was being asked; Infinity if none did. */
  #askAtMs = Number.POSITIVE_INFINITY
  #cancelTimer: () => void = noop
  #isClosed = false

  private constructor(parts: ClusterParts) {
    this.#parts = parts
  }

  /** Connects to all masters. Throws if a slot has no master, or a master cannot be reached. */
  static async open(parts: ClusterParts): Promise<ClusterServers> {
    const servers = new ClusterServers(parts)
    try {
      await servers.#open()
    } catch (error) {
      servers.close()
      throw error
    }
    servers.#askLater()
    return servers
  }

  get all(): readonly ClusterServer[] {
    return this.#all
  }

  of({ hashSlot }: ScriptKeys): ClusterServer {
    return this.#owners[hashSlot] as ClusterServer
  }

  async send(keys: ScriptKeys, argsFor: (server: Server) => CommandArgs, call: RedisCall): Promise<Sent> {
    const { clock } = this.#parts
    let server = this.of(keys)
    let isAsking = false
    let isRedirected = false
    let waitMs = RETRY_MS_MIN
    for (;;) {
      // A node that is new to this process. A connection that was lost is not waited for.
      if (server.connection.session === 0)
        await server.connected(clock, Math.min(call.deadlineMs, clock.monotonicNow() + CONNECT_MS))
      const reply = await this.#replyOf(server, argsFor(server), call, isAsking)
      // A redirected call was not executed, so it may be sent again. A call without a reply never is.
      const redirect = reply instanceof ErrorReply ? redirectOf(reply.message, server.host) : null
      if (redirect === null) {
        if (reply instanceof ErrorReply && IS_NO_MASTER.test(reply.message)) this.#doubt(server)
        return { server, reply }
      }
      isAsking = redirect.kind === 'ask'
      const isElsewhere = redirect.kind === 'moved' || redirect.kind === 'ask'
      // Nodes that disagree after a failover, or while a slot is being moved, would redirect the call to and fro.
      if (!isElsewhere || isRedirected) {
        if (clock.monotonicNow() + waitMs >= call.deadlineMs) return { server, reply }
        await sleep(clock, waitMs)
        waitMs = Math.min(2 * waitMs, RETRY_MS_MAX)
      }
      if (redirect.kind === 'down') this.#doubt(server)
      if (isElsewhere) {
        isRedirected = true
        server = this.#at(redirect.address)
        if (redirect.kind === 'moved') this.#moved(redirect.slot, server)
      } else server = this.of(keys)
    }
  }

  onMoved(listener: () => void): () => void {
    // An object, because the same function may be added twice.
    const added = () => listener()
    this.#listeners.add(added)
    return () => this.#listeners.delete(added)
  }

  doubt(): void {
    this.#askSoon()
  }

  close(): void {
    this.#isClosed = true
    this.#cancelTimer()
    this.#listeners.clear()
    for (const cancelTimer of this.#retired.values()) cancelTimer()
    for (const server of [...this.#byAddress.values(), ...this.#retired.keys()]) server.close()
  }

  async #open(): Promise<void> {
    let failure: unknown
    for (const seed of this.#parts.seeds) {
      try {
        const ranges = await this.#askSeed(seed)
        if (!areWhole(ranges))
          throw new TocsinError(
            'timetable-unavailable',
            `the Redis Cluster at ${seed} has hash slots without a master; wait for its failover, or give the slots to a node`,
            { field: 'timetable' },
          )
        const addresses = [...new Set(ranges.map(({ address }) => address))]
        // Wait for all of them: a connection that is established later would never be closed.
        const opened = await Promise.allSettled(addresses.map((address) => this.#openAt(address)))
        const failed = opened.find((one) => one.status === 'rejected')
        if (failed !== undefined) throw failed.reason
        this.#apply(ranges)
        return
      } catch (error) {
        // A refusal, for example of the password, would be the same at every node.
        if (TocsinError.is(error, 'timetable-refused')) throw error
        failure = error
      }
    }
    throw failure
  }

  /** Asks a node by a connection of its own: it may be a replica. */
  async #askSeed(address: string): Promise<SlotRange[]> {
    const { host, port } = hostAndPort(address)
    const parts = this.#parts.partsFor(host, port)
    const connection = await Connection.open(parts)
    try {
      const reply = await replyOf({ connection }, ['CLUSTER', 'SLOTS'], this.#askCall())
      if (reply instanceof ErrorReply && /cluster support disabled/i.test(reply.message))
        throw refusedError(
          `Redis at ${parts.where} is not a node of a Redis Cluster; write redis://host:port`,
        )
      if (reply instanceof ErrorReply) throw replyError(reply, 'open')
      return slotRangesOf(reply, host)
    } finally {
      connection.close()
    }
  }

  async #openAt(address: string): Promise<void> {
    if (this.#byAddress.has(address)) return
    const { host, port } = hostAndPort(address)
    const parts = this.#parts.partsFor(host, port)
    const server = await ClusterServer.open(parts, host)
    if (this.#isClosed) return server.close()
    this.#byAddress.set(address, server)
  }

  /** Returns the server at an address. Connects in the background if it is new. */
  #at(address: string): ClusterServer {
    const known = this.#byAddress.get(address)
    if (known !== undefined) return known
    const { host, port } = hostAndPort(address)
    const parts = this.#parts.partsFor(host, port)
    const server = ClusterServer.begin(parts, host)
    const [other] = this.#all
    if (other !== undefined) server.clock.heard(other.clock.now() - SKEW_MS)
    this.#byAddress.set(address, server)
    if (this.#isClosed) server.close()
    return server
  }

  async #replyOf(
    server: ClusterServer,
    args: CommandArgs,
    call: RedisCall,
    isAsking: boolean,
  ): Promise<unknown> {
    try {
      return await replyOf(server, args, call, isAsking)
    } catch (error) {
      // The master may be gone, and a replica may have taken over.
      this.#doubt(server)
      throw error
    }
  }

  #doubt(server: ClusterServer): void {
    this.#doubted.add(server)
    this.#askSoon()
  }

  #moved(slot: number, server: ClusterServer): void {
    if (this.#owners[slot] === server) return
    this.#owners[slot] = server
    this.#all = [...new Set(this.#owners)]
    for (const listener of this.#listeners) listener()
    // Other slots have probably moved, too.
    this.#askSoon()
  }

  #apply(ranges: readonly SlotRange[]): void {
    let hasMoved = false
    for (const { from, to, address } of ranges) {
      const server = this.#at(address)
      for (let slot = from; slot <= to && slot < HASH_SLOTS; slot++) {
        if (this.#owners[slot] === server) continue
        this.#owners[slot] = server
        hasMoved = true
      }
    }
    if (hasMoved) this.#all = [...new Set(this.#owners)]
    for (const [address, server] of this.#byAddress)
      if (!this.#all.includes(server)) this.#retire(address, server)
    if (!hasMoved) return
    for (const listener of this.#listeners) listener()
  }

  /** Closes the connection to a node that has no slots, when the calls that are on it have ended. */
  #retire(address: string, server: ClusterServer): void {
    this.#byAddress.delete(address)
    const close = () => {
      this.#retired.delete(server)
      server.close()
    }
    this.#retired.set(server, this.#parts.clock.after(this.#parts.callTimeoutMs, close, true))
  }

  #askSoon(): void {
    const inMs = Math.max(0, this.#askedAtMs + ASK_AGAIN_MS - this.#parts.clock.monotonicNow())
    this.#askIn(inMs)
  }

  #askLater(): void {
    const isAway = this.#all.some(({ connection }) => !connection.isReady)
    this.#askIn(isAway ? ASK_WHILE_AWAY_MS : this.#parts.askEveryMs)
  }

  #askIn(inMs: number): void {
    if (this.#isClosed) return
    const { clock } = this.#parts
    const atMs = clock.monotonicNow() + inMs
    if (this.#asking !== null) {
      // What is being asked may be answered with what was true before.
      this.#askAtMs = Math.min(this.#askAtMs, atMs)
      return
    }
    this.#cancelTimer()
    this.#cancelTimer = clock.after(inMs, () => {
      this.#askAtMs = Number.POSITIVE_INFINITY
      this.#asking = this.#ask()
        .catch(noop)
        .finally(() => {
          this.#asking = null
          if (Number.isFinite(this.#askAtMs)) this.#askIn(Math.max(0, this.#askAtMs - clock.monotonicNow()))
          else this.#askLater()
        })
    })
  }

  /**
   * Asks one master after the other, then the seeds, until one knows a master for every slot. Those that gave reason to ask
   * come last: a node that is cut off from the others, or was emptied, knows of no failover.
   */
  async #ask(): Promise<void> {
    this.#askedAtMs = this.#parts.clock.monotonicNow()
    const doubted = new Set(this.#doubted)
    this.#doubted.clear()
    const inOrder = this.#all.toSorted((a, b) => Number(doubted.has(a)) - Number(doubted.has(b)))
    for (const server of inOrder) {
      if (!server.connection.isReady) continue
      const reply = await replyOf(server, ['CLUSTER', 'SLOTS'], this.#askCall()).catch(noop)
      if (this.#isClosed) return
      const ranges = reply instanceof ErrorReply ? [] : slotRangesOf(reply, server.host)
      if (areWhole(ranges)) return this.#apply(ranges)
    }
    for (const seed of this.#parts.seeds) {
      const ranges = await this.#askSeed(seed).catch(noop)
      if (this.#isClosed) return
      if (ranges !== undefined && areWhole(ranges)) return this.#apply(ranges)
    }
  }

  #askCall(): RedisCall {
    return repeatableCall('cluster slots', this.#parts.clock, this.#parts.callTimeoutMs)
  }
}

function noop(): void {}
