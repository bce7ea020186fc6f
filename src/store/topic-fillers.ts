import type { Clock } from '../clock.ts'
import type { Ledger } from '../ledger.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Meter } from '../telemetry/meter.ts'
import { type Filler, Loader } from './loader.ts'
import { CommitFeed } from './commit-feed.ts'
import { Poller } from './poller.ts'
import { Sweeper } from './sweeper.ts'
import type { Place } from '../timetable.ts'
import type { HintTable } from '../hint-table.ts'

export interface TopicFillersParts {
  readonly ledger: Ledger
  /** The primary hint table. A Poller fills it if only the ledger is shared. Otherwise a Loader fills it. */
  readonly table: HintTable
  /** The table from which tasks are claimed: the primary table, or a FailoverTable around the primary table. */
  readonly ringing: HintTable
  readonly clock: Clock
  readonly logger: Logger
  readonly meter: Meter
  readonly residentMs: (topic: string) => number
  /** Called with places that callers wrote in their own transactions, after the commit. */
  readonly onCommitted: (topic: string, places: readonly Place[]) => Promise<void>
  readonly onError: (doing: string, error: unknown) => void
}

/** The background jobs of a topic that this process consumes. */
interface Jobs {
  readonly filler: Filler
  /** Undefined if `filler` is a Poller: every poll finds all overdue tasks, so a sweeper is not necessary. */
  readonly sweeper?: Sweeper
  /**
   * Reads the places that callers wrote in their own transactions. Undefined if the ledger is not shared: then the
   * TransactionWatch of this process waits for the end of these transactions.
   */
  reader?: CommitFeed
  /** Fills the spare table while the shared table is unreachable. Undefined at other times. */
  poller?: Poller
}

/** The topics that this process consumes, each with the jobs that keep the hint table filled. */
export class TopicFillers {
  readonly #parts: TopicFillersParts
  readonly #byTopic = new Map<string, Jobs>()
  readonly #rescued = new Map<string, number>()
  /** True if the ledger is shared and the hint table is not. Then only polling finds the writes of other processes. */
  readonly #isPolled: boolean
  #spare: HintTable | null = null
  #unlisten: (() => void) | null = null

  constructor(parts: TopicFillersParts) {
    this.#parts = parts
    this.#isPolled = parts.ledger.isShared && !parts.table.isShared
  }

  /** True if this process polls the ledger. Then a poll finds every claimed task when the lease of its claim ends. */
  get isPolling(): boolean {
    return this.#isPolled || this.#spare !== null
  }

  has(topic: string): boolean {
    return this.#byTopic.has(topic)
  }

  fillerOf(topic: string): Filler | undefined {
    return this.#byTopic.get(topic)?.filler
  }

  /** Returns how many lost hints of the topic the sweeper has put back since this process started. */
  rescuedOf(topic: string): number {
    return this.#rescued.get(topic) ?? 0
  }

  begin(topic: string): void {
    if (this.has(topic)) return
    const jobs = this.#isPolled ? this.#polled(topic) : this.#loaded(topic)
    this.#byTopic.set(topic, jobs)
    const { ledger, clock, onCommitted, onError } = this.#parts
    if (!ledger.isShared) return
    jobs.reader = new CommitFeed(
      clock,
      () => ledger.committedWrites(topic),
      (places) => onCommitted(topic, places),
      (error) => onError('commit-feed', error),
    )
    jobs.reader.start()
    this.#unlisten ??= ledger.listen((of) => this.#onNear(of))
  }

  async close(): Promise<void> {
    this.#unlisten?.()
    const all = [...this.#byTopic.values()]
    const actors = all.flatMap(({ filler, sweeper, poller, reader }) =>
      [filler, sweeper ?? [], poller ?? [], reader ?? []].flat(),
    )
    await Promise.all(actors.map((actor) => actor.stop()))
  }

  /** Fills the spare table until `leaveSpare` is called. Called when the shared table becomes unreachable. */
  fillSpare(spare: HintTable): void {
    this.#spare = spare
    for (const [topic, jobs] of this.#byTopic) this.#poll(topic, jobs, spare)
  }

  /** Resolves when no job uses the spare table any more. */
  async leaveSpare(): Promise<void> {
    this.#spare = null
    const pollers: Poller[] = []
    for (const jobs of this.#byTopic.values()) {
      if (jobs.poller !== undefined) pollers.push(jobs.poller)
      delete jobs.poller
    }
    await Promise.all(pollers.map((poller) => poller.stop()))
  }

  /**
   * Fills the shared table from the ledger again, after an outage: all topics that this process consumes, and `others`,
   * the topics that this process wrote to during the outage.
   */
  async reconcile(others: readonly string[]): Promise<void> {
    for (const { filler } of this.#byTopic.values()) if (filler instanceof Loader) await filler.reconcile()
    for (const topic of others) if (!this.has(topic)) await this.#loader(topic).reconcile()
  }

  #polled(topic: string): Jobs {
    const filler = this.#poller(topic, this.#parts.table)
    filler.start()
    return { filler }
  }

  #loaded(topic: string): Jobs {
    const { ledger, ringing, clock, logger, meter, onError } = this.#parts
    const filler = this.#loader(topic)
    const onRescue = (count: number) => {
      this.#rescued.set(topic, this.rescuedOf(topic) + count)
      meter.caught(topic, 'sweeper', count)
      logger.warn({ topic, count }, 'overdue tasks were missing in the timetable and were put back')
    }
    const sweeper = new Sweeper(topic, ledger, ringing, clock, filler, onRescue, (error) =>
      onError('sweep', error),
    )
    filler.start()
    sweeper.start()
    const jobs: Jobs = { filler, sweeper }
    if (this.#spare !== null) this.#poll(topic, jobs, this.#spare)
    return jobs
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

  #poll(topic: string, jobs: Jobs, spare: HintTable): void {
    jobs.poller = this.#poller(topic, spare)
    jobs.poller.start()
  }

  #poller(topic: string, table: HintTable): Poller {
    const { ledger, clock, onError } = this.#parts
    return new Poller(topic, ledger, table, clock, (error) => onError('poll', error))
  }

  /** Polls the ledger at once, if a Poller fills the topic. Called when this process pulls other cells than before. */
  pollNow(topic: string): void {
    const jobs = this.#byTopic.get(topic)
    if (jobs?.filler instanceof Poller) jobs.filler.pollNow()
    jobs?.poller?.pollNow()
  }

  /**
   * Polls the ledger and reads the commit feed at once. Called when a process wrote a task of the topic that rings
   * soon. With null, any topic may have such a task.
   */
  #onNear(topic: string | null): void {
    for (const [name, { filler, reader, poller }] of this.#byTopic) {
      if (topic !== null && topic !== name) continue
      if (filler instanceof Poller) filler.pollNow()
      poller?.pollNow()
      reader?.readNow()
    }
  }
}
