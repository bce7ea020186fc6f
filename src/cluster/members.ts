/**
 * The heartbeat. Each beat puts up this node's card and reads who else is there; what it finds is told to whoever deals
 * the slots. Cards are read again only when one of them changed.
 */
import type { Board, NodeCard, BeatReply } from '../board.ts'
import type { Clock } from '../clock.ts'
import { Periodic } from '../lib/periodic.ts'
import { BEAT_MS, Liveness } from './liveness.ts'

export interface MembersParts {
  readonly board: Board
  readonly clock: Clock
  /** This node's card, as it is now. */
  readonly card: () => NodeCard
  /** After every beat: the cards of all that are alive, this node's included, as the board has them. */
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
  /** The first beat is over, or there will be none: who else is there is known, as far as it can be. */
  readonly begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  constructor(parts: MembersParts) {
    this.#parts = parts
    this.#periodic = new Periodic(parts.clock, BEAT_MS, () => this.step().finally(this.#begin), parts.onError)
  }

  /** As of the last beat. */
  get alive(): readonly NodeCard[] {
    return this.#alive
  }

  start(): void {
    this.#unlisten = this.#parts.board.listen(() => this.#periodic.hurry())
    this.#periodic.start('now')
  }

  /** Our card changed, or somebody else's did. */
  hurry(): void {
    this.#periodic.hurry()
  }

  /** No beat comes after it. */
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
    // Each of us may do it; the counter says whether it beat since.
    for (const { id, beats } of gone) {
      await board.bury(id, beats)
      const card = this.#cards.get(id)
      if (card !== undefined) this.#parts.onGone(card)
      this.#cards.delete(id)
    }
  }
}
