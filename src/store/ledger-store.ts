import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import { DEFAULT_CONFIG, type Settings, settingsOf } from '../values/config.ts'
import type { ClaimVerdict, Ledger, LedgerSettled } from '../ledger.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Random } from '../random.ts'
import { nextSpread, RESCUES_PER_CLAIM } from '../values/rescue.ts'
import { Janitor } from './janitor.ts'
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
  ClaimedTask,
  ClaimRequest,
  Counts,
  EntryView,
  ListQuery,
  Look,
  NewEntry,
  Place,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../timetable.ts'
import type { RingTime } from '../values/ring-time.ts'
import type { Hint, HintTable } from '../hint-table.ts'
import { auditTopic } from './audit.ts'
import { FailoverTable } from './failover-table.ts'
import { TransactionWatch } from './transaction-watch.ts'
import { HeldClaims, placesOfClaim } from './held-claims.ts'
import { TopicFillers } from './topic-fillers.ts'
import { HintWriter } from './hint-writer.ts'
import { Transactions } from './transactions.ts'

/** In the timetable a claim lasts a little longer: who rescues it is this store, which tells the ledger. */
const TABLE_LEASE_EXTRA_MS = 1_000

const DONE = { kind: 'done' } as const
const RETURN = { kind: 'return' } as const

export interface LedgerStoreParts {
  readonly ledger: Ledger
  readonly table: HintTable
  /** Rings while a shared timetable is away. */
  readonly makeSpare?: () => HintTable
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/**
 * The timetable rings, the ledger decides. Every write goes to the ledger first, and the caller is answered when it is
 * durable there; then the timetable is told. What the timetable is not told, because the process dies in between, the
 * loader or the sweeper finds; what it is told too late, or twice, the ledger refuses when it rings.
 */
export class LedgerStore implements TaskStore, StoreFeatures {
  readonly features: StoreFeatures = this
  readonly keepsEnded = true
  readonly lookMs: number
  readonly #parts: LedgerStoreParts
  readonly #table: HintTable
  readonly #held: HeldClaims
  readonly #watchers = new Map<string, Set<Watcher>>()
  readonly #topicFillers: TopicFillers
  readonly #transactionWatch: TransactionWatch
  readonly #settings = new Map<string, () => Settings>()
  readonly #hintWriter: HintWriter
  readonly #transactions: Transactions
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
      ringing: this.#table,
      residentMs,
      onCommitted: (topic, places) => this.#hintWriter.catchUp(topic, places),
      onError: (doing, error) => {
        failover?.notice(error)
        this.#report(doing, error)
      },
    })
    this.#transactionWatch = new TransactionWatch(
      (topic, places) => this.#hintWriter.catchUp(topic, places),
      (error) => this.#report('follow', error),
    )
    this.lookMs = table.lookMs
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
    this.#transactions = new Transactions({
      ledger: parts.ledger,
      held: this.#held,
      transactionWatch: this.#transactionWatch,
      onSettled: (at, settlements, answers) => this.#tellSettled(at, settlements, answers),
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
  }

  configure(topic: string, settings: () => Settings): void {
    this.#settings.set(topic, settings)
    this.#parts.ledger.configure(topic, settings)
  }

  pulls(topic: string, cells: readonly number[]): void {
    // Where only this process has the ledger, it pulls everything, and reads each task once.
    if (!this.#parts.ledger.isShared) return
    this.#table.keepOnly(topic, cells)
    this.#topicFillers.look(topic)
  }

  async schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]> {
    const answers = await this.#parts.ledger.schedule(topic, entries, mergeMs)
    await this.#hintWriter.place(topic, answers)
    return answers.map(({ outcome, dueMs, inFlight }) => ({ outcome, dueMs, inFlight }))
  }

  async cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    const answers = await this.#parts.ledger.cancel(topic, places)
    // One that is held is fenced: its handler need not go on.
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

  async claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    const { ledger, logger } = this.#parts
    const table = this.#table
    const lost = await this.#rescue(at)
    const { leaseMs, req, from } = request
    const rung = await table.claim(at, { ...request, leaseMs: leaseMs + TABLE_LEASE_EXTRA_MS })
    if (rung.tasks.length === 0)
      return { ...rung, ...lost, nextLeaseEndInMs: this.#leaseEndInMs(at, rung.nextLeaseEndInMs) }
    const { stamp, nowMs } = rung
    const places = rung.tasks.map(({ key }) => ({ key, cell: at.cell }))
    const askedMs = this.#held.asking(at, req, stamp, leaseMs)
    if (askedMs === null) {
      // They ring again at once, under another stamp.
      await this.#hintWriter.told(
        table.settle(
          at,
          rung.tasks.map(({ key }) => ({ key, stamp, outcome: RETURN })),
        ),
      )
      return { ...rung, tasks: [], ...lost, nextRingMs: nowMs }
    }
    // If this fails, or its answer is lost, the claim is repeated with the same request, and so the same token.
    const verdicts = await ledger.claim(
      at.topic,
      { stamp, leaseMs, nowMs, alone: from === 'suspects' },
      places,
    )
    const tasks: ClaimedTask[] = []
    const refused: { key: string; verdict: Exclude<ClaimVerdict, { kind: 'ours' }> }[] = []
    for (const [i, verdict] of verdicts.entries()) {
      if (verdict.kind === 'ours') tasks.push(verdict.task)
      else refused.push({ key: places[i]?.key ?? '', verdict })
    }
    this.#held.add(
      at,
      req,
      stamp,
      tasks.map(({ key }) => key),
      askedMs,
      leaseMs,
    )
    const poisoned = [...lost.poisoned]
    if (refused.length > 0) {
      const settlements = refused.map(({ key }) => ({ key, stamp, outcome: DONE }))
      const again = refused.flatMap(({ key, verdict }) => this.#again(at, key, verdict, nowMs))
      await this.#hintWriter.all([
        table.settle(at, settlements),
        ...this.#hintWriter.putting(at.topic, again),
      ])
      for (const { key, verdict } of refused) {
        if (verdict.kind === 'poison') poisoned.push(key)
        if (verdict.kind === 'damaged') logger.error({ topic: at.topic, key }, verdict.error)
      }
    }
    this.#topicFillers.fillerOf(at.topic)?.nudge()
    const nextLeaseEndInMs = this.#leaseEndInMs(at, rung.nextLeaseEndInMs)
    return { ...rung, tasks, rescued: lost.rescued, poisoned, nextLeaseEndInMs }
  }

  async look(at: CellAddress): Promise<Look> {
    const { ringInMs, leaseEndInMs } = await this.#table.look(at)
    return { ringInMs, leaseEndInMs: this.#leaseEndInMs(at, leaseEndInMs) }
  }

  begin({ topic, cell }: CellAddress, key: string, stamp: number): Promise<boolean> {
    return this.#parts.ledger.begin(topic, { key, cell }, stamp)
  }

  /** Ledger first: only its word prolongs the holder's trust. */
  async extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    const { ledger, clock } = this.#parts
    const claim = this.#held.of(at, req)
    if (claim === undefined) return 'stale'
    const askedMs = clock.monotonicNow()
    const places = placesOfClaim(claim)
    // Should the lease have become shorter, the ledger may hold us to that though its answer is lost.
    claim.sureUntilMs = Math.min(claim.sureUntilMs, askedMs + leaseMs)
    claim.extending++
    const extension = ledger.extend(at.topic, places, claim.stamp, leaseMs)
    const answers = await extension.finally(() => claim.extending--)
    if (answers.every((answer) => answer === 'stale')) return 'stale'
    const keys = places.map(({ key }) => key)
    this.#held.extended(claim, keys, answers, askedMs, leaseMs)
    // Not lost: asked for again, for as long as it is trusted.
    if (!answers.includes('extended'))
      throw new TocsinError(
        'ledger-unavailable',
        'extend: somebody else has a transaction open on this task; its lease could not be prolonged yet',
      )
    if (!claim.isParted)
      await this.#hintWriter.told(this.#table.extend(at, req, leaseMs + TABLE_LEASE_EXTRA_MS))
    return 'extended'
  }

  /** Settles in the ledger first. If the process dies before the timetable is updated, the entry rings once more and is refused. */
  async settle(
    at: CellAddress,
    settlements: readonly Settlement[],
    session: number | null = null,
  ): Promise<SettleAnswer[]> {
    const { topic, cell } = at
    const own = this.sessionOf(cell)
    const answers = await this.#parts.ledger.settle(
      topic,
      settlements.map((one) => ({ ...one, cell })),
      session ?? own,
    )
    // A claim of another process may have the same stamp as one of ours, which must not be taken for settled.
    if (session === null || session === own) await this.#tellSettled(at, settlements, answers)
    else if (this.#hintWriter.isRungHere(topic)) await this.#hintWriter.settled(at, settlements, answers)
    if (session !== null) await this.#hintWriter.returned(topic, settlements, answers)
    return answers.map(({ answer }) => answer)
  }

  sessionOf(cell: number): number {
    return this.#parts.ledger.sessionOf(cell)
  }

  /**
   * A timetable of this process alone hears nothing of what is settled through others: it would hold a task for as long as
   * its lease was to last, though it waits again. It lets go, and what the ledger is looked at for brings it back.
   */
  async handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void> {
    this.#held.handedOut(at, stamp)
    if (!this.#topicFillers.isLookedAt) return
    const settlements = keys.map((key) => ({ key, stamp, outcome: DONE }))
    await this.#hintWriter.told(this.#table.settle(at, settlements))
  }

  /**
   * The timetable has one lease for all of a claim, and is told of it only where all of it was prolonged: one that nobody
   * prolongs would otherwise be held there for as long as another is. So its lease ends, the others ring in vain, and
   * then at the end of their own.
   */
  readonly extendKeys: ExtendKeys = async ({ session, req, stamp }, at, keys, leaseMs) => {
    const { ledger } = this.#parts
    const places = keys.map((key) => ({ key, cell: at.cell }))
    const asking = () => ledger.extend(at.topic, places, stamp, leaseMs, session)
    const claim = session === this.sessionOf(at.cell) ? this.#held.of(at, req) : undefined
    // Of another process, or prolonged through one before: nobody here watches over its lease.
    if (claim?.stamp !== stamp) return asking()
    claim.extending++
    const answers = await asking().finally(() => claim.extending--)
    if (this.#held.prolonged(claim, keys, answers, leaseMs))
      await this.#hintWriter.told(this.#table.extend(at, req, leaseMs + TABLE_LEASE_EXTRA_MS))
    return answers
  }

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

  async replay(topic: string, places: readonly Place[]): Promise<('replayed' | 'live' | 'not-found')[]> {
    const answers = await this.#parts.ledger.replay(topic, places)
    await this.#hintWriter.place(topic, answers)
    return answers.map(({ outcome }) => outcome)
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return this.#parts.ledger.purge(topic, places)
  }

  nowMs(): Promise<number> {
    return this.#table.nowMs()
  }

  /** Whoever consumes a topic has its near tasks loaded; whoever only writes to it has not. */
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
    await Promise.all([this.#transactionWatch.close(), this.#hintWriter.arrived()])
    await this.#table.close()
    await this.#parts.ledger.close()
  }

  async #tellSettled(
    at: CellAddress,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ): Promise<void> {
    await this.#hintWriter.settled(at, settlements, answers)
    for (const { key, stamp } of settlements) this.#held.settled(at, stamp, key)
  }

  /** By our own claims where we have any: the timetable's last longer. */
  #leaseEndInMs(at: CellAddress, inTableMs: number | null): number | null {
    const endMs = this.#held.nextEndMs(at)
    return endMs === null ? inTableMs : Math.max(0, endMs - this.#parts.clock.monotonicNow())
  }

  #withSpare(table: HintTable, makeSpare: () => HintTable): FailoverTable {
    const { logger, clock } = this.#parts
    return new FailoverTable(table, makeSpare, clock, {
      onAway: (spare, error) => {
        logger.warn({ error }, 'the timetable is away: the ledger rings until it is back')
        this.#topicFillers.fillSpare(spare)
      },
      onBack: (untold) => this.#topicFillers.reconcile(untold),
      onOver: () => {
        logger.info({}, 'the timetable is back, and has all that the ledger has')
        this.#topicFillers.leaveSpare()
      },
    })
  }

  /** Claims of ours whose lease is over: nobody settled them, and they are nobody's now. */
  async #rescue(at: CellAddress): Promise<{ rescued: number; poisoned: string[] }> {
    const { ledger, clock, random } = this.#parts
    const table = this.#table
    const poisoned: string[] = []
    let rescued = 0
    let spread = random.fraction()
    for (const { claim, keys } of this.#held.expired(at, clock.monotonicNow()).slice(0, RESCUES_PER_CLAIM)) {
      const { stamp } = claim
      const lost = keys.map((key) => {
        spread = nextSpread(spread)
        return { key, cell: at.cell, stamp, outcome: { kind: 'lost', spread } as const }
      })
      const answers = await ledger.settle(at.topic, lost)
      this.#held.lost(claim, keys)
      const hints = answers.flatMap(({ hint }) => hint ?? [])
      // Not the stale ones: they were replaced, settled just now, or prolonged through another process, and what the
      // timetable has of them is newer.
      const gone = lost.filter((_, i) => answers[i]?.answer === 'settled' && answers[i]?.hint === null)
      await this.#hintWriter.all([table.drop(at.topic, gone), ...this.#hintWriter.putting(at.topic, hints)])
      rescued += hints.length
      for (const [i, { poison }] of answers.entries())
        if (poison !== undefined) poisoned.push(lost[i]?.key ?? '')
    }
    return { rescued, poisoned }
  }

  /** Where a key that rang in vain is to ring again. */
  #again(
    { cell }: CellAddress,
    key: string,
    verdict: Exclude<ClaimVerdict, { kind: 'ours' }>,
    nowMs: number,
  ): Hint[] {
    if (verdict.kind === 'later' || verdict.kind === 'suspect') return [verdict.hint]
    // Where the ledger is looked at every second, it is found again when its lease is over.
    if (verdict.kind !== 'held' || this.#topicFillers.isLookedAt) return []
    const ringMs = Math.ceil(nowMs + verdict.leaseEndInMs)
    return [{ key, cell, ringMs, failures: 0, priority: 'normal', isSuspect: false }]
  }

  #settingsOf(topic: string): Settings {
    return this.#settings.get(topic)?.() ?? settingsOf(DEFAULT_CONFIG, `topic '${topic}'`)
  }

  #report(doing: string, error: unknown): void {
    this.#logLimiter.log((alsoFailed) =>
      this.#parts.logger.error(
        { doing, error, alsoFailed },
        'the ledger or its timetable failed; it will be tried again',
      ),
    )
  }
}
