import { CHANGES_KEPT } from '../board.ts'
import {
  type BatchHandler,
  type Handler,
  performBatch,
  performOne,
  type TransactionBatchHandler,
  type TransactionHandler,
} from '../consume/performer.ts'
import { describeValue, type Json } from '../errors.ts'
import type { HttpPull } from '../pull/http-pull.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, TaskInfo, When } from '../task.ts'
import type { ConfigView, LiveConfig } from '../values/config.ts'
import { badOption, checkOptions, wholeNumber } from '../values/options.ts'
import { BulkWrites } from './bulk-writes.ts'
import { type ConsumeParts, ConsumerHandle } from './consumer-handle.ts'
import { HttpPullHandle } from './http-pull-handle.ts'
import type { TopicDefinition } from './topic-definition.ts'
import { TopicReads } from './topic-reads.ts'
import { TopicWrites, type WriteParts } from './topic-writes.ts'
import type {
  BulkOptions,
  BulkScheduled,
  By,
  ConfigChange,
  Consumer,
  ConsumeOptions,
  ForecastOptions,
  ListOptions,
  Replayed,
  Selector,
  Shift,
  Topic,
  WriteOptions,
} from './topic.ts'

/** The parts of a Tocsin that a topic needs, and the settings of the topic. */
export type TopicParts = WriteParts & ConsumeParts

/**
 * The topic that `toc.topic(…)` returns. Writes are in topic-writes.ts and bulk-writes.ts, reads in topic-reads.ts, the
 * configuration in topic-settings.ts, consumers in consumer-handle.ts.
 */
export class TopicHandle<In, Out> implements Topic<In, Out> {
  readonly name: string
  #definition: TopicDefinition<In, Out>
  readonly #parts: TopicParts
  readonly #writes: TopicWrites<In>
  readonly #bulk: BulkWrites
  readonly #reads: TopicReads<Out>
  #httpPull: HttpPullHandle | null = null
  #hasWarnedIgnored = false

  constructor(definition: TopicDefinition<In, Out>, parts: TopicParts) {
    this.name = definition.name
    this.#definition = definition
    this.#parts = parts
    this.#writes = new TopicWrites(() => this.#definition, parts)
    this.#bulk = new BulkWrites(this.name, parts, this.#writes)
    this.#reads = new TopicReads(() => this.#definition, parts)
  }

  get definition(): TopicDefinition<In, Out> {
    return this.#definition
  }

  /** Sets the schema and the settings of a topic that was used only by its name until now. */
  declare(definition: TopicDefinition<In, Out>): void {
    this.#parts.settings.declare(definition.config)
    this.#definition = definition
  }

  /** Declares the topic for all processes, on behalf of a client of a server. */
  async declareForAll(config: unknown): Promise<ConfigView> {
    this.#parts.checkOpen()
    return this.#parts.settings.declareForAll(config)
  }

  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled> {
    return this.#writes.schedule(task, options)
  }

  scheduleMany(tasks: readonly NewTask<In>[], options?: WriteOptions): Promise<Scheduled[]>
  scheduleMany(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled>
  scheduleMany(
    tasks: readonly NewTask<In>[] | Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>,
    options?: WriteOptions,
  ): Promise<Scheduled[] | BulkScheduled> {
    return this.#writes.scheduleMany(tasks, options)
  }

  cancel(key: string, options?: WriteOptions): Promise<Cancelled> {
    return this.#writes.cancel(key, options)
  }

  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]> {
    return this.#writes.cancelMany(keys, options)
  }

  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }> {
    return this.#bulk.cancelBy(by, options)
  }

  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled> {
    return this.#writes.reschedule(key, when, options)
  }

  rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options?: BulkOptions,
  ): Promise<{ rescheduled: number; inFlight: number }> {
    return this.#bulk.rescheduleBy(by, when, options)
  }

  readonly dead = {
    replay: (which: Selector): Promise<Replayed> => this.#bulk.replay(which),
    purge: (which: Selector): Promise<{ purged: number }> => this.#bulk.purge(which),
  }

  /** Resolves when the writes called so far have been passed to the store. See `TopicWrites.written` for exceptions. */
  written(): Promise<void> {
    return this.#writes.written()
  }

  get(key: string): Promise<TaskInfo<Out> | null> {
    return this.#reads.get(key)
  }

  list(options: ListOptions = {}): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }> {
    return this.#reads.list(options)
  }

  counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }> {
    return this.#reads.counts()
  }

  forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]> {
    return this.#reads.forecast(options)
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
    this.#checkConsumes(handler)
    const call = { performer: performOne(handler as Handler<Out>, this.#warnIgnored), batched: false }
    return new ConsumerHandle(() => this.#definition, this.#parts, call, options)
  }

  consumeBatch(
    handler: BatchHandler<Out> | TransactionBatchHandler<Out>,
    options: ConsumeOptions<Out> = {},
  ): Consumer {
    this.#checkConsumes(handler)
    const call = { performer: performBatch(handler as BatchHandler<Out>, this.#warnIgnored), batched: true }
    return new ConsumerHandle(() => this.#definition, this.#parts, call, options)
  }

  /** @internal Used by servers: schedules the valid tasks of a batch and reports the invalid tasks. */
  scheduleValid(...given: Parameters<TopicWrites<In>['scheduleValid']>): Promise<void> {
    return this.#writes.scheduleValid(...given)
  }

  /** @internal Returns for how long the oldest due task has been due, in ms; 0 if no task is due. */
  overdueMs(): Promise<number> {
    return this.#reads.overdueMs()
  }

  /** @internal The number of HTTP pulls of clients that wait for a task. */
  get waitingClaims(): number {
    return this.#httpPull?.httpPull.waitingCount ?? 0
  }

  /** @internal The HTTP pull, which hands out tasks to the clients of a server. */
  get httpPull(): HttpPull {
    this.#parts.checkOpen()
    this.#httpPull ??= new HttpPullHandle(this.name, this.#parts)
    return this.#httpPull.httpPull
  }

  /** Warns, once for the topic, that a handler returns values which are not outcomes. */
  readonly #warnIgnored = (returned: string): void => {
    if (this.#hasWarnedIgnored) return
    this.#hasWarnedIgnored = true
    this.#parts.logger.warn(
      { topic: this.name, returned },
      'a handler returned a value that is not an outcome; its task is done. Return nothing, { snooze }, { retry } or { dead }',
    )
  }

  #checkConsumes(handler: unknown): void {
    this.#parts.checkOpen()
    if (typeof handler !== 'function')
      throw badOption('handler', `expected a function, got ${describeValue(handler)}`)
  }
}
