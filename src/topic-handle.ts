import { CHANGES_KEPT } from './board.ts'
import { atIndex, CHUNK, pipelined, placesOf, slicesOf } from './bulk.ts'
import { ALL_CELLS, cellOf } from './cell.ts'
import type { ConfigView, LiveConfig } from './config.ts'
import { startConsumer } from './consume.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { durationMs } from './duration.ts'
import { type Json, describeValue, TocsinError } from './errors.ts'
import { InOrder } from './in-order.ts'
import { instantMs, LAST_INSTANT_MS } from './instant.ts'
import { checkKey, checkPrefix, checkTag } from './key.ts'
import { positionOf } from './list-position.ts'
import { ringTime, shiftTime } from './new-entry.ts'
import { badOption, checkOptions, needsLedger, wholeNumber } from './options.ts'
import { decodePayload } from './payload.ts'
import {
  type BatchHandler,
  type Handler,
  performBatch,
  performOne,
  type TransactionBatchHandler,
  type TransactionHandler,
} from './runtime/performer.ts'
import { openDesk } from './pull.ts'
import type { PullDesk } from './runtime/pull-desk.ts'
import { Scheduler } from './scheduler.ts'
import { decodeBody, inTime } from './schema.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, State, TaskInfo, When } from './task.ts'
import type { StoreTransaction, TaskStore } from './store.ts'
import type { CancelAnswer, EntryView, Place, RescheduleAnswer, RingTime, Selection } from './timetable.ts'
import type { TopicDefinition } from './topic.ts'
import type {
  BulkOptions,
  BulkScheduled,
  By,
  ConfigChange,
  Consumer,
  ConsumeOptions,
  ForecastOptions,
  ListOptions,
  Selector,
  Shift,
  Topic,
  WriteOptions,
} from './topic-api.ts'
import type { TopicParts } from './topic-parts.ts'

const PAGE_SIZE = 100
const PAGE_SIZE_MAX = 1_000
const FORECAST_STEPS_MAX = 10_000
const ENDED: readonly State[] = ['done', 'cancelled', 'obsolete']
const STATES: readonly State[] = ['pending', 'claimed', 'dead', ...ENDED]

/** What `toc.topic(…)` returns: checks what comes in, asks the timetable, shapes what goes out. */
export class TopicHandle<In, Out> implements Topic<In, Out> {
  readonly name: string
  #definition: TopicDefinition<In, Out>
  readonly #parts: TopicParts
  readonly #order = new InOrder()
  #scheduler: Scheduler<In>
  #desk: PullDesk | null = null

  constructor(definition: TopicDefinition<In, Out>, parts: TopicParts) {
    this.name = definition.name
    this.#definition = definition
    this.#parts = parts
    this.#scheduler = new Scheduler(definition, parts, this.#order)
  }

  get definition(): TopicDefinition<In, Out> {
    return this.#definition
  }

  /** It was used by its name alone; now its schema and settings are known. */
  declare(definition: TopicDefinition<In, Out>): void {
    this.#parts.settings.declare(definition.config)
    this.#definition = definition
    this.#scheduler = new Scheduler(definition, this.#parts, this.#order)
  }

  /** For servers, whose clients have no code here: see `TopicSettings.declareForAll`. */
  async declareForAll(config: unknown): Promise<ConfigView> {
    this.#parts.checkOpen()
    return this.#parts.settings.declareForAll(config)
  }

  /** Not `async`, as `cancel` is not: a promise and a turn less, where calls come by the hundred thousand. */
  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled> {
    if (options !== undefined)
      return this.#write(
        options,
        (tx) => this.#scheduler.oneWithin(tx, task),
        () => this.#scheduler.one(task),
        { makes: true },
      )
    try {
      this.#parts.checkOpen()
      this.#bring()
      return this.#onceCreated(() => this.#scheduler.one(task))
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  scheduleMany(tasks: readonly NewTask<In>[], options?: WriteOptions): Promise<Scheduled[]>
  scheduleMany(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled>
  scheduleMany(
    tasks: readonly NewTask<In>[] | Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>,
    options?: WriteOptions,
  ): Promise<Scheduled[] | BulkScheduled> {
    const isArray = Array.isArray(tasks)
    return this.#write<Scheduled[] | BulkScheduled>(
      options,
      (tx) => {
        if (isArray) return this.#scheduler.arrayWithin(tx, tasks as readonly NewTask<In>[])
        throw badOption(
          'tasks',
          'in a transaction, give an array: a stream may take longer than it should be open',
        )
      },
      async () => {
        if (isArray) return this.#scheduler.array(tasks as readonly NewTask<In>[])
        if (isLoopable(tasks)) return this.#scheduler.stream(tasks as Iterable<NewTask<In>>)
        throw badOption('tasks', `expected an array or something to loop over, got ${describeValue(tasks)}`)
      },
      { makes: true },
    )
  }

  cancel(key: string, options?: WriteOptions): Promise<Cancelled> {
    if (options !== undefined)
      return this.#write(
        options,
        (tx) => cancelled(key, tx.cancel(this.name, [this.#place(key)])),
        () => this.#cancelOne(key),
      )
    try {
      this.#parts.checkOpen()
      return this.#onceCreated(() => this.#cancelOne(key))
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]> {
    const within = (tx: StoreTransaction): Promise<Cancelled[]> => {
      const places = this.#places(keys)
      return tx
        .cancel(this.name, places)
        .then((answers) => places.map(({ key }, i) => ({ key, outcome: answers[i] ?? 'not-found' })))
    }
    return this.#write(options, within, async () => {
      const places = this.#places(keys)
      const { clock } = this.#parts
      const write = async () => {
        const results: Cancelled[] = []
        const cancel = (chunk: readonly Place[]) => this.#placed().cancel(this.name, chunk)
        await pipelined(clock, slicesOf(places), cancel, (answers, chunk) => {
          for (const [i, { key }] of chunk.entries())
            results.push({ key, outcome: answers[i] ?? 'not-found' })
        })
        return results
      }
      return this.#order.run(write, places.length > CHUNK)
    })
  }

  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }> {
    const tally = { cancelled: 0, inFlight: 0 }
    const count = (answers: readonly CancelAnswer[]) => {
      tally.cancelled += answers.filter((answer) => answer === 'cancelled').length
      tally.inFlight += answers.filter((answer) => answer === 'in-flight').length
    }
    return this.#sweepAll(by, options, tally, {
      within: (tx, what) =>
        tx.cancelBy(this.name, this.#cellsOf(what), what).then((answers) => {
          count(answers)
          return answers.length
        }),
      step: async (places) => count(await this.#parts.store.cancel(this.name, places)),
    })
  }

  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled> {
    const time = () => {
      checkOptions(when, ['delay', 'at'], 'when')
      return ringTime(when, 'when')
    }
    const moved = (answers: Promise<RescheduleAnswer[]>): Promise<Rescheduled> =>
      answers.then(([answer]) => ({
        key,
        outcome: answer?.outcome ?? 'not-found',
        dueAt: dateOrNull(answer?.dueMs ?? null),
      }))
    return this.#write(
      options,
      (tx) => moved(tx.reschedule(this.name, [this.#place(key)], time(), this.#mergeMs)),
      () => {
        const [at, place] = [time(), this.#place(key)]
        return moved(this.#order.run(() => this.#move([place], at)))
      },
    )
  }

  rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options?: BulkOptions,
  ): Promise<{ rescheduled: number; inFlight: number }> {
    const time = () => {
      checkOptions(when, ['delay', 'at', 'shift'], 'when')
      return when.shift === undefined ? ringTime(when, 'when') : shiftTime(when)
    }
    const tally = { rescheduled: 0, inFlight: 0 }
    const count = (answers: readonly RescheduleAnswer[]) => {
      tally.rescheduled += answers.filter(({ outcome }) => outcome === 'rescheduled').length
      tally.inFlight += answers.filter(({ outcome }) => outcome === 'in-flight').length
    }
    return this.#sweepAll(by, options, tally, {
      check: () => void time(),
      within: (tx, what) =>
        tx.rescheduleBy(this.name, this.#cellsOf(what), what, time(), this.#mergeMs).then((answers) => {
          count(answers)
          return answers.length
        }),
      step: async (places) => count(await this.#move(places, time())),
    })
  }

  /** Resolves when every write called so far has taken effect. */
  async written(): Promise<void> {
    await this.#parts.settings.creating
    await this.#order.settled()
  }

  async get(key: string): Promise<TaskInfo<Out> | null> {
    this.#parts.checkOpen()
    const view = await this.#parts.store.get(this.name, this.#place(key))
    return view === null ? null : this.#info(view)
  }

  async list(options: ListOptions = {}): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }> {
    this.#parts.checkOpen()
    checkOptions(options, ['state', 'tag', 'prefix', 'dueFrom', 'dueTo', 'limit', 'cursor'], 'list')
    const { state, tag, prefix, dueFrom, dueTo, cursor } = options
    const limit = wholeNumber(options.limit ?? PAGE_SIZE, 1, PAGE_SIZE_MAX, 'limit')
    const views = await this.#parts.store.list(this.name, {
      state: this.#stateToList(state),
      tag: tag === undefined ? null : checkTag(tag),
      prefix: prefix === undefined ? null : checkPrefix(prefix),
      dueFromMs: dueFrom === undefined ? 0 : instantMs(dueFrom, 'dueFrom'),
      dueToMs: dueTo === undefined ? LAST_INSTANT_MS : instantMs(dueTo, 'dueTo'),
      limit,
      after: cursor === undefined || cursor === null ? null : decodeCursor(cursor),
    })
    const last = views.length === limit ? views.at(-1) : undefined
    return {
      tasks: await Promise.all(views.map((view) => this.#info(view))),
      cursor: last === undefined ? null : encodeCursor(positionOf(last)),
    }
  }

  async counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }> {
    this.#parts.checkOpen()
    return this.#parts.store.counts(this.name)
  }

  async forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]> {
    this.#parts.checkOpen()
    checkOptions(options, ['from', 'to', 'step'], 'forecast')
    const { store } = this.#parts
    const fromMs = options.from === undefined ? await store.nowMs() : instantMs(options.from, 'from')
    const toMs = instantMs(options.to, 'to')
    const stepMs = durationMs(options.step ?? '1m', 'step')
    if (toMs <= fromMs)
      throw new TocsinError('bad-time', "forecast: 'to' is not after 'from'", { field: 'to' })
    if (stepMs < 1 || (toMs - fromMs) / stepMs > FORECAST_STEPS_MAX)
      throw badOption('step', `too fine for this span; at most ${FORECAST_STEPS_MAX} steps`)
    const steps = await store.forecast(this.name, fromMs, toMs, stepMs)
    return steps.map((due, i) => ({ at: new Date(fromMs + i * stepMs), due }))
  }

  async config(): Promise<ConfigView> {
    this.#parts.checkOpen()
    return this.#parts.settings.view()
  }

  async configure(
    patch: LiveConfig,
    options: { readonly ifVersion?: number | undefined } = {},
  ): Promise<ConfigView> {
    this.#parts.checkOpen()
    checkOptions(options, ['ifVersion'], 'configure')
    return this.#parts.settings.configure(patch, options.ifVersion)
  }

  async configHistory(options: { readonly limit?: number | undefined } = {}): Promise<ConfigChange[]> {
    this.#parts.checkOpen()
    checkOptions(options, ['limit'], 'configHistory')
    const limit = wholeNumber(options.limit ?? CHANGES_KEPT, 1, CHANGES_KEPT, 'limit')
    const changes = await this.#parts.cluster.configs.history(this.name, limit)
    return changes.map(({ version, atMs, by, patch }) => ({
      version,
      at: new Date(atMs),
      by,
      patch: structuredClone(patch) as Record<string, Json>,
    }))
  }

  async pause(): Promise<void> {
    this.#parts.checkOpen()
    await this.#parts.settings.pause(true)
  }

  async resume(): Promise<void> {
    this.#parts.checkOpen()
    await this.#parts.settings.pause(false)
  }

  consume(handler: Handler<Out> | TransactionHandler<Out>, options: ConsumeOptions<Out> = {}): Consumer {
    const performer = performOne(handler as Handler<Out>)
    return startConsumer(() => this.#definition, this.#parts, handler, performer, options, false)
  }

  consumeBatch(
    handler: BatchHandler<Out> | TransactionBatchHandler<Out>,
    options: ConsumeOptions<Out> = {},
  ): Consumer {
    const performer = performBatch(handler as BatchHandler<Out>)
    return startConsumer(() => this.#definition, this.#parts, handler, performer, options, true)
  }

  /** @internal As a stream of which each task is checked by itself. */
  scheduleLenient: Scheduler<In>['lenient'] = async (pieces, onRefused, onScheduled) => {
    this.#parts.checkOpen()
    this.#bring()
    await this.#onceCreated(() => this.#scheduler.lenient(pieces, onRefused, onScheduled))
  }

  /** @internal For how long the oldest due task has waited to be taken. */
  async overdueMs(): Promise<number> {
    const { store } = this.#parts
    const query = {
      state: 'pending',
      tag: null,
      prefix: null,
      dueFromMs: 0,
      dueToMs: LAST_INSTANT_MS,
    } as const
    const [nowMs, [first]] = await Promise.all([
      store.nowMs(),
      store.list(this.name, { ...query, limit: 1, after: null }),
    ])
    return first === undefined ? 0 : Math.max(0, nowMs - first.ringMs)
  }

  /** @internal */
  get waitingClaims(): number {
    return this.#desk?.waitingCount ?? 0
  }

  /** @internal Where tasks are pulled by whoever is not in this process. */
  get desk(): PullDesk {
    this.#parts.checkOpen()
    return (this.#desk ??= openDesk(this.name, this.#parts))
  }

  readonly dead = {
    replay: async (which: Selector): Promise<{ replayed: number }> => {
      let replayed = 0
      await this.#eachDead(which, async (places) => {
        const answers = await this.#parts.store.replay(this.name, places)
        replayed += answers.filter((answer) => answer === 'replayed').length
      })
      return { replayed }
    },
    purge: async (which: Selector): Promise<{ purged: number }> => {
      let purged = 0
      await this.#eachDead(which, async (places) => {
        const answers = await this.#parts.store.purge(this.name, places)
        purged += answers.filter((answer) => answer === 'purged').length
      })
      return { purged }
    },
  }

  /** What is scheduled makes a topic, also by its name alone. */
  #bring(): void {
    const { settings } = this.#parts
    if (!settings.isUnknown || settings.creating !== null) return
    settings.create()
  }

  /** Another node may be creating the topic at this moment, and place its keys in another way: writes wait to hear. */
  #onceCreated<T>(write: () => Promise<T>): Promise<T> {
    const { creating } = this.#parts.settings
    return creating === null ? write() : creating.then(write)
  }

  /**
   * In the caller's transaction it is written at once: later it might be another one. But it is not called written before
   * it is known that its place is right.
   */
  #withinCreated<T>(written: Promise<T>): Promise<T> {
    const { settings } = this.#parts
    if (settings.creating === null) return written
    written.catch(() => {})
    return settings.creating.then(() => {
      settings.check()
      return written
    })
  }

  #move(places: readonly Place[], time: RingTime): Promise<RescheduleAnswer[]> {
    return this.#placed().reschedule(this.name, places, time, this.#parts.settings.current.mergeMs)
  }

  /** The store, when it is known by now that keys are placed as we believe: a write may have waited to hear. */
  #placed(): TaskStore {
    this.#parts.settings.check()
    return this.#parts.store
  }

  #cancelOne(key: string): Promise<Cancelled> {
    const place = this.#place(key)
    return cancelled(
      key,
      this.#order.run(() => this.#placed().cancel(this.name, [place])),
    )
  }

  get #mergeMs(): number {
    return this.#parts.settings.current.mergeMs
  }

  /**
   * What goes wrong inside a transaction of SQLite is thrown, not rejected: there nothing is awaited, and a throw undoes
   * it as a whole. Otherwise it is rejected, as anybody expects.
   */
  #write<T>(
    options: WriteOptions | undefined,
    within: (tx: StoreTransaction) => Promise<T>,
    alone: () => Promise<T>,
    { known, makes = false }: { readonly known?: readonly string[]; readonly makes?: boolean } = {},
  ): Promise<T> {
    let tx: StoreTransaction | null = null
    try {
      tx = this.#checkWrite(options, known)
      if (makes) this.#bring()
      return tx === null ? this.#onceCreated(alone) : this.#withinCreated(within(tx))
    } catch (error) {
      if (tx?.isSynchronous === true) throw error
      return Promise.reject(error as Error)
    }
  }

  /** Everything with a tag or a prefix: in one go within a transaction, else in pieces. */
  #sweepAll<T>(
    by: By,
    options: BulkOptions | undefined,
    tally: T,
    { check, within, step }: SweepSteps,
  ): Promise<T> {
    const checked = () => {
      checkProgress(options)
      check?.()
      return this.#selection(by, 'by')
    }
    return this.#write(
      options,
      (tx) =>
        within(tx, checked()).then((done) => {
          options?.onProgress?.(done)
          return tally
        }),
      async () => {
        await this.#sweep('live', checked(), options, step)
        return tally
      },
      { known: ['tx', 'onProgress'] },
    )
  }

  async #sweep(
    among: 'live' | 'dead',
    what: Selection,
    options: BulkOptions | undefined,
    step: (places: Place[]) => Promise<void>,
  ): Promise<void> {
    const { store, clock } = this.#parts
    // What was called before must be there to be found.
    await this.#order.settled()
    let done = 0
    for await (const places of placesOf(store, clock, this.name, this.#cellsOf(what), among, what)) {
      this.#parts.checkOpen()
      await this.#order.run(() => step(places))
      done += places.length
      options?.onProgress?.(done)
    }
  }

  /** Where what is selected can be. */
  #cellsOf(what: Selection): readonly number[] {
    const isAtHome = 'prefix' in what && this.#parts.settings.current.slotBy === 'prefix'
    return isAtHome ? [cellOf(what.prefix, 'prefix')] : ALL_CELLS
  }

  async #eachDead(which: Selector, step: (places: Place[]) => Promise<void>): Promise<void> {
    this.#parts.checkOpen()
    const ways = ['keys', 'tag', 'prefix', 'all'] as const
    checkOptions(which, ways, 'which')
    // Two ways at once would purge what one of them was meant to spare.
    if (ways.filter((way) => which[way] !== undefined).length !== 1)
      throw badOption('which', "give exactly one of 'keys', 'all', 'tag' and 'prefix'")
    if (which.keys !== undefined) {
      const places = this.#places(which.keys)
      return this.#order.run(() => step(places))
    }
    if (which.all === undefined) return this.#sweep('dead', this.#selection(which, 'which'), undefined, step)
    if (which.all !== true) throw badOption('which', 'write { all: true } to mean all of them')
    return this.#sweep('dead', { all: true }, undefined, step)
  }

  #selection(by: By, where: string): Selection {
    checkOptions(by, ['tag', 'prefix'], where)
    const { tag, prefix } = by
    if ((tag === undefined) === (prefix === undefined))
      throw badOption(where, "give one of 'tag' and 'prefix'")
    return tag === undefined ? { prefix: checkPrefix(prefix) } : { tag: checkTag(tag) }
  }

  #place(given: unknown): Place {
    const key = checkKey(given)
    return { key, cell: cellOf(key, this.#parts.settings.current.slotBy) }
  }

  #places(keys: readonly string[]): Place[] {
    if (!Array.isArray(keys)) throw badOption('keys', `expected an array of keys, got ${describeValue(keys)}`)
    return Array.from(keys, (given, i) => {
      try {
        return this.#place(given)
      } catch (error) {
        throw keys.length === 1 ? error : atIndex(error, i, 'keys')
      }
    })
  }

  async #info(view: EntryView): Promise<TaskInfo<Out>> {
    const answer = decodeBody(this.#definition.schema, view.body)
    // Only what has to be waited for needs a deadline: a page of a thousand tasks arms no timers.
    const decoded =
      answer instanceof Promise
        ? await inTime(this.#parts.clock, answer).catch(() => ({ problem: 'no answer' }))
        : answer
    return {
      id: view.id,
      topic: this.name,
      key: view.key,
      // A payload that no longer fits its schema is shown as it is: looking must not fail.
      payload: 'payload' in decoded ? decoded.payload : (decodePayload(view.body) as Out),
      dueAt: new Date(view.dueMs),
      // Of a task whose attempts are used up, the last one; there is none after it.
      attempt: view.failures + (view.deadCause === 'attempts' ? 0 : 1),
      deliveries: view.deliveries,
      tags: view.tags,
      priority: view.priority,
      state: view.state,
      createdAt: new Date(view.createdMs),
      updatedAt: new Date(view.updatedMs),
      lastError: view.lastError,
      deadCause: view.deadCause,
    }
  }

  #stateToList(state: State | undefined): State | null {
    if (state === undefined) return null
    if (ENDED.includes(state) && this.#parts.store.ledger === undefined)
      throw needsLedger(`list({ state: '${state}' })`)
    if (STATES.includes(state)) return state
    throw badOption('state', `${describeValue(state)}; use ${STATES.join(', ')}`)
  }

  /** The caller's transaction, or null: Tocsin's own. */
  #checkWrite(options: WriteOptions | undefined, known: readonly string[] = ['tx']): StoreTransaction | null {
    this.#parts.checkOpen()
    if (options === undefined) return null
    checkOptions(options, known, 'options')
    if (options.tx === undefined) return null
    const { ledger } = this.#parts.store
    if (ledger === undefined) throw needsLedger('{ tx }')
    return ledger.within(options.tx)
  }
}

interface SweepSteps {
  readonly check?: () => void
  /** Answers how many tasks it was about. */
  readonly within: (tx: StoreTransaction, what: Selection) => Promise<number>
  readonly step: (places: Place[]) => Promise<void>
}

function checkProgress(options: BulkOptions | undefined): void {
  const onProgress: unknown = options?.onProgress
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw badOption('onProgress', `expected a function, got ${describeValue(onProgress)}`)
}

function cancelled(key: string, answers: Promise<CancelAnswer[]>): Promise<Cancelled> {
  return answers.then(([outcome]) => ({ key, outcome: outcome ?? 'not-found' }))
}

function dateOrNull(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

function isLoopable(value: unknown): boolean {
  return (
    value !== null && typeof value === 'object' && (Symbol.iterator in value || Symbol.asyncIterator in value)
  )
}
