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

/** Which of the dead: exactly one way of saying so. */
export type Selector =
  | (By & { readonly keys?: undefined; readonly all?: undefined })
  | {
      readonly keys: readonly string[]
      readonly tag?: undefined
      readonly prefix?: undefined
      readonly all?: undefined
    }
  | { readonly all: true; readonly tag?: undefined; readonly prefix?: undefined; readonly keys?: undefined }

/** Moves each task from where it is. */
export type Shift = { readonly shift: string; readonly delay?: undefined; readonly at?: undefined }

export interface WriteOptions {
  /**
   * The caller's transaction, in the database that has the ledger: a client of pg, what fromDrizzle and the like make of
   * an ORM's, or a better-sqlite3 database that shares the file.
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
  /** Calls of the handler at a time in this process: 64 by default, 4 for batches. */
  readonly concurrency?: number | undefined
  /** What the handler writes through `tx` of its context, and the outcome, commit together or not at all. */
  readonly transaction?: boolean | undefined
  /** Asked about many tasks at once before any of them starts; false: it ends 'obsolete', no attempt is made. */
  readonly guard?:
    | ((tasks: readonly Task<Out>[], context: Context) => Promise<readonly boolean[]>)
    | undefined
}

/** The handler's context then has a `tx`. */
export type Transactional<Out> = ConsumeOptions<Out> & { readonly transaction: true }

export interface Consumer extends AsyncDisposable {
  /** Outcomes that came too late to count: the lease was over, or the task was replaced. Somebody else had it. */
  readonly staleCount: number
  /**
   * Claims nothing more, waits for running handlers (20 s by default), then aborts their signals and gives their
   * tasks back: due at once elsewhere, no failure. Calling it again gives the same answer. A handler must not await
   * it: it would wait for itself.
   */
  stop(options?: { readonly timeout?: Duration | undefined }): Promise<StopReport>
}

export type BulkScheduled = { readonly created: number; readonly replaced: number; readonly kept: number }

/** A change of a topic's live configuration. */
export interface ConfigChange {
  readonly version: number
  readonly at: Date
  /** The node that asked for it. */
  readonly by: string
  /** What was asked for. */
  readonly patch: Readonly<Record<string, Json>>
}

export interface Topic<In, Out> {
  readonly name: string
  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled>
  /** Answers in order. Whatever is wrong with any of them is refused before the first is written. */
  scheduleMany(tasks: readonly NewTask<In>[], options?: WriteOptions): Promise<Scheduled[]>
  /** Any number, in flat memory. */
  scheduleMany(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled>
  cancel(key: string, options?: WriteOptions): Promise<Cancelled>
  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]>
  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }>
  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled>
  /** `shift: '+10m'` or `'-1h'` moves each from where it is. */
  rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options?: BulkOptions,
  ): Promise<{ rescheduled: number; inFlight: number }>
  /** Null when the key has no live and no dead task. */
  get(key: string): Promise<TaskInfo<Out> | null>
  /** Soonest first; `cursor` continues, null ends. Without `state`: pending and claimed. */
  list(options?: ListOptions): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }>
  counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }>
  forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]>
  config(): Promise<ConfigView>
  /** Who changed what, when: the newest first, 100 at most. */
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
