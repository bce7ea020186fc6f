/** The address of a primary that Sentinel may move to another server. */
import { Alarm } from '../../lib/alarm.ts'
import { type Clock, sleep } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { type AddressUser, addressOf, type Endpoint, type MovingAddress } from './address.ts'
import type { Client } from './connection.ts'
import { notPrimaryError, unavailableError } from './driver-errors.ts'
import type { CheckedSentinel } from './sentinel-options.ts'
import { type SentinelAnswer, SentinelNode } from './sentinel-node.ts'
import { roleOf } from './server.ts'

/** How long a Sentinel may take to answer, unless half of the timeout of a call is less. */
const ANSWER_MS = 1_000
/** How long the answers of the other Sentinels are waited for after the first answer. */
const OTHERS_MS = 100
/** The time between two polls while all connections are established, and while one is not. */
const QUIET_MS = 10_000
const SEEKING_MS = 1_000
/** The minimum time between the starts of a round and of the next poll. */
const PAUSE_MS = 100

export interface SentinelParts {
  readonly clock: Clock
  readonly sentinel: CheckedSentinel
  /** Describes the primary and the Sentinels for messages, without any secret. */
  readonly where: string
  readonly callTimeoutMs: number
  /** Writes a line to the log. */
  readonly log: (message: string) => void
}

/**
 * Asks all Sentinels for the primary, in one round: when an address is to be found, before a new connection is used,
 * when a Sentinel publishes a failover or a connection is lost, and from time to time. Takes the answer with the newest
 * configuration: a Sentinel that was down during a failover still names the old primary for a while. When the answer
 * changes, all connections are told to move.
 *
 * Each Sentinel has a deadline, so one that is down delays nothing for long. While none answers, the last answer holds.
 */
export class SentinelAddress implements MovingAddress {
  readonly #parts: SentinelParts
  readonly #nodes: readonly SentinelNode[]
  readonly #users = new Set<AddressUser>()
  readonly #poll: Alarm
  #endpoint: Endpoint | null = null
  #round: Promise<void> | null = null
  #roundAtMs = Number.NEGATIVE_INFINITY
  /** The Sentinels without an answer, as they were last written to the log. */
  #silent = ''
  #isClosed = false

  constructor(parts: SentinelParts) {
    this.#parts = parts
    const { clock, callTimeoutMs, sentinel } = parts
    const timeoutMs = Math.min(ANSWER_MS, callTimeoutMs / 2)
    const { name, client: options } = sentinel
    const onNews = () => this.seek()
    this.#nodes = sentinel.nodes.map(
      (endpoint) => new SentinelNode({ clock, endpoint, name, options, timeoutMs, onNews }),
    )
    this.#poll = new Alarm(clock, () => void this.find().catch(noop))
  }

  get endpoint(): Endpoint {
    if (this.#endpoint === null) throw new Error('the primary was not found yet')
    return this.#endpoint
  }

  async find(): Promise<void> {
    this.#round ??= this.#ask().finally(() => {
      this.#round = null
      this.#pollLater()
    })
    try {
      await this.#round
    } catch (error) {
      // Without an answer, the last one holds: while no Sentinel works, none leads a failover.
      if (this.#endpoint === null || this.#isClosed) throw error
    }
  }

  /**
   * The role alone does not prove that a server is the primary: an old primary that was started again is a primary for
   * a few seconds, until the Sentinels make it a replica. What is written to it meanwhile is lost.
   */
  async check(endpoint: Endpoint, client: Client): Promise<void> {
    const [role] = await Promise.all([roleOf(client), this.find()])
    if (role !== 'master' || !isSame(endpoint, this.endpoint)) throw notPrimaryError(this.describe(endpoint))
  }

  describe(endpoint: Endpoint): string {
    return `${addressOf(endpoint.host, endpoint.port)} (${this.#parts.where})`
  }

  join(user: AddressUser): () => void {
    this.#users.add(user)
    return () => this.#users.delete(user)
  }

  seek(): void {
    if (!this.#isClosed) this.#poll.noLaterThan(Math.max(this.#now(), this.#roundAtMs + PAUSE_MS))
  }

  close(): void {
    this.#isClosed = true
    this.#poll.off()
    for (const node of this.#nodes) node.close()
  }

  async #ask(): Promise<void> {
    if (this.#isClosed) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
    this.#roundAtMs = this.#now()
    const answers: SentinelAnswer[] = []
    const asked = this.#nodes.map(async (node, i) => {
      const answer = await node.ask()
      answers[i] = answer
    })
    const enough = new AbortController()
    const others = Promise.any(asked).then(() => sleep(this.#parts.clock, OTHERS_MS, enough.signal))
    await Promise.race([Promise.allSettled(asked), others.catch(() => Promise.allSettled(asked))])
    enough.abort()
    if (this.#isClosed) return
    const [newest] = answers.filter(Boolean).toSorted((a, b) => b.epoch - a.epoch)
    this.#logSilent(newest !== undefined)
    if (newest === undefined) throw this.#noAnswer()
    this.#moveTo(newest.primary)
  }

  #moveTo(primary: Endpoint): void {
    const before = this.#endpoint
    if (before !== null && isSame(before, primary)) return
    this.#endpoint = primary
    if (before === null) return
    const [from, to] = [before, primary].map(({ host, port }) => addressOf(host, port))
    this.#parts.log(`the primary ${this.#parts.where} is now ${to}, before ${from}`)
    for (const user of this.#users) user.onMove()
  }

  #pollLater(): void {
    if (this.#isClosed) return
    const isQuiet = [...this.#users].every((user) => user.isReady())
    this.#poll.noLaterThan(this.#now() + (isQuiet ? QUIET_MS : SEEKING_MS))
  }

  /** Logs which Sentinels do not answer, when that changes. The first round throws if none answers. */
  #logSilent(hasAnswer: boolean): void {
    if (!hasAnswer && this.#endpoint === null) return
    const silent = this.#nodes.filter(({ failure }) => failure !== null)
    const names = silent.map(({ where }) => where).join(', ')
    if (names === this.#silent) return
    this.#silent = names
    if (names === '') return this.#parts.log(`all Sentinels of ${this.#parts.sentinel.name} answer again`)
    const why = silent.map(({ failure }) => failure?.message).join('; ')
    const effect = hasAnswer ? '' : ', so a failover would go unnoticed'
    this.#parts.log(`no answer from ${silent.length} of ${this.#nodes.length} Sentinels${effect}: ${why}`)
  }

  /** Returns the error of a round without an answer. One that an operator can act upon comes first. */
  #noAnswer(): TocsinError {
    const failures = this.#nodes.flatMap(({ failure }) => failure ?? [])
    const refused = failures.find(({ code }) => code !== 'timetable-unavailable')
    if (refused !== undefined) return refused
    const causes = failures.map(({ message }) => message).join('; ')
    return unavailableError(`no Sentinel of ${this.#parts.sentinel.name} answers: ${causes}`, failures[0])
  }

  #now(): number {
    return this.#parts.clock.monotonicNow()
  }
}

function isSame(a: Endpoint, b: Endpoint): boolean {
  return a.host === b.host && a.port === b.port
}

function noop(): void {}
