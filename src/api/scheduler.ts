import { atIndex, CHUNK, chunksOf, interrupted, pipelined, slicesOf } from './bulk.ts'
import { TocsinError } from '../errors.ts'
import type { InOrder } from '../lib/write-queue.ts'
import { newEntry } from './new-task.ts'
import { checkAgainst, inTime } from '../values/schema.ts'
import type { StoreTransaction } from '../store.ts'
import type { NewTask, Scheduled } from '../task.ts'
import type { NewEntry, ScheduleAnswer } from '../timetable.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { BulkScheduled } from './topic.ts'
import type { TopicParts } from './topic-parts.ts'

/** The ways in: one task, an array that is checked as a whole, or a stream of any length. */
export class Scheduler<In> {
  readonly #definition: TopicDefinition<In, unknown>
  readonly #parts: TopicParts
  readonly #order: InOrder

  constructor(definition: TopicDefinition<In, unknown>, parts: TopicParts, order: InOrder) {
    this.#definition = definition
    this.#parts = parts
    this.#order = order
  }

  one(task: NewTask<In>): Promise<Scheduled> {
    const entry = this.#entry(task)
    const check = this.#check(entry)
    const put = () => this.#put([entry])
    const answers = check === undefined ? this.#order.run(put) : this.#order.run(() => check.then(put), true)
    return answered(entry.key, answers)
  }

  /** In the caller's transaction, which does not wait: it takes effect before this returns. */
  oneWithin(tx: StoreTransaction, task: NewTask<In>): Promise<Scheduled> {
    const entry = this.#entry(task)
    this.#checkNow(entry)
    return answered(entry.key, tx.schedule(this.#definition.name, [entry], this.#mergeMs))
  }

  arrayWithin(tx: StoreTransaction, tasks: readonly NewTask<In>[]): Promise<Scheduled[]> {
    const { entries, checks } = this.#prepareAll(tasks, 0)
    if (checks.length > 0) throw schemaIsSlow()
    return tx
      .schedule(this.#definition.name, entries, this.#mergeMs)
      .then((answers) => scheduledAll(entries, answers))
  }

  /** Nothing is written before everything is checked; then in pieces, in order. */
  async array(tasks: readonly NewTask<In>[]): Promise<Scheduled[]> {
    const { entries, checks } = this.#prepareAll(tasks, 0)
    const write = async () => {
      for (const check of checks) await check
      if (entries.length <= CHUNK) return scheduledAll(entries, await this.#put(entries))
      const results: Scheduled[] = []
      try {
        const put = (chunk: readonly NewEntry[]) => this.#put(chunk)
        await pipelined(this.#parts.clock, slicesOf(entries), put, (answers, chunk) => {
          for (const result of scheduledAll(chunk, answers)) results.push(result)
        })
      } catch (error) {
        throw interrupted(results.length, error)
      }
      return results
    }
    return this.#order.run(write, checks.length > 0 || entries.length > CHUNK)
  }

  /** Piece by piece, each checked as a whole. It does not hold up other writes: it may go on for hours. */
  async stream(tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>): Promise<BulkScheduled> {
    const tally = { created: 0, replaced: 0, kept: 0 }
    let prepared = 0
    let accepted = 0
    // One piece is sent after the other, also where a schema takes its time over the first.
    let sent: Promise<unknown> = Promise.resolve()
    const put = async (chunk: readonly NewTask<In>[]) => {
      this.#parts.checkOpen()
      const { entries, checks } = this.#prepareAll(chunk, prepared)
      prepared += chunk.length
      const answers = Promise.all([sent, ...checks]).then(() => ({
        of: this.#order.run(() => this.#put(entries)),
      }))
      sent = handled(answers)
      return (await answers).of
    }
    try {
      await pipelined(this.#parts.clock, chunksOf(tasks), put, (answers, chunk) => {
        for (const { outcome } of answers) tally[outcome]++
        accepted += chunk.length
      })
    } catch (error) {
      throw interrupted(accepted, error)
    }
    return tally
  }

  /**
   * Piece by piece, where what is wrong with one task is told and the others go on. `onRefused` and `onScheduled` get the
   * piece, and the task's place in it.
   */
  async lenient<P extends { readonly tasks: readonly NewTask<In>[] }>(
    pieces: AsyncIterable<P>,
    onRefused: (piece: P, index: number, error: unknown) => void,
    onScheduled: (piece: P, index: number, scheduled: Scheduled) => void,
  ): Promise<void> {
    const put = async (piece: P) => {
      this.#parts.checkOpen()
      const { entries, indexes } = await this.#acceptable(piece, onRefused)
      const answers = entries.length === 0 ? [] : await this.#order.run(() => this.#put(entries))
      return { entries, indexes, answers }
    }
    await pipelined(this.#parts.clock, pieces, put, ({ entries, indexes, answers }, piece) => {
      for (const [i, { key }] of entries.entries())
        onScheduled(piece, indexes[i] as number, scheduled(key, answers[i] as ScheduleAnswer))
    })
  }

  async #acceptable<P extends { readonly tasks: readonly NewTask<In>[] }>(
    piece: P,
    onRefused: (piece: P, index: number, error: unknown) => void,
  ): Promise<{ entries: NewEntry[]; indexes: number[] }> {
    const entries: NewEntry[] = []
    const indexes: number[] = []
    for (const [i, task] of piece.tasks.entries()) {
      try {
        const entry = this.#entry(task)
        const check = this.#check(entry)
        if (check !== undefined) await check
        entries.push(entry)
        indexes.push(i)
      } catch (error) {
        onRefused(piece, i, error)
      }
    }
    return { entries, indexes }
  }

  #put(entries: readonly NewEntry[]): Promise<ScheduleAnswer[]> {
    // Known by now, if it had to be waited for.
    this.#parts.settings.checkPlaced()
    return this.#parts.store.schedule(this.#definition.name, entries, this.#mergeMs)
  }

  get #mergeMs(): number {
    return this.#parts.settings.current.mergeMs
  }

  #checkNow(entry: NewEntry): void {
    if (this.#check(entry) !== undefined) throw schemaIsSlow()
  }

  #prepareAll(
    tasks: readonly NewTask<In>[],
    offset: number,
  ): { entries: NewEntry[]; checks: Promise<void>[] } {
    const checks: Promise<void>[] = []
    const entries = new Array<NewEntry>(tasks.length)
    // Not `map`, which passes over holes.
    for (let i = 0; i < tasks.length; i++) {
      try {
        const entry = this.#entry(tasks[i] as NewTask<In>)
        const check = this.#check(entry)
        if (check !== undefined)
          checks.push(handled(check.catch((error: unknown) => Promise.reject(atIndex(error, offset + i)))))
        entries[i] = entry
      } catch (error) {
        throw atIndex(error, offset + i)
      }
    }
    return { entries, checks }
  }

  #entry(task: NewTask<In>): NewEntry {
    return newEntry(task, this.#parts.settings.current.slotBy, this.#parts.random)
  }

  /** The answer of a schema that needs time for it; a refusal at once is thrown. */
  #check({ body }: NewEntry): Promise<void> | undefined {
    const { schema } = this.#definition
    if (schema === null) return undefined
    const check = checkAgainst(schema, body)
    return check === undefined ? undefined : handled(inTime(this.#parts.clock, check))
  }
}

function schemaIsSlow(): TocsinError {
  return new TocsinError(
    'bad-payload',
    'payload: its schema answers later, and a transaction waits for nothing; use a schema that answers at once',
    { field: 'payload' },
  )
}

/** It is awaited later, perhaps after other writes: until then a refusal must not count as unhandled. */
function handled<T>(check: Promise<T>): Promise<T> {
  check.catch(() => {})
  return check
}

/** Not a closure over the entry, which would be kept until the answer comes: hundreds of thousands may be under way. */
function answered(key: string, answers: Promise<readonly ScheduleAnswer[]>): Promise<Scheduled> {
  return answers.then((all) => scheduled(key, all[0] as ScheduleAnswer))
}

function scheduledAll(entries: readonly NewEntry[], answers: readonly ScheduleAnswer[]): Scheduled[] {
  return entries.map(({ key }, i) => scheduled(key, answers[i] as ScheduleAnswer))
}

function scheduled(key: string, { dueMs, outcome, inFlight }: ScheduleAnswer): Scheduled {
  return { key, dueAt: new Date(dueMs), outcome, inFlight }
}
