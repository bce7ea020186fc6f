/** The public face of a topic. Every optional input also takes undefined. */
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

/** All live tasks with a tag, or whose key has a prefix (the part before its first ':'). */
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

/** Moves each task relative to its current time. */
export type Shift = { readonly shift: string; readonly delay?: undefined; readonly at?: undefined }

export interface WriteOptions {
  /**
   * The caller's transaction, in the database of the ledger: a client of pg, an ORM's transaction through `fromDrizzle` and
   * the like, or the better-sqlite3 database that shares the ledger's file.
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
  /** 1–1,000; 100 by default. */
  readonly limit?: number | undefined
  readonly cursor?: string | null | undefined
}

export interface ForecastOptions {
  readonly from?: Instant | undefined
  readonly to: Instant
  readonly step?: Duration | undefined
}

export interface ConsumeOptions<Out> {
  /** Handler calls at a time in this process: 64 by default, 4 for batches and transactions. */
  readonly concurrency?: number | undefined
  /** The handler's writes through `context.tx` and the outcome of its task commit in one transaction. */
  readonly transaction?: boolean | undefined
  /** Called for many tasks before their handlers start; a task with false ends as 'obsolete', without an attempt. */
  readonly guard?:
    | ((tasks: readonly Task<Out>[], context: Context) => Promise<readonly boolean[]>)
    | undefined
}

/** The handler's context has a `tx`. */
export type Transactional<Out> = ConsumeOptions<Out> & { readonly transaction: true }

export interface Consumer extends AsyncDisposable {
  /** Outcomes that were ignored, because the lease had expired or the task was replaced. */
  readonly staleCount: number
  /**
   * Claims no more tasks, waits for running handlers (20 s by default), then aborts their signals and releases their tasks,
   * which are due at once for other consumers and do not count as failed. Idempotent. A handler must not await it: it would
   * wait for itself.
   */
  stop(options?: { readonly timeout?: Duration | undefined }): Promise<StopReport>
}

export type BulkScheduled = { readonly created: number; readonly replaced: number; readonly kept: number }

/** A change of a topic's live configuration. */
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
  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled>
  /** Returns results in order. Throws before the first write if any task is invalid. */
  scheduleMany(tasks: readonly NewTask<In>[], options?: WriteOptions): Promise<Scheduled[]>
  /** Takes any number of tasks, in constant memory. */
  scheduleMany(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled>
  cancel(key: string, options?: WriteOptions): Promise<Cancelled>
  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]>
  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }>
  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled>
  /** `shift: '+10m'` or `'-1h'` moves each task relative to its current time. */
  rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options?: BulkOptions,
  ): Promise<{ rescheduled: number; inFlight: number }>
  /** Returns null if the key has no live and no dead task. With a ledger also finds the last ended task of the key. */
  get(key: string): Promise<TaskInfo<Out> | null>
  /** Earliest first. `cursor` continues the listing; null at its end. Without `state`: pending and claimed tasks. */
  list(options?: ListOptions): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }>
  counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }>
  forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]>
  config(): Promise<ConfigView>
  /** Returns the last changes, newest first, 100 at most. */
  configHistory(options?: { readonly limit?: number | undefined }): Promise<ConfigChange[]>
  configure(patch: LiveConfig, options?: { readonly ifVersion?: number | undefined }): Promise<ConfigView>
  consume(handler: TransactionHandler<Out>, options: Transactional<Out>): Consumer
  consume(handler: Handler<Out>, options?: ConsumeOptions<Out>): Consumer
  consumeBatch(handler: TransactionBatchHandler<Out>, options: Transactional<Out>): Consumer
  consumeBatch(handler: BatchHandler<Out>, options?: ConsumeOptions<Out>): Consumer
  readonly dead: {
    replay(which: Selector): Promise<{ replayed: number }>
    purge(which: Selector): Promise<{ purged: number }>
  }
  pause(): Promise<void>
  resume(): Promise<void>
}
