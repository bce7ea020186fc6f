import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Logger } from '../telemetry/logger.ts'
import { type Filler, Loader } from './loader.ts'
import { CommitFeed } from './commit-feed.ts'
import { Poller } from './poller.ts'
import { Sweeper } from './sweeper.ts'
import type { Place } from '../timetable.ts'
import type { HintTable } from '../hint-table.ts'

export interface TopicFillersParts {
  readonly ledger: Ledger
  /** The one that is filled by the hour. */
  readonly table: HintTable
  /** The one that rings: the same, or with a spare one for when it is away. */
  readonly ringing: HintTable
  readonly clock: Clock
  readonly logger: Logger
  readonly residentMs: (topic: string) => number
  /** Callers wrote these in transactions of their own. */
  readonly onCommitted: (topic: string, places: readonly Place[]) => Promise<void>
  readonly onError: (doing: string, error: unknown) => void
}

/** The background of a topic that is consumed here. */
interface Residence {
  readonly filler: Filler
  /** Undefined where every look sees all that is overdue. */
  readonly sweeper?: Sweeper
  /** Undefined where no news comes. */
  reader?: CommitFeed
  /** While the shared timetable is away, its spare one is filled. */
  poller?: Poller
}

/** The topics that are consumed in this process, each with what keeps its timetable filled. */
export class TopicFillers {
  readonly #parts: TopicFillersParts
  readonly #byTopic = new Map<string, Residence>()
  readonly #rescued = new Map<string, number>()
  /** Others write to the ledger, and nothing but the ledger tells of it. */
  readonly #isPolled: boolean
  #spare: HintTable | null = null
  #unlisten: (() => void) | null = null

  constructor(parts: TopicFillersParts) {
    this.#parts = parts
    this.#isPolled = parts.ledger.isShared && !parts.table.isShared
  }

  /** Whatever somebody else holds is found again, by looking, when its lease is over. */
  get isPolling(): boolean {
    return this.#isPolled || this.#spare !== null
  }

  has(topic: string): boolean {
    return this.#byTopic.has(topic)
  }

  fillerOf(topic: string): Filler | undefined {
    return this.#byTopic.get(topic)?.filler
  }

  /** Tasks that the sweeper had to put back. */
  rescuedOf(topic: string): number {
    return this.#rescued.get(topic) ?? 0
  }

  begin(topic: string): void {
    if (this.has(topic)) return
    const residence = this.#isPolled ? this.#polled(topic) : this.#loaded(topic)
    this.#byTopic.set(topic, residence)
    const { ledger, clock, onCommitted, onError } = this.#parts
    if (!ledger.isShared) return
    residence.reader = new CommitFeed(
      clock,
      () => ledger.committedWrites(topic),
      (places) => onCommitted(topic, places),
      (error) => onError('news', error),
    )
    residence.reader.start()
    this.#unlisten ??= ledger.listen((of) => this.#hear(of))
  }

  async close(): Promise<void> {
    this.#unlisten?.()
    const all = [...this.#byTopic.values()]
    const actors = all.flatMap(({ filler, sweeper, poller, reader }) =>
      [filler, sweeper ?? [], poller ?? [], reader ?? []].flat(),
    )
    await Promise.all(actors.map((actor) => actor.stop()))
  }

  /** The shared timetable is away: its spare one is filled until it is back. */
  fillSpare(spare: HintTable): void {
    this.#spare = spare
    for (const [topic, residence] of this.#byTopic) this.#poll(topic, residence, spare)
  }

  leaveSpare(): void {
    this.#spare = null
    for (const residence of this.#byTopic.values()) {
      void residence.poller?.stop()
      delete residence.poller
    }
  }

  /** When this is over, the timetable has all that the ledger has; `others` are topics that are only written to here. */
  async reconcile(others: readonly string[]): Promise<void> {
    for (const { filler } of this.#byTopic.values()) if (filler instanceof Loader) await filler.reconcile()
    for (const topic of others) if (!this.has(topic)) await this.#loader(topic).reconcile()
  }

  #polled(topic: string): Residence {
    const filler = this.#poller(topic, this.#parts.table)
    filler.start()
    return { filler }
  }

  #loaded(topic: string): Residence {
    const { ledger, ringing, clock, logger, onError } = this.#parts
    const filler = this.#loader(topic)
    const onRescue = (count: number) => {
      this.#rescued.set(topic, this.rescuedOf(topic) + count)
      logger.warn({ topic, count }, 'overdue tasks were missing in the timetable and were put back')
    }
    const sweeper = new Sweeper(topic, ledger, ringing, clock, filler, onRescue, (error) =>
      onError('sweep', error),
    )
    filler.start()
    sweeper.start()
    const residence: Residence = { filler, sweeper }
    if (this.#spare !== null) this.#poll(topic, residence, this.#spare)
    return residence
  }

  #loader(topic: string): Loader {
    const { ledger, table, clock, residentMs, onError } = this.#parts
    return new Loader(
      topic,
      ledger,
      table,
      clock,
      () => residentMs(topic),
      (error) => onError('load', error),
    )
  }

  #poll(topic: string, residence: Residence, spare: HintTable): void {
    residence.poller = this.#poller(topic, spare)
    residence.poller.start()
  }

  #poller(topic: string, table: HintTable): Poller {
    const { ledger, clock, onError } = this.#parts
    return new Poller(topic, ledger, table, clock, (error) => onError('poll', error))
  }

  /** Other cells are pulled here: what rings there is brought. */
  look(topic: string): void {
    const residence = this.#byTopic.get(topic)
    if (residence?.filler instanceof Poller) residence.filler.look()
    residence?.poller?.look()
  }

  /** Somebody wrote what rings soon. */
  #hear(topic: string | null): void {
    for (const [name, { filler, reader, poller }] of this.#byTopic) {
      if (topic !== null && topic !== name) continue
      if (filler instanceof Poller) filler.look()
      poller?.look()
      reader?.look()
    }
  }
}
