/**
 * The heartbeat. Each beat writes this node's card, decides which nodes are alive, and passes the cards of the live
 * nodes to `onBeat`, which computes the shares. The cards are read only if a card has a new edition.
 */
import type { Board, NodeCard, BeatReply } from '../board.ts'
import type { Clock } from '../clock.ts'
import { Periodic } from '../lib/periodic.ts'
import { BEAT_MS, Liveness } from './liveness.ts'

export interface MembersParts {
  readonly board: Board
  readonly clock: Clock
  /** Returns this node's current card. */
  readonly card: () => NodeCard
  /**
   * Called after every beat. `alive` has the cards of all live nodes, as stored on the board, including this node's
   * card. `sentMs` is the time of the monotonic clock when the beat was sent.
   */
  readonly onBeat: (alive: readonly NodeCard[], reply: BeatReply, sentMs: number) => Promise<void>
  readonly onGone: (card: NodeCard) => void
  readonly onError: (error: unknown) => void
}

export class Members {
  readonly #parts: MembersParts
  readonly #liveness = new Liveness()
  readonly #periodic: Periodic
  readonly #cards = new Map<string, NodeCard>()
  #alive: readonly NodeCard[] = []
  #unlisten: () => void = () => {}
  #begin: () => void = () => {}
  /** Resolves after the first beat, even if the beat failed, or when this node stops beating. */
  readonly begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  constructor(parts: MembersParts) {
    this.#parts = parts
    this.#periodic = new Periodic(parts.clock, BEAT_MS, () => this.step().finally(this.#begin), parts.onError)
  }

  /** The cards of the live nodes, as of the last beat. */
  get alive(): readonly NodeCard[] {
    return this.#alive
  }

  start(): void {
    this.#unlisten = this.#parts.board.listen(() => this.#periodic.hurry())
    this.#periodic.start('now')
  }

  /** Beats at once. Called when this node's card has changed. */
  hurry(): void {
    this.#periodic.hurry()
  }

  /** Stops beating. No beat is sent after the promise resolves. */
  async stop(): Promise<void> {
    this.#unlisten()
    await this.#periodic.stop()
    this.#begin()
  }

  async step(): Promise<void> {
    const { board, clock, onBeat } = this.#parts
    const sentMs = clock.monotonicNow()
    const mine = this.#parts.card()
    const reply = await board.beat(mine)
    const { alive, gone } = this.#liveness.look(reply.heartbeats, clock.monotonicNow())
    this.#cards.set(mine.id, mine)
    const isNew = reply.heartbeats.some(({ id, edition }) => this.#cards.get(id)?.edition !== edition)
    if (isNew) for (const card of await board.cards()) this.#cards.set(card.id, card)
    const there = new Set(reply.heartbeats.map(({ id }) => id))
    for (const id of this.#cards.keys()) if (!there.has(id)) this.#cards.delete(id)
    this.#alive = alive.flatMap((id) => this.#cards.get(id) ?? [])
    await onBeat(this.#alive, reply, sentMs)
    // Every live node deletes the cards of dead nodes. The board keeps the card of a node that has beaten since.
    for (const { id, beats } of gone) {
      await board.bury(id, beats)
      const card = this.#cards.get(id)
      if (card !== undefined) this.#parts.onGone(card)
      this.#cards.delete(id)
    }
  }
}
