import { type Clock, sleep } from '../../clock.ts'
import type {
  ClaimVerdict,
  ExtendAnswer,
  HandlerTransaction,
  Ledger,
  LedgerClaimRequest,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettings,
  LedgerSettled,
  LedgerSettlement,
  LedgerTransaction,
  Loaded,
  Recount,
  Retention,
  TopicCreated,
} from '../../ledger.ts'
import type {
  Books,
  CancelAnswer,
  CellAddress,
  Counts,
  EntryView,
  ListQuery,
  NewEntry,
  Place,
  Replayable,
  Selection,
} from '../../timetable.ts'
import type { OnConflict } from '../../task.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Frontier, Hint } from '../../hint-table.ts'
import { byteSizeOf } from '../../lib/byte-size.ts'
import { groupBy } from '../../lib/group-by.ts'
import {
  type BatchAnswer,
  type BatchKind,
  type Batcher,
  Failure,
  Later,
  type SendBatch,
} from '../../lib/batcher.ts'
import { PostgresBoard } from './board.ts'
import type { Database, StatementCall } from './database.ts'
import type { HandlerTransactions } from './handler-transactions.ts'
import type { Listener } from './listener.ts'
import { Readings } from './readings.ts'
import type { CallerTransactions } from './caller-transactions.ts'
import type { Topics } from './topics.ts'
import { isLockTimeout, toTocsinError, tooLateAt } from './driver-errors.ts'
import { TOPICS } from './statements/topics.ts'
import { UPKEEP } from './statements/upkeep.ts'
import { WRITES } from './statements/writes.ts'
import type { Statement } from './statements/statement.ts'
import type { StatementRunner } from './statement-runner.ts'
import type { ClaimGroup, ClaimWrites } from './claim-writes.ts'
import type { ExtendItem, TopicName, Writes } from './writes.ts'

export interface PostgresParts {
  readonly id: string
  readonly database: Database
  readonly writes: Writes
  readonly claims: ClaimWrites
  readonly batcher: Batcher
  readonly transactions: CallerTransactions
  readonly handlers: HandlerTransactions
  readonly listener: Listener
  readonly topics: Topics
  readonly clock: Clock
  readonly close: () => Promise<void>
}

/**
 * The number of statement queues of a topic, for each `way` of a step. The steps of a key with the same way always use the
 * same queue, so they keep their order. More queues would mean smaller batches and more statements: in a steady flow, single
 * claims and settlements share statements. A large batch is sent beside another one of its queue (lib/batcher.ts). Writes have
 * two queues, because a row that another transaction has locked delays the small batches behind it. The numbers must be powers
 * of two.
 */
const QUEUES = { write: 2, claim: 1, extend: 1, settle: 1 } as const

/** The delay before a step is retried if another transaction has locked its row. */
const LOCKED_MS = 50
const STALE: LedgerSettled = { answer: 'stale', hint: null }

/** The maximum age of a reading of PostgreSQL's clock. The clock is read again if the last reading is older. */
const CLOCK_AGE_MAX_MS = 5_000

type Work<I, A> = (
  runner: StatementRunner,
  topic: TopicName,
  items: readonly I[],
) => Promise<readonly (A | Later<A>)[]>

/** The ledger of many processes. Calls that are made at the same time share one statement, and so one commit. */
export class PostgresLedger implements Ledger {
  readonly isShared = true
  readonly id: string
  /** The board in this database. A ledger over several databases uses the board of the first database. */
  readonly board: PostgresBoard
  readonly #parts: PostgresParts
  readonly #readings: Readings
  #isReadingClock = false
  /** The cached batch kinds, by topic, kind of step and variant. Steps of one batch kind may share a statement. */
  readonly #kinds = new Map<string, readonly BatchKind<never, unknown>[]>()

  constructor(parts: PostgresParts) {
    this.#parts = parts
    this.id = parts.id
    const { database, listener } = parts
    this.board = new PostgresBoard(database, listener)
    this.#readings = new Readings((text, values) => database.ask('read', text, values))
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<LedgerScheduled[]> {
    const { writes, batcher } = this.#parts
    const kindsOf = (onConflict: OnConflict) =>
      this.#kindsOf<NewEntry, LedgerScheduled>(
        {
          topic,
          doing: 'schedule',
          variant: `${onConflict}/${mergeMs}`,
          way: 'write',
          makesTopic: true,
          isRepeatable: false,
        },
        (runner, of, items) => writes.schedule(runner, of, items, mergeMs),
        ({ body }) => byteSizeOf(body),
      )
    // One batch must be one statement. 'keep' and 'replace' are two: if only the second one failed, the batch would be
    // sent again, and its first part would take effect twice.
    const kinds = { keep: kindsOf('keep'), replace: kindsOf('replace') }
    return batcher.add(entries, ({ cell, onConflict }) => kindOf(kinds[onConflict], cell))
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    const { writes } = this.#parts
    return this.#batched<Place, CancelAnswer>(
      { topic, doing: 'cancel', way: 'write', isRepeatable: false },
      places,
      (runner, of, items) => writes.cancel(runner, of, items),
    )
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    const { writes } = this.#parts
    return this.#batched<Place, LedgerRescheduled>(
      {
        topic,
        doing: 'reschedule',
        variant: `${when.kind}/${when.ms}/${mergeMs}`,
        // The variant is not cached, because nearly every call has a different time.
        isOneOff: true,
        way: 'write',
        isRepeatable: false,
      },
      places,
      (runner, of, items) => writes.reschedule(runner, of, items, when, mergeMs),
    )
  }

  configure(topic: string, settings: () => LedgerSettings, created: TopicCreated): void {
    this.#parts.topics.configure(topic, settings, created)
  }

  within(tx: unknown): LedgerTransaction {
    return this.#parts.transactions.within(tx)
  }

  async claim(topic: string, request: LedgerClaimRequest, places: readonly Place[]): Promise<ClaimVerdict[]> {
    const { claims, batcher, topics } = this.#parts
    const kinds = this.#kindsOf<ClaimGroup, ClaimVerdict[]>(
      { topic, doing: 'claim', way: 'claim', isRepeatable: true },
      (runner, of, groups) => claims.claim(runner, of, groups, topics.hasFastClaims(topic)),
      (group) => claims.bytesOf(topic, group),
    )
    const byCell = groupBy(places.keys(), (nth) => (places[nth] as Place).cell)
    const groups = Array.from(byCell, ([cell, indexes]) => ({
      key: `${cell}/${request.stamp}`,
      cell,
      keys: indexes.map((nth) => (places[nth] as Place).key),
      ...request,
    }))
    const answers = await batcher.add(groups, ({ cell }) => kindOf(kinds, cell))
    const [only] = answers
    // A claim call of a consumer is about one cell.
    if (only !== undefined && answers.length === 1) return only
    const verdicts = new Array<ClaimVerdict>(places.length)
    for (const [at, indexes] of [...byCell.values()].entries())
      for (const [n, nth] of indexes.entries()) verdicts[nth] = answers[at]?.[n] as ClaimVerdict
    return verdicts
  }

  async begin(topic: string, place: Place, stamp: number): Promise<boolean> {
    const { writes, database, clock } = this.#parts
    const id = await this.#seen(topic)
    const runner = database.runner({
      doing: 'begin',
      deadlineMs: database.deadlineMs(),
      isRepeatable: true,
    })
    // If the row is locked, this loop polls. A statement that waits inside PostgreSQL could record the start after the
    // caller has given up. The deadline of the call ends the loop.
    for (;;) {
      const answer = await writes.begin(runner, { id, name: topic }, place, stamp)
      if (answer !== 'locked') return answer === 'begun'
      await sleep(clock, LOCKED_MS)
    }
  }

  sessionOf(_cell: number): number {
    return this.#parts.writes.session
  }

  extend(
    topic: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    session = this.#parts.writes.session,
  ): Promise<ExtendAnswer[]> {
    const writes = this.#parts.writes.as(session)
    return this.#batched<ExtendItem, ExtendAnswer>(
      { topic, doing: 'extend', ...this.#variantFor(session), way: 'extend', isRepeatable: true },
      places.map(({ key, cell }) => ({ key, cell, stamp, leaseMs })),
      (runner, of, some) => writes.extend(runner, of, some),
    )
  }

  /** Settles the tasks. If a key occurs twice, the answer to its second settlement is 'stale'. */
  settle(
    topic: string,
    settlements: readonly LedgerSettlement[],
    session = this.#parts.writes.session,
  ): Promise<LedgerSettled[]> {
    const writes = this.#parts.writes.as(session)
    return this.#batched<LedgerSettlement, LedgerSettled>(
      { topic, doing: 'settle', ...this.#variantFor(session), way: 'settle', isRepeatable: true },
      settlements,
      (runner, of, items) => this.#settle(writes, runner, of, items),
    )
  }

  transact(
    work: (transaction: HandlerTransaction) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<boolean> {
    return this.#parts.handlers.run(work, signal)
  }

  replay(topic: string, places: readonly Place[], which: Replayable = 'any'): Promise<LedgerReplayed[]> {
    const { writes } = this.#parts
    return this.#batched<Place, LedgerReplayed>(
      { topic, doing: 'replay', variant: which, way: 'write', isRepeatable: false },
      places,
      (runner, of, items) => writes.replay(runner, of, items, which),
    )
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    const { writes } = this.#parts
    return this.#batched<Place, 'purged' | 'not-found'>(
      // What is purged is gone for ever. So a lost reply must not be told as an error that says that nothing happened.
      { topic, doing: 'purge', way: 'write', isRepeatable: false },
      places,
      (runner, of, items) => writes.purge(runner, of, items),
    )
  }

  async load(topic: string, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded> {
    // A process that loads a topic consumes the topic. So the process stores how keys are assigned to cells, for the
    // SQL functions that write tasks of the topic.
    await this.#parts.topics.announce(topic)
    return this.#readings.load(await this.#seen(topic), after, untilMs, limit)
  }

  async hints(topic: string, places: readonly Place[]): Promise<(Hint | null)[]> {
    return this.#readings.hints(await this.#seen(topic), places)
  }

  async get(topic: string, place: Place): Promise<EntryView | null> {
    return this.#readings.get(topic, await this.#agreed(topic), place)
  }

  async list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return this.#readings.list(topic, await this.#seen(topic), query)
  }

  async find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#readings.find(await this.#seen(at.topic), at, among, what, cursor)
  }

  async counts(topic: string): Promise<Counts> {
    return this.#readings.counts(await this.#seen(topic))
  }

  async forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    return this.#readings.forecast(await this.#seen(topic), fromMs, toMs, stepMs)
  }

  async books(topic: string): Promise<Books> {
    return this.#readings.books(await this.#seen(topic))
  }

  async recount(topic: string): Promise<{ books: Books; counted: Recount }> {
    return this.#readings.recount(await this.#seen(topic))
  }

  async topics(): Promise<string[]> {
    const rows = await this.#parts.database.ask('topics', TOPICS.list.text)
    return (rows as [string][]).map(([name]) => name)
  }

  async forget(
    topic: string,
    { endedBeforeMs, deadBeforeMs, deadMax, limit }: Retention,
  ): Promise<{ ended: number; dead: number }> {
    const id = await this.#seen(topic)
    const forget = async (statement: Statement, values: readonly unknown[]) => {
      const [row] = await this.#parts.database.ask('forget', statement.text, [id, ...values])
      return Number(row?.[0] ?? 0)
    }
    let ended = await forget(WRITES.forgetEnded, [endedBeforeMs, limit])
    if (ended < limit) ended += await forget(WRITES.forgetBatches, [endedBeforeMs, limit - ended])
    const dead = ended < limit ? await forget(WRITES.forgetDead, [deadBeforeMs, deadMax, limit - ended]) : 0
    await this.#parts.database.ask('books', UPKEEP.mergeBooks.text, [id])
    return { ended, dead }
  }

  async nowMs(): Promise<number> {
    const [row] = await this.#parts.database.ask('time', UPKEEP.now.text)
    const nowMs = row?.[0] as number
    this.#parts.database.recordClock.heard(nowMs)
    return nowMs
  }

  clockMs(): number {
    const { recordClock } = this.#parts.database
    // The clock is read again, because PostgreSQL's clock may have been set after the last reading.
    if (recordClock.ageMs() > CLOCK_AGE_MAX_MS && !this.#isReadingClock) void this.#readClock()
    return recordClock.now()
  }

  async #readClock(): Promise<void> {
    this.#isReadingClock = true
    await this.nowMs().catch(() => {})
    this.#isReadingClock = false
  }

  async committedWrites(topic: string): Promise<Place[]> {
    const rows = await this.#parts.database.ask('news', UPKEEP.takeFeed.text, [await this.#seen(topic)])
    return (rows as [number, string][]).map(([cell, key]) => ({ cell, key }))
  }

  listen(onNear: (topic: string | null) => void): () => void {
    return this.#parts.listener.listen(onNear)
  }

  close(): Promise<void> {
    return this.#parts.close()
  }

  /** Returns the id of the topic, or -1, the id of no row, if the topic does not exist yet. */
  async #seen(topic: string): Promise<number> {
    return (await this.#parts.topics.seen(topic)) ?? -1
  }

  /**
   * Like `#seen`, for calls that look up keys by cell. Throws if the topic's stored `slotBy` differs from the `slotBy`
   * of this program, because the keys would then be looked up in the wrong cells.
   */
  async #agreed(topic: string): Promise<number> {
    return (await this.#parts.topics.agreed(topic)) ?? -1
  }

  /**
   * Returns the topic of a step. Creates the topic only if the step schedules tasks. Other steps on a topic that does
   * not exist find no task.
   */
  async #topicOf({ topic, way, makesTopic = false }: Batching): Promise<TopicName> {
    if (makesTopic) return this.#parts.topics.placed(topic)
    return { id: await (way === 'write' ? this.#agreed(topic) : this.#seen(topic)), name: topic }
  }

  async #settle(
    writes: Writes,
    runner: StatementRunner,
    topic: TopicName,
    settlements: readonly LedgerSettlement[],
  ): Promise<(LedgerSettled | Later<LedgerSettled>)[]> {
    const answers = await writes.settle(runner, topic, settlements).catch((error: unknown) => {
      if (!isLockTimeout(error)) throw error
      // One locked row must not delay the outcomes of the other tasks, nor keep a connection waiting.
      return writes.settleUnlocked(runner, topic, settlements)
    })
    const waiting: Waiting[] = []
    const all = answers.map((answer, i) => {
      if (answer !== null) return answer
      const settlement = settlements[i] as LedgerSettlement
      // A lost lease need not wait for the row lock, because a periodic search for overdue tasks will find the expired
      // lease again.
      if (settlement.outcome.kind === 'lost') return STALE
      const later = new Promise<LedgerSettled>((resolve, reject) =>
        waiting.push({ settlement, resolve, reject }),
      )
      return new Later(later)
    })
    if (waiting.length > 0) void this.#settleLater(writes, runner, topic, waiting)
    return all
  }

  /**
   * Retries the settlements of tasks whose rows another transaction has locked. The statements have the deadline of the
   * call, so the deadline ends the loop.
   */
  async #settleLater(
    writes: Writes,
    runner: StatementRunner,
    topic: TopicName,
    waiting: readonly Waiting[],
  ): Promise<void> {
    const { clock } = this.#parts
    let open = waiting
    try {
      while (open.length > 0) {
        await sleep(clock, LOCKED_MS)
        const settlements = open.map(({ settlement }) => settlement)
        const answers = await writes.settleUnlocked(runner, topic, settlements).catch((error: unknown) => {
          // The dead task of a key may be locked, too.
          if (isLockTimeout(error)) return settlements.map(() => null)
          throw error
        })
        for (const [i, answer] of answers.entries()) if (answer !== null) open[i]?.resolve(answer)
        open = open.filter((_, i) => (answers[i] ?? null) === null)
      }
    } catch (error) {
      for (const { reject } of open) reject(error)
    }
  }

  /**
   * Returns the variant of a step that extends or settles claims of a session. Each session has its own variant,
   * because a statement can only extend or settle claims of one session. The variant of another session is not cached,
   * because few calls will use it.
   */
  #variantFor(session: number): Pick<Batching, 'variant' | 'isOneOff'> {
    return session === this.#parts.writes.session ? {} : { variant: `${session}`, isOneOff: true }
  }

  #batched<I extends Place, A>(
    of: Batching,
    items: readonly I[],
    work: Work<I, A>,
    bytesOf?: (item: I) => number,
  ): Promise<A[]> {
    const kinds = this.#kindsOf(of, work, bytesOf)
    return this.#parts.batcher.add(items, ({ cell }) => kindOf(kinds, cell))
  }

  #kindsOf<I, A>(
    of: Batching,
    work: Work<I, A>,
    bytesOf: ((item: I) => number) | undefined,
  ): readonly BatchKind<I, A>[] {
    const name = `${of.doing}/${of.variant ?? ''}`
    const id = `${of.topic}/${name}`
    const known = this.#kinds.get(id)
    if (known !== undefined) return known as unknown as readonly BatchKind<I, A>[]
    const { batcher } = this.#parts
    const queues = batcher.queuesOf(of.topic, of.way, QUEUES[of.way])
    const send: SendBatch<I, A> = async (_, items, deadlineMs) => {
      const topic = await this.#topicOf(of)
      return this.#halving(of, items, deadlineMs, (runner, some) => work(runner, topic, some))
    }
    const kinds = batcher.kindsOf<I, A>(queues, name, send, bytesOf)
    if (of.isOneOff !== true) this.#kinds.set(id, kinds as readonly BatchKind<never, unknown>[])
    return kinds
  }

  /**
   * Runs a statement that may say that it came too late. Then it wrote nothing. If the deadline has not passed, our
   * estimate of PostgreSQL's time was behind: PostgreSQL's clock was set, or another server took over. The answer had
   * PostgreSQL's time, so the statement is sent again, once.
   */
  async #inTime<T>(call: StatementCall, work: (runner: StatementRunner) => Promise<T>): Promise<T> {
    const { database } = this.#parts
    try {
      return await work(database.runner(call))
    } catch (error) {
      if (tooLateAt(error) === null) throw error
    }
    return work(database.runner(call)).catch((error: unknown) => {
      throw tooLateAt(error) === null
        ? error
        : toTocsinError(error, database.where, call.doing, call.isRepeatable, true)
    })
  }

  /**
   * Runs a batch. If another transaction has locked a row of the batch, splits the batch in halves until only that row
   * waits for the lock.
   */
  async #halving<I, A>(
    of: Batching,
    items: readonly I[],
    deadlineMs: number,
    work: (runner: StatementRunner, items: readonly I[]) => Promise<readonly (A | Later<A>)[]>,
  ): Promise<readonly BatchAnswer<A>[]> {
    const { database } = this.#parts
    const { doing, isRepeatable, way } = of
    const call = { doing, deadlineMs, isRepeatable, isExpiring: way === 'write' }
    try {
      return await this.#inTime(call, (runner) => work(runner, items))
    } catch (error) {
      if (!isLockTimeout(error)) throw error
    }
    if (items.length === 1) {
      const alone = this.#inTime({ ...call, isPatient: true }, (runner) => work(runner, items)).then(
        ([answer]) => answer as A,
        (error: unknown) => {
          throw toTocsinError(error, database.where, doing, isRepeatable, true)
        },
      )
      return [new Later(alone)]
    }
    const half = items.length >> 1
    const halves = [items.slice(0, half), items.slice(half)].map((some) =>
      // If one half fails, the other half may still be written. So the error answers only the tasks of the failed half.
      this.#halving(of, some, deadlineMs, work).catch((error: unknown) => some.map(() => new Failure(error))),
    )
    return (await Promise.all(halves)).flat()
  }
}

/** A settlement that waits because another transaction has locked the row of its task. */
interface Waiting {
  readonly settlement: LedgerSettlement
  readonly resolve: (answer: LedgerSettled) => void
  readonly reject: (error: unknown) => void
}

/** Returns the batch kind of a cell. The cells of a topic are divided among its queues. */
function kindOf<I, A>(kinds: readonly BatchKind<I, A>[], cell: number): BatchKind<I, A> {
  return kinds[cell & (kinds.length - 1)] as BatchKind<I, A>
}

/**
 * The properties of a step that decide its batch. Steps with the same topic, `doing` and `variant` may share a
 * statement.
 */
interface Batching {
  readonly topic: string
  /** The kind of step, which is also named in error messages. */
  readonly doing: 'schedule' | 'cancel' | 'reschedule' | 'claim' | 'extend' | 'settle' | 'replay' | 'purge'
  /**
   * The parameters that a statement has only once for all of its tasks, such as `mergeMs`. Steps with different values
   * cannot share a statement.
   */
  readonly variant?: string
  /** True if the variant is not cached, because few calls will have it. */
  readonly isOneOff?: boolean
  /**
   * The group of queues that the step uses. Steps of the same way keep their order. Steps of different ways do not wait
   * for each other.
   */
  readonly way: 'write' | 'claim' | 'extend' | 'settle'
  /** True if the step creates a missing topic and makes the stored `slotBy` of the topic final. */
  readonly makesTopic?: boolean
  /** True if the step may be sent again after a lost answer. */
  readonly isRepeatable: boolean
}
