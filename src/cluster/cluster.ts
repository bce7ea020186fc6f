/**
 * This process as a node of the cluster:
 *
 *   members (which nodes are alive) ──▶ shares (which slots this node owns) ──▶ pullers
 *   topic configs (the settings of each topic) ──▶ everything
 *
 * There is no leader and no lock. All nodes read the same cards and compute the same shares. For a moment, two nodes
 * may compute from different cards and pull the same slot. Then both claim from the same cells, and no task is claimed
 * twice.
 */
import type { Board, NodeCard, Figures, BeatReply } from '../board.ts'
import type { Clock } from '../clock.ts'
import type { Announcer } from '../telemetry/events.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Random } from '../random.ts'
import { LogLimiter } from '../lib/log-limiter.ts'
import { ClockWatch } from './clock-watch.ts'
import { Members } from './members.ts'
import { type Share, Shares } from './shares.ts'
import { TopicConfigs } from './topic-configs.ts'

/** At every 40th beat, twice a minute, the clocks of the timetable and the board are compared (clock-watch.ts). */
const CLOCKS_EVERY = 40

/** How this node is displayed to operators. */
export interface Identity {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
}

export interface ClusterParts {
  readonly board: Board
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly announcer: Announcer
  readonly identity: Identity
  /** Returns the time of the timetable's clock. */
  readonly timetableNowMs: () => Promise<number>
  /** Returns the topic's number of slots, as this process knows it. */
  readonly slotsOf: (topic: string) => number
}

/** The part of a topic's consumer that the cluster uses. */
export interface Participant {
  /** How many handler calls may run at a time. */
  readonly capacity: number
  readonly inFlightCount: () => number
  readonly finishedCount: () => number
  /** Called when the slots of the topic that this node owns have changed. */
  readonly onShare: () => void
}

export class Cluster {
  readonly configs: TopicConfigs
  readonly #parts: ClusterParts
  readonly #id: string
  readonly #startedMs: number
  readonly #shares: Shares
  readonly #members: Members
  readonly #clockWatch: ClockWatch
  readonly #logLimiter: LogLimiter
  readonly #participants = new Set<Participant>()
  /** The number of tasks that were handled by consumers that have ended. */
  #handled = 0
  #beatCount = 0

  constructor(parts: ClusterParts) {
    const { board, clock, random, logger, announcer, identity, slotsOf } = parts
    this.#parts = parts
    this.#id = random.uniqueId()
    this.#startedMs = clock.now()
    this.#logLimiter = new LogLimiter(clock)
    this.#clockWatch = new ClockWatch(clock, logger)
    this.configs = new TopicConfigs(board, clock, random, identity.name)
    this.#shares = new Shares({
      id: this.#id,
      slotsOf,
      onOwned: (topic, owned) => announcer.emit('slots', { topic, owned }),
      onTooMany: (topic, nodes, slots, slotsToSet) =>
        logger.warn(
          { topic, nodes, slots, slotsToSet },
          `${nodes} nodes consume topic '${topic}', which has ${slots} slots: some have nothing to do. Set ${slotsToSet}: configure({ slots: ${slotsToSet} })`,
        ),
    })
    this.#members = new Members({
      board,
      clock,
      card: () => this.#card(),
      onBeat: (alive, reply, sentMs) => this.#onBeat(alive, reply, sentMs),
      onGone: ({ name, host, pid }) =>
        logger.warn({ node: name, host, pid }, 'a node is gone; the others take over its slots'),
      onError: (error) => this.#onError(error),
    })
  }

  /** Reads the settings of all topics, and joins the cluster. */
  async open(): Promise<void> {
    await this.configs.refresh()
    if (this.#parts.board.isShared) this.#members.start()
  }

  /**
   * Adds a consumer of a topic. `yield` removes its capacity from the node's card, so that other nodes get its slots.
   * `end` removes the consumer from the figures.
   */
  consume(topic: string, participant: Participant): { yield: () => void; end: () => void } {
    const yieldShare = this.#shares.consume(topic, participant.capacity, participant.onShare)
    this.#participants.add(participant)
    this.#redeal()
    return {
      yield: () => {
        yieldShare()
        this.#redeal()
      },
      end: () => {
        if (this.#participants.delete(participant)) this.#handled += participant.finishedCount()
      },
    }
  }

  /** The number of live nodes, including this node. */
  get nodeCount(): number {
    return Math.max(1, this.#members.alive.length)
  }

  shareOf(topic: string): Share {
    return this.#shares.shareOf(topic)
  }

  /** Computes the shares again. Called when the number of slots of a topic may have changed. */
  reslotted(): void {
    this.#redeal()
  }

  /** Returns the current cards of all live nodes. */
  async cards(): Promise<{ card: NodeCard; isSelf: boolean }[]> {
    const mine = this.#card()
    if (!this.#parts.board.isShared) return [{ card: mine, isSelf: true }]
    await this.#members.begun
    const alive = new Set(this.#members.alive.map(({ id }) => id))
    const others = (await this.#parts.board.cards()).filter(({ id }) => id !== mine.id && alive.has(id))
    return [mine, ...others].map((card) => ({ card, isSelf: card.id === mine.id }))
  }

  /**
   * Leaves the cluster, so that the other nodes take over this node's slots at once. An error is only logged: without
   * the call, the other nodes take over when they no longer see beats.
   */
  async leave(): Promise<void> {
    const { board } = this.#parts
    if (!board.isShared) return
    await this.#members.stop()
    await board.leave(this.#id).catch((error: unknown) => this.#onError(error))
  }

  #redeal(): void {
    if (this.#parts.board.isShared) this.#members.hurry()
    else this.#shares.deal([])
  }

  async #onBeat(alive: readonly NodeCard[], reply: BeatReply, sentMs: number): Promise<void> {
    this.#clockWatch.record('board', reply.nowMs, sentMs)
    // Do not await the comparison, because an unreachable timetable must not delay the next beat.
    if (this.#beatCount++ % CLOCKS_EVERY === 0) void this.#compareClocks()
    try {
      await this.configs.refresh(reply.revision)
      await this.configs.recreate()
    } finally {
      // Compute the shares even if the settings could not be read: other nodes expect this node to pull its slots.
      const { edition } = this.#shares
      this.#shares.deal(alive)
      // Beat at once if this node's card has changed, because other nodes compute their shares from it.
      if (this.#shares.edition !== edition) this.#members.hurry()
    }
  }

  async #compareClocks(): Promise<void> {
    const sentMs = this.#parts.clock.monotonicNow()
    // If the timetable does not answer, skip this comparison.
    const nowMs = await this.#parts.timetableNowMs().catch(() => null)
    if (nowMs !== null) this.#clockWatch.record('timetable', nowMs, sentMs)
  }

  #onError(error: unknown): void {
    this.#shares.dealBlind()
    this.#logLimiter.log((alsoFailed) =>
      this.#parts.logger.warn({ error, alsoFailed }, 'the board is unreachable; this node keeps its slots'),
    )
  }

  #card(): NodeCard {
    return {
      id: this.#id,
      edition: this.#shares.edition,
      ...this.#parts.identity,
      startedMs: this.#startedMs,
      topics: this.#shares.topics,
      figures: this.#figures(),
    }
  }

  #figures(): Figures {
    const all = [...this.#participants]
    const sum = (of: (one: Participant) => number) => all.reduce((total, one) => total + of(one), 0)
    return {
      inFlight: sum((one) => one.inFlightCount()),
      handled: this.#handled + sum((one) => one.finishedCount()),
      clockAheadMs: this.#clockWatch.aheadMs,
    }
  }
}
