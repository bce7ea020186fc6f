import { describeValue } from '../errors.ts'
import type { StoreTransaction } from '../store.ts'
import type { When } from '../task.ts'
import type { CancelAnswer, Place, RescheduleAnswer, Selection } from '../timetable.ts'
import { badOption, checkOptions } from '../values/options.ts'
import { findPlaces } from './bulk.ts'
import { ringTime, shiftTime } from '../values/ring-time.ts'
import { cellsOf, placesOf, selectionOf } from './places.ts'
import type { TopicWrites, WriteParts } from './topic-writes.ts'
import type { BulkOptions, By, Replayed, Selector, Shift } from './topic.ts'

/** The part of `TopicWrites` that passes a write to the store. */
type WritePath = Pick<TopicWrites<unknown>, 'run' | 'queue' | 'store'>

/** A write to every live task of a selection. */
interface BulkWrite {
  /** Throws if an argument is invalid. */
  readonly check?: () => void
  /** Writes to all selected tasks in the caller's transaction. Returns the number of tasks found. */
  readonly within: (tx: StoreTransaction, what: Selection, cells: readonly number[]) => Promise<number>
  /** Writes to one batch of tasks. */
  readonly step: (places: Place[]) => Promise<void>
}

/**
 * Cancels and reschedules live tasks by tag or prefix, and replays and purges dead tasks. With a transaction of the
 * caller, one call to the store finds the selected tasks and writes to them. Without one, finds the selected tasks in
 * batches, and writes to each batch before it finds the next batch.
 */
export class BulkWrites {
  readonly #name: string
  readonly #parts: WriteParts
  readonly #writes: WritePath

  constructor(name: string, parts: WriteParts, writes: WritePath) {
    this.#name = name
    this.#parts = parts
    this.#writes = writes
  }

  cancelBy(by: By, options?: BulkOptions): Promise<{ cancelled: number; inFlight: number }> {
    const tally = { cancelled: 0, inFlight: 0 }
    const count = (answers: readonly CancelAnswer[]) => {
      tally.cancelled += answers.filter((answer) => answer === 'cancelled').length
      tally.inFlight += answers.filter((answer) => answer === 'in-flight').length
      return answers.length
    }
    return this.#writeBy(by, options, tally, {
      within: (tx, what, cells) => tx.cancelBy(this.#name, cells, what).then(count),
      step: async (places) => void count(await this.#writes.store.cancel(this.#name, places)),
    })
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
      return answers.length
    }
    const { settings } = this.#parts
    return this.#writeBy(by, options, tally, {
      check: () => void time(),
      within: (tx, what, cells) =>
        tx.rescheduleBy(this.#name, cells, what, time(), settings.current.mergeMs).then(count),
      step: async (places) => {
        const { store } = this.#writes
        count(await store.reschedule(this.#name, places, time(), settings.current.mergeMs))
      },
    })
  }

  async replay(which: Selector): Promise<Replayed> {
    const tally = { replayed: 0, superseded: 0 }
    await this.#eachDead(which, async (places) => {
      // The newer task of a key may have done the work, or was cancelled. So an older one comes back only by its key.
      const replayable = which.keys === undefined ? 'newest' : 'any'
      const answers = await this.#parts.store.replay(this.#name, places, replayable)
      tally.replayed += answers.filter((answer) => answer === 'replayed').length
      tally.superseded += answers.filter((answer) => answer === 'superseded' || answer === 'live').length
    })
    return tally
  }

  async purge(which: Selector): Promise<{ purged: number }> {
    let purged = 0
    await this.#eachDead(which, async (places) => {
      const answers = await this.#parts.store.purge(this.#name, places)
      purged += answers.filter((answer) => answer === 'purged').length
    })
    return { purged }
  }

  #writeBy<T>(
    by: By,
    options: BulkOptions | undefined,
    tally: T,
    { check, within, step }: BulkWrite,
  ): Promise<T> {
    const selection = () => {
      checkProgress(options)
      check?.()
      return selectionOf(by, 'by')
    }
    return this.#writes.run(options, {
      within: (tx) => {
        const what = selection()
        return within(tx, what, this.#cellsOf(what)).then((done) => {
          options?.onProgress?.(done)
          return tally
        })
      },
      alone: async () => {
        await this.#eachBatch('live', selection(), options, step)
        return tally
      },
      optionNames: ['tx', 'onProgress'],
    })
  }

  async #eachDead(which: Selector, step: (places: Place[]) => Promise<void>): Promise<void> {
    this.#parts.checkOpen()
    const ways = ['keys', 'tag', 'prefix', 'all'] as const
    checkOptions(which, ways, 'which')
    // Allow one condition only: two conditions are ambiguous, and a purge cannot be undone.
    if (ways.filter((way) => which[way] !== undefined).length !== 1)
      throw badOption('which', "give exactly one of 'keys', 'all', 'tag' and 'prefix'")
    if (which.keys !== undefined) {
      const places = placesOf(which.keys, this.#parts.settings.current.slotBy)
      return this.#writes.queue.run(() => step(places))
    }
    if (which.all === undefined) return this.#eachBatch('dead', selectionOf(which, 'which'), undefined, step)
    if (which.all !== true) throw badOption('which', 'write { all: true } to mean all of them')
    return this.#eachBatch('dead', { all: true }, undefined, step)
  }

  async #eachBatch(
    among: 'live' | 'dead',
    what: Selection,
    options: BulkOptions | undefined,
    step: (places: Place[]) => Promise<void>,
  ): Promise<void> {
    const { store, clock } = this.#parts
    const { queue } = this.#writes
    // Wait for earlier writes: `findPlaces` finds only tasks that are in the store.
    await queue.settled()
    let done = 0
    for await (const places of findPlaces(store, clock, this.#name, this.#cellsOf(what), among, what)) {
      this.#parts.checkOpen()
      await queue.run(() => step(places))
      done += places.length
      options?.onProgress?.(done)
    }
  }

  #cellsOf(what: Selection): readonly number[] {
    return cellsOf(what, this.#parts.settings.current.slotBy)
  }
}

function checkProgress(options: BulkOptions | undefined): void {
  const onProgress: unknown = options?.onProgress
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw badOption('onProgress', `expected a function, got ${describeValue(onProgress)}`)
}
