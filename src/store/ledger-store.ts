import type { Clock } from '../clock.ts'
import type { TocsinError } from '../errors.ts'
import { DEFAULT_CONFIG, type Settings, settingsOf } from '../values/config.ts'
import type { Ledger, TopicCreated } from '../ledger.ts'
import type { Logger } from '../telemetry/logger.ts'
import { type Meter, noMeter } from '../telemetry/meter.ts'
import type { Random } from '../random.ts'
import { Janitor } from './janitor.ts'
import { BATCH_MAX, BULK_MAX } from '../lib/batch-max.ts'
import { LogLimiter } from '../lib/log-limiter.ts'
import type {
  ExtendKeys,
  StoreFeatures,
  StoreTransaction,
  TaskStore,
  TopicAudit,
  Transact,
} from '../store.ts'
import type {
  Books,
  CancelAnswer,
  CellAddress,
  Claim,
  ClaimRequest,
  Counts,
  EntryView,
  ListQuery,
  Look,
  NewEntry,
  Place,
  Replayable,
  ReplayAnswer,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../timetable.ts'
import type { RingTime } from '../values/ring-time.ts'
import type { HintTable } from '../hint-table.ts'
import { auditTopic } from './audit.ts'
import { FailoverTable } from './failover-table.ts'
import { TransactionWatch } from './transaction-watch.ts'
import { HeldClaims } from './held-claims.ts'
import { TopicFillers } from './topic-fillers.ts'
import { HintWriter } from './hint-writer.ts'
import { LedgerClaims } from './ledger-claims.ts'
import { Leases } from './leases.ts'
import { StoreTransactions } from './store-transactions.ts'

export interface LedgerStoreParts {
  readonly ledger: Ledger
  readonly table: HintTable
  /** Makes the fallback while `table` is unreachable: a hint table in this process. Absent if `table` is not shared. */
  readonly makeSpare?: () => HintTable
  /** The error with which the shared hint table was unreachable when it was opened. Then the fallback rings at once. */
  readonly outage?: TocsinError | null
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly meter?: Meter | undefined
}

/**
 * A ledger and a hint table as one store. The table rings, the ledger decides. Every write goes to the ledger first.
 * When the write is durable in the ledger, the table is updated. If the process dies in between, the loader or the
 * sweeper adds the missing hint. If a hint is outdated or written twice, the ledger refuses the claim when the key
 * rings.
 *
 *   schedule, cancel, …  ──▶ ledger ──▶ HintWriter ──▶ hint table          TopicFillers: ledger ──▶ hint table
 *   claim                ──▶ LedgerClaims: hint table, then ledger         Janitor:      deletes ended tasks
 *   extend, settle       ──▶ Leases: ledger, then hint table               FailoverTable: hint table unreachable
 */
export class LedgerStore implements TaskStore, StoreFeatures {
  readonly features: StoreFeatures = this
  readonly keepsEnded = true
  readonly lookMs: number
  readonly isSettleCostly = true
  readonly bulkMax: number
  readonly #parts: LedgerStoreParts
  readonly #table: HintTable
  readonly #held: HeldClaims
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #topicFillers: TopicFillers
  readonly #transactionWatch: TransactionWatch
  readonly #settings = new Map<string, () => Settings>()
  readonly #hintWriter: HintWriter
  readonly #claims: LedgerClaims
  readonly #leases: Leases
  readonly #transactions: StoreTransactions
  readonly #janitor: Janitor
  readonly #logLimiter: LogLimiter
  #isClosed = false

  constructor(parts: LedgerStoreParts) {
    this.#parts = parts
    const { table, makeSpare } = parts
    const failover = makeSpare === undefined ? null : this.#withSpare(table, makeSpare)
    this.#table = failover ?? table
    const residentMs = (topic: string) => this.#settingsOf(topic).residentMs
    this.#topicFillers = new TopicFillers({
      ...parts,
      meter: parts.meter ?? noMeter,
      ringing: this.#table,
      residentMs,
      onCommitted: (topic, places) => this.#hintWriter.catchUp(topic, places),
      onError: (doing, error) => {
        // An outage of the shared table is logged once, when it begins, and not once per call that it fails.
        if (failover?.notice(error) !== true) this.#report(doing, error)
      },
    })
    this.#transactionWatch = new TransactionWatch(
      (topic, places) => this.#hintWriter.catchUp(topic, places),
      (error) => this.#report('follow', error),
    )
    this.lookMs = table.lookMs
    this.bulkMax = table.isShared ? BULK_MAX : BATCH_MAX
    const watchersOf = (topic: string) => this.#watchers.get(topic) ?? []
    this.#held = new HeldClaims(parts.clock, {
      limited: ({ at: { topic, cell }, stamp }, key, endMs) => {
        for (const watcher of watchersOf(topic)) watcher.limit(cell, key, stamp, endMs)
      },
      doubtful: ({ at: { topic, cell }, stamp }, key) => {
        for (const watcher of watchersOf(topic)) watcher.fence(cell, key, stamp, 'replaced')
      },
    })
    this.#hintWriter = new HintWriter({
      ledger: parts.ledger,
      table: this.#table,
      topicFillers: this.#topicFillers,
      residentMs,
      onError: (error) => this.#report('timetable', error),
    })
    const around = {
      ...parts,
      table: this.#table,
      held: this.#held,
      hintWriter: this.#hintWriter,
      topicFillers: this.#topicFillers,
    }
    this.#claims = new LedgerClaims(around)
    this.#leases = new Leases(around)
    this.#transactions = new StoreTransactions({
      ledger: parts.ledger,
      held: this.#held,
      transactionWatch: this.#transactionWatch,
      onSettled: (at, settlements, answers) => this.#leases.settled(at, settlements, answers),
    })
    this.#logLimiter = new LogLimiter(parts.clock)
    this.#janitor = new Janitor(
      parts.ledger,
      parts.clock,
      (topic) => this.#settingsOf(topic).retentionMs,
      (topic, count) => parts.logger.warn({ topic, count }, 'old dead tasks were dropped'),
      (error) => this.#report('janitor', error),
    )
    this.#janitor.start()
    const { outage = null } = parts
    if (outage !== null) failover?.notice(outage)
  }

  configure(topic: string, settings: () => Settings, created: TopicCreated = () => null): void {
    this.#settings.set(topic, settings)
    const forLedger = () => {
      const { slotBy, mergeMs, fastClaims, retentionMs } = settings()
      return { slotBy, mergeMs, fastClaims, keepsEnded: retentionMs > 0 }
    }
    this.#parts.ledger.configure(topic, forLedger, created)
  }

  pulls(topic: string, cells: readonly number[]): void {
    // If the ledger is not shared, this process pulls every cell, and its table needs the hints of all cells.
    if (!this.#parts.ledger.isShared) return
    this.#table.keepOnly(topic, cells)
    this.#topicFillers.pollNow(topic)
  }

  async schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]> {
    const answers = await this.#parts.ledger.schedule(topic, entries, mergeMs)
    await this.#hintWriter.place(topic, answers)
    return answers.map(({ outcome, dueMs, inFlight }) => ({ outcome, dueMs, inFlight }))
  }

  async cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    const answers = await this.#parts.ledger.cancel(topic, places)
    // Also cancel claimed tasks in the table: the table notifies (fences) the lease holder. The handler can stop early.
    const touched = places.filter((_, i) => answers[i] !== 'not-found')
    if (this.#hintWriter.isRungHere(topic) && touched.length > 0)
      await this.#hintWriter.onTheWay(touched.length, [this.#table.cancel(topic, touched)])
    return answers
  }

  async reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]> {
    const answers = await this.#parts.ledger.reschedule(topic, places, when, mergeMs)
    await this.#hintWriter.place(topic, answers)
    return answers.map(({ outcome, dueMs }) => ({ outcome, dueMs }))
  }

  within(tx: unknown): StoreTransaction {
    return this.#transactions.within(tx)
  }

  handlerTransactions(): Transact {
    return this.#transactions.forHandlers()
  }

  claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    return this.#claims.claim(at, request)
  }

  look(at: CellAddress): Promise<Look> {
    return this.#claims.look(at)
  }

  begin({ topic, cell }: CellAddress, key: string, stamp: number): Promise<boolean> {
    return this.#parts.ledger.begin(topic, { key, cell }, stamp)
  }

  extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    return this.#leases.extend(at, req, leaseMs)
  }

  settle(
    at: CellAddress,
    settlements: readonly Settlement[],
    session: number | null = null,
  ): Promise<SettleAnswer[]> {
    return this.#leases.settle(at, settlements, session)
  }

  sessionOf(cell: number): number {
    return this.#parts.ledger.sessionOf(cell)
  }

  handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void> {
    return this.#leases.handOut(at, stamp, keys)
  }

  readonly extendKeys: ExtendKeys = (...args) => this.#leases.extendKeys(...args)

  get(topic: string, place: Place): Promise<EntryView | null> {
    return this.#parts.ledger.get(topic, place)
  }

  list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return this.#parts.ledger.list(topic, query)
  }

  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#parts.ledger.find(at, among, what, cursor)
  }

  counts(topic: string): Promise<Counts> {
    return this.#parts.ledger.counts(topic)
  }

  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    return this.#parts.ledger.forecast(topic, fromMs, toMs, stepMs)
  }

  books(topic: string): Promise<Books> {
    return this.#parts.ledger.books(topic)
  }

  async replay(topic: string, places: readonly Place[], which?: Replayable): Promise<ReplayAnswer[]> {
    const answers = await this.#parts.ledger.replay(topic, places, which)
    await this.#hintWriter.place(topic, answers)
    return answers.map(({ outcome }) => outcome)
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return this.#parts.ledger.purge(topic, places)
  }

  nowMs(): Promise<number> {
    return this.#table.nowMs()
  }

  /** Adds the watcher, and starts to fill the hint table: a process that watches a topic consumes the topic. */
  watch(topic: string, watcher: Watcher): () => void {
    if (!this.#isClosed) this.#topicFillers.begin(topic)
    const watchers = this.#watchers.get(topic) ?? new Set()
    this.#watchers.set(topic, watchers.add(watcher))
    const unwatch = this.#table.watch(topic, watcher)
    return () => {
      watchers.delete(watcher)
      unwatch()
    }
  }

  async audit(): Promise<TopicAudit[]> {
    const topics = await this.#parts.ledger.topics()
    const audits: TopicAudit[] = []
    for (const topic of topics) {
      const { ledger, clock } = this.#parts
      const parts = { ledger, clock, table: this.#table }
      const filler = this.#topicFillers.fillerOf(topic)
      audits.push(await auditTopic(parts, topic, filler, this.#topicFillers.rescuedOf(topic)))
    }
    return audits
  }

  loaderLagMs(topic: string): number | null {
    const untilMs = this.#topicFillers.fillerOf(topic)?.loadedUntilMs
    if (untilMs === undefined || !Number.isFinite(untilMs)) return null
    return Math.max(0, this.#parts.ledger.clockMs() - untilMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#held.close()
    await Promise.all([this.#janitor.stop(), this.#topicFillers.close()])
    await Promise.all([this.#transactionWatch.close(), this.#hintWriter.drained()])
    await this.#table.close()
    await this.#parts.ledger.close()
  }

  #withSpare(table: HintTable, makeSpare: () => HintTable): FailoverTable {
    const { logger, clock } = this.#parts
    return new FailoverTable(table, makeSpare, clock, {
      onAway: (spare, error) => {
        logger.warn({ error }, 'degraded: the timetable is unreachable, and tasks ring by polling the ledger')
        this.#topicFillers.fillSpare(spare)
      },
      onRefused: (error) => logger.error({ error }, 'still degraded: the timetable cannot be used'),
      onBack: (untold) => this.#topicFillers.reconcile(untold),
      onOver: () => {
        // A warning, so that the default logger also shows the end of the outage.
        logger.warn({}, 'recovered: the timetable is back and filled from the ledger')
        return this.#topicFillers.leaveSpare()
      },
    })
  }

  #settingsOf(topic: string): Settings {
    return this.#settings.get(topic)?.() ?? settingsOf(DEFAULT_CONFIG, `topic '${topic}'`)
  }

  #report(doing: string, error: unknown): void {
    this.#logLimiter.log((alsoFailed) =>
      this.#parts.logger.error(
        { doing, error, alsoFailed },
        'a call to the ledger or the timetable failed; it will be retried',
      ),
    )
  }
}
