import { CHUNK, pipelined, placesOf, slicesOf } from './bulk.ts'
import { describeValue } from '../errors.ts'
import { ringTime, shiftTime } from './new-task.ts'
import { badOption, checkOptions } from '../values/options.ts'
import type { StoreTransaction } from '../store.ts'
import type { Cancelled, Rescheduled, When } from '../task.ts'
import type { CancelAnswer, Place, RescheduleAnswer, Selection } from '../timetable.ts'
import type { RingTime } from '../values/ring-time.ts'
import type { BulkOptions, By, Selector, Shift, WriteOptions } from './topic.ts'
import type { TopicParts } from './topic-parts.ts'
import type { TopicPlaces } from './topic-places.ts'
import type { WriteGate } from './write-gate.ts'

/** What can be done to tasks that are there: cancelled, moved, and if they are dead, replayed or purged. */
export class TopicChanges {
  readonly #name: string
  readonly #parts: TopicParts
  readonly #places: TopicPlaces
  readonly #gate: WriteGate

  constructor(name: string, parts: TopicParts, places: TopicPlaces, gate: WriteGate) {
    this.#name = name
    this.#parts = parts
    this.#places = places
    this.#gate = gate
  }

  cancel(key: string, options?: WriteOptions): Promise<Cancelled> {
    if (options === undefined) return this.#gate.passAlone(() => this.#cancelOne(key))
    return this.#gate.pass(
      options,
      (tx) => cancelled(key, tx.cancel(this.#name, [this.#places.one(key)])),
      () => this.#cancelOne(key),
    )
  }

  cancelMany(keys: readonly string[], options?: WriteOptions): Promise<Cancelled[]> {
    const within = (tx: StoreTransaction): Promise<Cancelled[]> => {
      const places = this.#places.many(keys)
      return tx
        .cancel(this.#name, places)
        .then((answers) => places.map(({ key }, i) => ({ key, outcome: answers[i] ?? 'not-found' })))
    }
    return this.#gate.pass(options, within, async () => {
      const places = this.#places.many(keys)
      const { clock } = this.#parts
      const write = async () => {
        const results: Cancelled[] = []
        const cancel = (chunk: readonly Place[]) => this.#gate.store.cancel(this.#name, chunk)
        await pipelined(clock, slicesOf(places), cancel, (answers, chunk) => {
          for (const [i, { key }] of chunk.entries())
            results.push({ key, outcome: answers[i] ?? 'not-found' })
        })
        return results
      }
      return this.#gate.order.run(write, places.length > CHUNK)
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
        tx.cancelBy(this.#name, this.#places.cellsOf(what), what).then((answers) => {
          count(answers)
          return answers.length
        }),
      step: async (places) => count(await this.#gate.store.cancel(this.#name, places)),
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
    return this.#gate.pass(
      options,
      (tx) => moved(tx.reschedule(this.#name, [this.#places.one(key)], time(), this.#mergeMs)),
      () => {
        const [at, place] = [time(), this.#places.one(key)]
        return moved(this.#gate.order.run(() => this.#move([place], at)))
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
        tx
          .rescheduleBy(this.#name, this.#places.cellsOf(what), what, time(), this.#mergeMs)
          .then((answers) => {
            count(answers)
            return answers.length
          }),
      step: async (places) => count(await this.#move(places, time())),
    })
  }

  async replay(which: Selector): Promise<{ replayed: number }> {
    let replayed = 0
    await this.#eachDead(which, async (places) => {
      const answers = await this.#parts.store.replay(this.#name, places)
      replayed += answers.filter((answer) => answer === 'replayed').length
    })
    return { replayed }
  }

  async purge(which: Selector): Promise<{ purged: number }> {
    let purged = 0
    await this.#eachDead(which, async (places) => {
      const answers = await this.#parts.store.purge(this.#name, places)
      purged += answers.filter((answer) => answer === 'purged').length
    })
    return { purged }
  }

  #move(places: readonly Place[], time: RingTime): Promise<RescheduleAnswer[]> {
    return this.#gate.store.reschedule(this.#name, places, time, this.#mergeMs)
  }

  #cancelOne(key: string): Promise<Cancelled> {
    const place = this.#places.one(key)
    return cancelled(
      key,
      this.#gate.order.run(() => this.#gate.store.cancel(this.#name, [place])),
    )
  }

  get #mergeMs(): number {
    return this.#parts.settings.current.mergeMs
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
      return this.#places.selection(by, 'by')
    }
    return this.#gate.pass(
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
    await this.#gate.order.settled()
    let done = 0
    for await (const places of placesOf(store, clock, this.#name, this.#places.cellsOf(what), among, what)) {
      this.#parts.checkOpen()
      await this.#gate.order.run(() => step(places))
      done += places.length
      options?.onProgress?.(done)
    }
  }

  async #eachDead(which: Selector, step: (places: Place[]) => Promise<void>): Promise<void> {
    this.#parts.checkOpen()
    const ways = ['keys', 'tag', 'prefix', 'all'] as const
    checkOptions(which, ways, 'which')
    // Two ways at once would purge what one of them was meant to spare.
    if (ways.filter((way) => which[way] !== undefined).length !== 1)
      throw badOption('which', "give exactly one of 'keys', 'all', 'tag' and 'prefix'")
    if (which.keys !== undefined) {
      const places = this.#places.many(which.keys)
      return this.#gate.order.run(() => step(places))
    }
    if (which.all === undefined)
      return this.#sweep('dead', this.#places.selection(which, 'which'), undefined, step)
    if (which.all !== true) throw badOption('which', 'write { all: true } to mean all of them')
    return this.#sweep('dead', { all: true }, undefined, step)
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
