/** The public interface of a topic. Every optional input also accepts undefined. */
import type { ConfigView, LiveConfig } from '../values/config.ts'
import type { Duration } from '../values/duration.ts'
import type { Json } from '../errors.ts'
import type { Instant } from '../values/instant.ts'
import type { SqliteDatabase } from '../ledgers/sqlite/options.ts'
import type { Context } from '../consume/handler-call.ts'
import type { StopReport } from '../consume/consumer.ts'
import type {
  BatchHandler,
  Handler,
  TransactionBatchHandler,
  TransactionHandler,
} from '../consume/performer.ts'
import type { Tx } from '../values/tx.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, State, Task, TaskInfo, When } from '../task.ts'

/** Selects tasks by a tag, or by the prefix of their keys (the part of a key before its first ':'). */
export type By =
  | { readonly tag: string; readonly prefix?: undefined }
  | { readonly prefix: string; readonly tag?: undefined }

/** Selects dead tasks by exactly one of `keys`, `tag`, `prefix` and `all`. */
export type Selector =
  | (By & { readonly keys?: undefined; readonly all?: undefined })
  | {
      readonly keys: readonly string[]
      readonly tag?: undefined
      readonly prefix?: undefined
      readonly all?: undefined
    }
  | { readonly all: true; readonly tag?: undefined; readonly prefix?: undefined; readonly keys?: undefined }

/** Moves each task relative to its current ring time: '+10m' or '-1h'. */
export type Shift = { readonly shift: string; readonly delay?: undefined; readonly at?: undefined }

export interface WriteOptions {
  /**
   * The caller's transaction in the database of the ledger. One of: a client of pg; the transaction of an ORM,
   * converted by `fromDrizzle`, `fromKnex`, `fromKysely` or `fromPrisma`; a better-sqlite3 database that shares the
   * ledger's file.
   */
  readonly tx?: Tx | SqliteDatabase | undefined
}

export interface BulkOptions extends WriteOptions {
  readonly onProgress?: ((done: number) => void) | undefined
}

export interface ListOptions {
  readonly state?: State | undefined
  readonly tag?: string | undefined
  readonly prefix?: string | undefined
  readonly dueFrom?: Instant | undefined
  readonly dueTo?: Instant | undefined
  /** The maximum number of tasks in a page: 1–1,000; 100 by default. */
  readonly limit?: number | undefined
  readonly cursor?: string | null | undefined
}

export interface ForecastOptions {
  readonly from?: Instant | undefined
  readonly to: Instant
  readonly step?: Duration | undefined
}

export interface ConsumeOptions<Out> {
  /** Maximum number of handler calls at a time in this process: 64 by default, 4 for batches and transactions. */
  readonly concurrency?: number | undefined
  /** If true, the handler's writes through `context.tx` and the outcome of its task commit in one transaction. */
  readonly transaction?: boolean | undefined
  /**
   * Called with many tasks before their handlers start. Returns a boolean per task. A task with false ends as
   * 'obsolete', and its handler is not called.
   */
  readonly guard?:
    | ((tasks: readonly Task<Out>[], context: Context) => Promise<readonly boolean[]>)
    | undefined
}

/** The options of a consumer whose handler gets a `tx` in its context. */
export type Transactional<Out> = ConsumeOptions<Out> & { readonly transaction: true }

export interface Consumer extends AsyncDisposable {
  /** The number of outcomes that were ignored, because the lease had expired or the task was replaced. */
  readonly staleCount: number
  /**
   * Claims no more tasks and waits for running handlers, 20 s by default. Then aborts the signals of the handlers that
   * still run, and releases their tasks. A released task is due at once for other consumers, and its attempt does not
   * count as failed. Idempotent. A handler must not await `stop`, because `stop` waits for the handler.
   */
  stop(options?: { readonly timeout?: Duration | undefined }): Promise<StopReport>
}

export type BulkScheduled = { readonly created: number; readonly replaced: number; readonly kept: number }

export type Replayed = {
  readonly replayed: number
  /** Dead tasks that stay dead, because their keys were scheduled again since. */
  readonly superseded: number
}

/** A change of a topic's live configuration or of its declaration over HTTP, or a pause or resume of the topic. */
export interface ConfigChange {
  readonly version: number
  readonly at: Date
  /** The node that made the change. */
  readonly by: string
  /** The changed fields. */
  readonly patch: Readonly<Record<string, Json>>
}

export interface Topic<In, Out> {
  readonly name: string
  /**
   * Schedules a task. A live task of the same key is replaced, or kept with `onConflict: 'keep'`. If a handler of the
   * same key is running (`inFlight` of the result), it goes on: the new task may start a second handler beside it. To
   * run a task again from its own handler, return `{ snooze }` instead; elsewhere, `cancel` the key first.
   */
  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled>
  /** Returns the results in the order of the tasks. Throws before the first write if any task is invalid. */
  scheduleMany(tasks: readonly NewTask<In>[], options?: WriteOptions): Promise<Scheduled[]>
  /** Schedules any number of tasks of any size, in constant memory. */
  scheduleMany(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled>
  cancel(key: string, options?: WriteOptions): Promise<Cancelled>
  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]>
  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }>
  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled>
  /** With `shift: '+10m'` or `'-1h'`, moves each task relative to its current ring time. */
  rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options?: BulkOptions,
  ): Promise<{ rescheduled: number; inFlight: number }>
  /**
   * Returns the live task of a key. If the key has none, returns its dead task, or, with a ledger, the task that ended
   * last: dead, done, cancelled or obsolete. Returns null if there is no such task.
   */
  get(key: string): Promise<TaskInfo<Out> | null>
  /**
   * Returns one page of tasks, earliest first. Without `state`, lists pending and claimed tasks. Pass the returned
   * `cursor` to get the next page. A null cursor means that there are no more tasks.
   */
  list(options?: ListOptions): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }>
  counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }>
  forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]>
  config(): Promise<ConfigView>
  /** Returns the last changes, newest first. `limit` is at most 100. */
  configHistory(options?: { readonly limit?: number | undefined }): Promise<ConfigChange[]>
  configure(patch: LiveConfig, options?: { readonly ifVersion?: number | undefined }): Promise<ConfigView>
  consume(handler: TransactionHandler<Out>, options: Transactional<Out>): Consumer
  consume(handler: Handler<Out>, options?: ConsumeOptions<Out>): Consumer
  consumeBatch(handler: TransactionBatchHandler<Out>, options: Transactional<Out>): Consumer
  consumeBatch(handler: BatchHandler<Out>, options?: ConsumeOptions<Out>): Consumer
  readonly dead: {
    /**
     * Makes dead tasks pending again, due now. If a key was scheduled again since, its dead task is superseded. A
     * superseded task is replayed only by `keys`, and only if its key has no live task.
     */
    replay(which: Selector): Promise<Replayed>
    purge(which: Selector): Promise<{ purged: number }>
  }
  pause(): Promise<void>
  resume(): Promise<void>
}
