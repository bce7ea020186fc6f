/**
 * This process as one of several:
 *
 *   members (who is there) ──▶ shares (which slots are ours) ──▶ pullers
 *   topic configs (by which settings) ──▶ everything
 *
 * There is no leader and no lock. Each node reads the same cards and computes the same shares; while they differ for a
 * moment, claims in vain are all it costs.
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

/** The servers' clocks are compared with every so many-th beat: twice a minute. */
const CLOCKS_EVERY = 40

/** Who this process is. */
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
  /** The clock that tasks ring by. */
  readonly timetableNowMs: () => Promise<number>
  /** Of a topic, as they are in force here. */
  readonly slotsOf: (topic: string) => number
}

/** A consumer, as the cluster sees it. */
export interface Participant {
  /** How many calls of its handler may run at a time. */
  readonly capacity: number
  readonly inFlightCount: () => number
  readonly finishedCount: () => number
  /** Its slots are others. */
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
  /** By consumers that ended. */
  #handled = 0
  #pulses = 0

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

  /** Reads the settings of all topics, and joins. */
  async open(): Promise<void> {
    await this.configs.refresh()
    if (this.#parts.board.isShared) this.#members.start()
  }

  /** Takes part in pulling a topic. Answers how to let its slots go, at once, and how to forget it. */
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

  /** Nodes that are alive, this one included. */
  get nodeCount(): number {
    return Math.max(1, this.#members.alive.length)
  }

  shareOf(topic: string): Share {
    return this.#shares.shareOf(topic)
  }

  /** The number of slots of a topic may be another one. */
  reslotted(): void {
    this.#redeal()
  }

  /** The cards of those that are alive, as they are now. */
  async cards(): Promise<{ card: NodeCard; isSelf: boolean }[]> {
    const mine = this.#card()
    if (!this.#parts.board.isShared) return [{ card: mine, isSelf: true }]
    await this.#members.begun
    const alive = new Set(this.#members.alive.map(({ id }) => id))
    const others = (await this.#parts.board.cards()).filter(({ id }) => id !== mine.id && alive.has(id))
    return [mine, ...others].map((card) => ({ card, isSelf: card.id === mine.id }))
  }

  /** The others take over at once. Nothing of it is worth failing for: they would find out. */
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
    this.#clockWatch.heard('board', reply.nowMs, sentMs)
    // Not waited for: a timetable that is away must not keep us from beating.
    if (this.#pulses++ % CLOCKS_EVERY === 0) void this.#compareClocks()
    try {
      await this.configs.refresh(reply.revision)
      await this.configs.recreate()
    } finally {
      // Whatever becomes of the settings: the others count on us.
      const { edition } = this.#shares
      this.#shares.deal(alive)
      // They go by our card.
      if (this.#shares.edition !== edition) this.#members.hurry()
    }
  }

  async #compareClocks(): Promise<void> {
    const sentMs = this.#parts.clock.monotonicNow()
    // Whether it answers is not our business here.
    const nowMs = await this.#parts.timetableNowMs().catch(() => null)
    if (nowMs !== null) this.#clockWatch.heard('timetable', nowMs, sentMs)
  }

  #onError(error: unknown): void {
    this.#shares.dealBlind()
    this.#logLimiter.log((alsoFailed) =>
      this.#parts.logger.warn(
        { error, alsoFailed },
        'the other nodes cannot be seen; shares stay as they are',
      ),
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
