import { describeValue } from '../errors.ts'
import { byteSizeOf } from '../lib/byte-size.ts'
import { WriteQueue } from '../lib/write-queue.ts'
import type { StoreTransaction, TaskStore } from '../store.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, When } from '../task.ts'
import type { CancelAnswer, NewEntry, Place, RescheduleAnswer, ScheduleAnswer } from '../timetable.ts'
import { badOption, checkOptions } from '../values/options.ts'
import { ringTime } from '../values/ring-time.ts'
import { type BatchLimit, batchesOf, batchesOfStream, interrupted, limitByTime, pipelined } from './bulk.ts'
import { EntryBuilder, type EntryParts, handled, schemaIsAsync } from './entry-builder.ts'
import { placeOf, placesOf } from './places.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { BulkScheduled, WriteOptions } from './topic.ts'

export interface WriteParts extends EntryParts {
  readonly store: TaskStore
  /** Throws 'closed' if the Tocsin was closed, and 'bad-topic' if the code and the cluster differ in `slotBy`. */
  readonly checkOpen: () => void
}

/** The two ways to carry out a write. */
interface Write<T> {
  /** Writes in the caller's transaction. Must start the write synchronously: the transaction may end right after. */
  readonly within: (tx: StoreTransaction) => Promise<T>
  /** Writes without a transaction of the caller. */
  readonly alone: () => Promise<T>
  /** True if the write creates a topic that does not exist. */
  readonly isCreating?: boolean
  /** The names of the options that the write takes. */
  readonly optionNames?: readonly string[]
}

/**
 * The writes of a topic: schedule, cancel and reschedule. The writes that must first find their tasks are in
 * bulk-writes.ts. Each write first checks that the Tocsin is open.
 *
 *   With a transaction of the caller, it writes in that transaction at once.
 *   Without one, it waits while the topic is being created, because the node that creates the topic fixes `slotBy`, and
 *   `slotBy` decides the cells. Then it calls the store. Writes reach the store in call order (`queue`).
 */
export class TopicWrites<In> {
  readonly queue = new WriteQueue()
  readonly #name: string
  readonly #parts: WriteParts
  readonly #builder: EntryBuilder<In>

  constructor(definition: () => TopicDefinition<In, unknown>, parts: WriteParts) {
    this.#name = definition().name
    this.#parts = parts
    this.#builder = new EntryBuilder(definition, parts)
  }

  /** `schedule` and `cancel` are not `async`, to save a promise and a microtask in each of 100,000 calls a second. */
  schedule(task: NewTask<In>, options?: WriteOptions): Promise<Scheduled> {
    if (options === undefined) return this.#alone(() => this.#scheduleOne(task), true)
    return this.run(options, {
      within: (tx) => {
        const entry = this.#builder.one(task)
        if (this.#builder.check(entry) !== undefined) throw schemaIsAsync()
        return firstScheduled(entry.key, tx.schedule(this.#name, [entry], this.#mergeMs))
      },
      alone: () => this.#scheduleOne(task),
      isCreating: true,
    })
  }

  scheduleMany(
    tasks: readonly NewTask<In>[] | Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>,
    options?: WriteOptions,
  ): Promise<Scheduled[] | BulkScheduled> {
    return this.run<Scheduled[] | BulkScheduled>(options, {
      within: (tx) => {
        if (Array.isArray(tasks)) return this.#scheduleArrayWithin(tx, tasks as readonly NewTask<In>[])
        throw badOption('tasks', 'expected an array: a stream may outlast the transaction')
      },
      alone: async () => {
        if (Array.isArray(tasks)) return this.#scheduleArray(tasks as readonly NewTask<In>[])
        if (isIterable(tasks)) return this.#scheduleStream(tasks as Iterable<NewTask<In>>)
        throw badOption('tasks', `expected an array or something to loop over, got ${describeValue(tasks)}`)
      },
      isCreating: true,
    })
  }

  /**
   * Schedules the valid tasks of one batch. Calls `onRefused` for each invalid task before it writes any task. Passes the
   * store's answers on as they are: most callers only count outcomes, and need no result object for each task.
   */
  scheduleValid(
    tasks: readonly NewTask<In>[],
    onRefused: (index: number, error: unknown) => void,
    onScheduled: (index: number, key: string, answer: ScheduleAnswer) => void,
  ): Promise<void> {
    return this.#alone(async () => {
      this.#parts.checkOpen()
      const { entries, indexes } = await this.#builder.valid(tasks, onRefused)
      if (entries.length === 0) return
      const answers = await this.queue.run(() => this.#put(entries))
      for (let i = 0; i < entries.length; i++)
        onScheduled(indexes[i] as number, (entries[i] as NewEntry).key, answers[i] as ScheduleAnswer)
    }, true)
  }

  cancel(key: string, options?: WriteOptions): Promise<Cancelled> {
    if (options === undefined) return this.#alone(() => this.#cancelOne(key))
    return this.run(options, {
      within: (tx) => firstCancelled(key, tx.cancel(this.#name, [this.#place(key)])),
      alone: () => this.#cancelOne(key),
    })
  }

  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]> {
    const places = () => placesOf(keys, this.#parts.settings.current.slotBy)
    return this.run(options, {
      within: (tx) => {
        const all = places()
        return tx.cancel(this.#name, all).then((answers) => cancelledAll(all, answers))
      },
      alone: async () => {
        const all = places()
        return this.queue.run(() => this.#cancelAll(all), all.length > this.#parts.store.bulkMax)
      },
    })
  }

  reschedule(key: string, when: When, options?: WriteOptions): Promise<Rescheduled> {
    const time = () => {
      checkOptions(when, ['delay', 'at'], 'when')
      return ringTime(when, 'when')
    }
    return this.run(options, {
      within: (tx) => {
        const [at, place] = [time(), this.#place(key)]
        return firstRescheduled(key, tx.reschedule(this.#name, [place], at, this.#mergeMs))
      },
      alone: () => {
        const [at, place] = [time(), this.#place(key)]
        const move = () => this.store.reschedule(this.#name, [place], at, this.#mergeMs)
        return firstRescheduled(key, this.queue.run(move))
      },
    })
  }

  /**
   * Resolves when the writes called so far have been passed to the store. Waits for the creation of the topic and for
   * queued writes. Does not wait for the store's answers to other writes, nor for the later batches of a stream or of a
   * write by tag or prefix.
   */
  async written(): Promise<void> {
    await this.#parts.settings.creating
    await this.queue.settled()
  }

  /**
   * Runs a write with its options. A failure rejects the returned promise, except in a SQLite transaction. A SQLite
   * transaction is synchronous: it awaits no promise and is rolled back only by a throw. So there `run` throws.
   */
  run<T>(options: WriteOptions | undefined, write: Write<T>): Promise<T> {
    let tx: StoreTransaction | null = null
    try {
      this.#parts.checkOpen()
      tx = this.#transactionOf(options, write.optionNames)
      if (write.isCreating === true) this.#createTopic()
      return tx === null ? this.#onceCreated(write.alone) : this.#checkedOnceCreated(write.within(tx))
    } catch (error) {
      if (tx?.isSynchronous === true) throw error
      return Promise.reject(error as Error)
    }
  }

  /** The store. Throws if another node created the topic with another `slotBy` while the write waited. */
  get store(): TaskStore {
    this.#parts.settings.check()
    return this.#parts.store
  }

  /** Does the same as `run` without options. It creates no `Write` object, because it is the hot path. */
  #alone<T>(write: () => Promise<T>, isCreating = false): Promise<T> {
    try {
      this.#parts.checkOpen()
      if (isCreating) this.#createTopic()
      return this.#onceCreated(write)
    } catch (error) {
      return Promise.reject(error as Error)
    }
  }

  /** Returns null if the caller gave no transaction. */
  #transactionOf(
    options: WriteOptions | undefined,
    names: readonly string[] = ['tx'],
  ): StoreTransaction | null {
    if (options === undefined) return null
    checkOptions(options, names, 'options')
    if (options.tx === undefined) return null
    return this.#parts.store.features.within(options.tx)
  }

  /** Starts to create the topic if it does not exist. The first schedule() of a bare topic name creates the topic. */
  #createTopic(): void {
    const { settings } = this.#parts
    if (settings.isUnknown && settings.creating === null) settings.create()
  }

  #onceCreated<T>(write: () => Promise<T>): Promise<T> {
    const { creating } = this.#parts.settings
    return creating === null ? write() : creating.then(write)
  }

  /**
   * Waits until the topic is created, then returns the answer of a write in the caller's transaction. The write itself
   * does not wait for the creation, because the transaction may have ended by then. Rejects if the topic was created
   * with another `slotBy`: then the write used the wrong cells.
   */
  #checkedOnceCreated<T>(written: Promise<T>): Promise<T> {
    const { settings } = this.#parts
    if (settings.creating === null) return written
    written.catch(() => {})
    return settings.creating.then(() => {
      settings.check()
      return written
    })
  }

  #scheduleOne(task: NewTask<In>): Promise<Scheduled> {
    const entry = this.#builder.one(task)
    const check = this.#builder.check(entry)
    const put = () => this.#put([entry])
    const answers = check === undefined ? this.queue.run(put) : this.queue.run(() => check.then(put), true)
    return firstScheduled(entry.key, answers)
  }

  #scheduleArrayWithin(tx: StoreTransaction, tasks: readonly NewTask<In>[]): Promise<Scheduled[]> {
    const { entries, checks } = this.#builder.all(tasks)
    if (checks.length > 0) throw schemaIsAsync()
    return tx.schedule(this.#name, entries, this.#mergeMs).then((answers) => scheduledAll(entries, answers))
  }

  /** Checks every task before it writes the first task. */
  async #scheduleArray(tasks: readonly NewTask<In>[]): Promise<Scheduled[]> {
    const { entries, checks } = this.#builder.all(tasks)
    const batches = [...batchesOf(entries, this.#batchLimit(), payloadBytes)]
    const write = async () => {
      for (const check of checks) await check
      if (batches.length <= 1) return scheduledAll(entries, await this.#put(entries))
      const results: Scheduled[] = []
      try {
        const put = (batch: readonly NewEntry[]) => this.#put(batch)
        await pipelined(this.#parts.clock, batches, put, (answers, batch) => {
          for (const result of scheduledAll(batch, answers)) results.push(result)
        })
      } catch (error) {
        throw interrupted(results.length, error)
      }
      return results
    }
    return this.queue.run(write, checks.length > 0 || batches.length > 1)
  }

  /** Checks and writes batch by batch. Other writes of the topic do not wait for the stream, which may take hours. */
  async #scheduleStream(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled> {
    const tally = { created: 0, replaced: 0, kept: 0 }
    let index = 0
    let accepted = 0
    /** The checks of the batch that is being read. */
    let checks: Promise<void>[] = []
    // Keeps the batches in order even if an async schema takes longer for the first batch than for the second.
    let sent: Promise<unknown> = Promise.resolve()
    const put = async (entries: readonly NewEntry[]) => {
      this.#parts.checkOpen()
      const answers = Promise.all([sent, ...checks]).then(() => ({
        of: this.queue.run(() => this.#put(entries)),
      }))
      checks = []
      sent = handled(answers)
      return (await answers).of
    }
    // Convert each task as it is read: only the size of its JSON tells when a batch is full.
    const convert = (task: NewTask<In>) => this.#builder.at(index++, task, checks)
    const { clock } = this.#parts
    try {
      const batches = batchesOfStream(clock, tasks, this.#batchLimit(), convert, payloadBytes)
      await pipelined(clock, batches, put, (answers, batch) => {
        for (const { outcome } of answers) tally[outcome]++
        accepted += batch.length
      })
    } catch (error) {
      throw interrupted(accepted, error)
    }
    return tally
  }

  #cancelOne(key: string): Promise<Cancelled> {
    const place = this.#place(key)
    return firstCancelled(
      key,
      this.queue.run(() => this.store.cancel(this.#name, [place])),
    )
  }

  async #cancelAll(places: readonly Place[]): Promise<Cancelled[]> {
    const results: Cancelled[] = []
    const { clock, store } = this.#parts
    const cancel = (batch: readonly Place[]) => this.store.cancel(this.#name, batch)
    await pipelined(clock, batchesOf(places, store.bulkMax), cancel, (answers, batch) => {
      for (const result of cancelledAll(batch, answers)) results.push(result)
    })
    return results
  }

  #batchLimit(): BatchLimit<NewEntry> {
    const { clock, store } = this.#parts
    return limitByTime(clock, store.bulkMax)
  }

  #put(entries: readonly NewEntry[]): Promise<ScheduleAnswer[]> {
    // Check only now: the write may have waited while the topic was being created.
    this.#parts.settings.checkCreated()
    return this.#parts.store.schedule(this.#name, entries, this.#mergeMs)
  }

  get #mergeMs(): number {
    return this.#parts.settings.current.mergeMs
  }

  #place(key: string): Place {
    return placeOf(key, this.#parts.settings.current.slotBy)
  }
}

function payloadBytes({ body }: NewEntry): number {
  return byteSizeOf(body)
}

function isIterable(value: unknown): boolean {
  return (
    value !== null && typeof value === 'object' && (Symbol.iterator in value || Symbol.asyncIterator in value)
  )
}

/*
 * The answers of the store as the results that callers get. The functions for one task take its key, not its entry: a
 * closure over the entry would keep the payload in memory until the store answers, and hundreds of thousands of calls
 * may wait for an answer.
 */

function scheduledOf(key: string, { dueMs, outcome, inFlight }: ScheduleAnswer): Scheduled {
  return { key, dueAt: new Date(dueMs), outcome, inFlight }
}

function scheduledAll(entries: readonly NewEntry[], answers: readonly ScheduleAnswer[]): Scheduled[] {
  return entries.map(({ key }, i) => scheduledOf(key, answers[i] as ScheduleAnswer))
}

function firstScheduled(key: string, answers: Promise<readonly ScheduleAnswer[]>): Promise<Scheduled> {
  return answers.then((all) => scheduledOf(key, all[0] as ScheduleAnswer))
}

function cancelledAll(places: readonly Place[], answers: readonly CancelAnswer[]): Cancelled[] {
  return places.map(({ key }, i) => ({ key, outcome: answers[i] ?? 'not-found' }))
}

function firstCancelled(key: string, answers: Promise<CancelAnswer[]>): Promise<Cancelled> {
  return answers.then(([outcome]) => ({ key, outcome: outcome ?? 'not-found' }))
}

function firstRescheduled(key: string, answers: Promise<RescheduleAnswer[]>): Promise<Rescheduled> {
  return answers.then(([answer]) => {
    const dueMs = answer?.dueMs ?? null
    return { key, outcome: answer?.outcome ?? 'not-found', dueAt: dueMs === null ? null : new Date(dueMs) }
  })
}
