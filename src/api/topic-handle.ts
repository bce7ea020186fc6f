import { CHANGES_KEPT } from '../board.ts'
import type { ConfigView, LiveConfig } from '../values/config.ts'
import { startConsumer } from './start-consumer.ts'
import { describeValue, type Json } from '../errors.ts'
import { badOption, checkOptions, wholeNumber } from '../values/options.ts'
import { startHttpPull } from './start-http-pull.ts'
import {
  type BatchHandler,
  type Handler,
  performBatch,
  performOne,
  type TransactionBatchHandler,
  type TransactionHandler,
} from '../consume/performer.ts'
import type { HttpPull } from '../pull/http-pull.ts'
import { Scheduler } from './scheduler.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, TaskInfo, When } from '../task.ts'
import type { TopicDefinition } from './topic-definition.ts'
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
} from './topic.ts'
import { TopicChanges } from './topic-changes.ts'
import type { TopicParts } from './topic-parts.ts'
import { TopicPlaces } from './topic-places.ts'
import { TopicReads } from './topic-reads.ts'
import { WriteGate } from './write-gate.ts'

/** What `toc.topic(…)` returns: the one place where all that can be done with a topic comes together. */
export class TopicHandle<In, Out> implements Topic<In, Out> {
  readonly name: string
  #definition: TopicDefinition<In, Out>
  readonly #parts: TopicParts
  readonly #gate: WriteGate
  readonly #changes: TopicChanges
  readonly #reader: TopicReads<In, Out>
  #scheduler: Scheduler<In>
  #httpPull: HttpPull | null = null

  constructor(definition: TopicDefinition<In, Out>, parts: TopicParts) {
    this.name = definition.name
    this.#definition = definition
    this.#parts = parts
    const places = new TopicPlaces(parts.settings)
    this.#gate = new WriteGate(parts)
    this.#changes = new TopicChanges(this.name, parts, places, this.#gate)
    this.#reader = new TopicReads(() => this.#definition, parts, places)
    this.#scheduler = new Scheduler(definition, parts, this.#gate.order)
  }

  get definition(): TopicDefinition<In, Out> {
    return this.#definition
  }

  /** It was used by its name alone; now its schema and settings are known. */
  declare(definition: TopicDefinition<In, Out>): void {
    this.#parts.settings.declare(definition.config)
    this.#definition = definition
    this.#scheduler = new Scheduler(definition, this.#parts, this.#gate.order)
  }

  /** For servers, whose clients have no code here: see `TopicSettings.declareForAll`. */
  async declareForAll(config: unknown): Promise<ConfigView> {
    this.#parts.checkOpen()
    return this.#parts.settings.declareForAll(config)
  }

  /** Not `async`, as `cancel` is not: a promise and a turn less, where calls come by the hundred thousand. */
  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled> {
    if (options === undefined) return this.#gate.passAlone(() => this.#scheduler.one(task), MAKES)
    return this.#gate.pass(
      options,
      (tx) => this.#scheduler.oneWithin(tx, task),
      () => this.#scheduler.one(task),
      MAKES,
    )
  }

  scheduleMany(tasks: readonly NewTask<In>[], options?: WriteOptions): Promise<Scheduled[]>
  scheduleMany(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled>
  scheduleMany(
    tasks: readonly NewTask<In>[] | Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>,
    options?: WriteOptions,
  ): Promise<Scheduled[] | BulkScheduled> {
    const isArray = Array.isArray(tasks)
    return this.#gate.pass<Scheduled[] | BulkScheduled>(
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
      MAKES,
    )
  }

  cancel(key: string, options?: WriteOptions): Promise<Cancelled> {
    return this.#changes.cancel(key, options)
  }

  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]> {
    return this.#changes.cancelMany(keys, options)
  }

  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }> {
    return this.#changes.cancelBy(by, options)
  }

  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled> {
    return this.#changes.reschedule(key, when, options)
  }

  rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options?: BulkOptions,
  ): Promise<{ rescheduled: number; inFlight: number }> {
    return this.#changes.rescheduleBy(by, when, options)
  }

  readonly dead = {
    replay: (which: Selector): Promise<{ replayed: number }> => this.#changes.replay(which),
    purge: (which: Selector): Promise<{ purged: number }> => this.#changes.purge(which),
  }

  /** Resolves when every write called so far has taken effect. */
  written(): Promise<void> {
    return this.#gate.written()
  }

  get(key: string): Promise<TaskInfo<Out> | null> {
    return this.#reader.get(key)
  }

  list(options: ListOptions = {}): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }> {
    return this.#reader.list(options)
  }

  counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }> {
    return this.#reader.counts()
  }

  forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]> {
    return this.#reader.forecast(options)
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
  scheduleLenient: Scheduler<In>['lenient'] = (pieces, onRefused, onScheduled) =>
    this.#gate.passAlone(() => this.#scheduler.lenient(pieces, onRefused, onScheduled), MAKES)

  /** @internal For how long the oldest due task has waited to be taken. */
  overdueMs(): Promise<number> {
    return this.#reader.overdueMs()
  }

  /** @internal */
  get waitingClaims(): number {
    return this.#httpPull?.waitingCount ?? 0
  }

  /** @internal Where tasks are pulled by whoever is not in this process. */
  get httpPull(): HttpPull {
    this.#parts.checkOpen()
    return (this.#httpPull ??= startHttpPull(this.name, this.#parts))
  }
}

const MAKES = { makes: true }

function isLoopable(value: unknown): boolean {
  return (
    value !== null && typeof value === 'object' && (Symbol.iterator in value || Symbol.asyncIterator in value)
  )
}
