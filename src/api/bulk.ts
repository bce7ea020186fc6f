/**
 * Processes any number of tasks in batches. The number of tasks and the size of payloads are limited, in a batch and in
 * all batches under way. Other code of the process runs between batches.
 */
import type { Clock } from '../clock.ts'
import { describeError, TocsinError } from '../errors.ts'
import type { Place, Selection } from '../timetable.ts'
import type { TaskStore } from '../store.ts'
import type { RingTime } from '../values/ring-time.ts'
import { BATCH_BYTES_MAX, BATCH_MAX } from '../lib/batch-max.ts'

/** No further batch is sent while so many tasks are unanswered. The store works while the next batches are prepared. */
const UNANSWERED_MAX = 32 * BATCH_MAX
/** No further batch is sent while the payloads of unanswered batches have this size or more. */
const UNANSWERED_BYTES_MAX = 8 * BATCH_BYTES_MAX

/** Some items of a bulk call, and the size of their payloads. */
export interface Batch<T> {
  readonly items: readonly T[]
  readonly bytes: number
}

/**
 * Sends batches in order, while fewer than `UNANSWERED_MAX` tasks and `UNANSWERED_BYTES_MAX` bytes are unanswered. Passes the
 * answers to `take` in order. After a failure, sends no more batches and waits for the answers of all sent batches.
 * Calls `take` for the batches before the first failed batch. Then throws the error.
 */
export async function pipelined<T, A>(
  clock: Clock,
  batches: Iterable<Batch<T>> | AsyncIterable<Batch<T>>,
  send: (items: readonly T[]) => Promise<A>,
  take: (answer: A, items: readonly T[]) => void,
): Promise<void> {
  const unanswered: { batch: Batch<T>; answer: Promise<A> }[] = []
  let count = 0
  let bytes = 0
  const isFull = () => count >= UNANSWERED_MAX || bytes >= UNANSWERED_BYTES_MAX
  const takeOldest = async () => {
    const { answer, batch } = unanswered[0] as { batch: Batch<T>; answer: Promise<A> }
    take(await answer, batch.items)
    unanswered.shift()
    count -= batch.items.length
    bytes -= batch.bytes
  }
  try {
    for await (const batch of batches) {
      const answer = send(batch.items)
      answer.catch(ignore)
      unanswered.push({ batch, answer })
      count += batch.items.length
      bytes += batch.bytes
      while (isFull()) await takeOldest()
      // Let timers and I/O run between two batches. A call with a single batch is not delayed.
      if (unanswered.length > 1) await clock.turn()
    }
    while (unanswered.length > 0) await takeOldest()
  } catch (error) {
    const answers = await Promise.allSettled(unanswered.map(({ answer }) => answer))
    // The batches before the first failed batch were accepted: take their answers.
    for (const [i, answer] of answers.entries()) {
      if (answer.status === 'rejected') break
      take(answer.value, (unanswered[i] as { batch: Batch<T> }).batch.items)
    }
    throw error
  }
}

/** A task that is due within this time is due soon. A large batch is written in less. */
const SOON_MS = 2_000

/** Items without payloads have no size. */
const noBytes = () => 0

/** The maximum size of a batch, or a function that returns it for a new batch, given an item of the batch. */
export type BatchLimit<T> = number | (() => (item: T) => number)

/**
 * Returns the limit of batches of new tasks. A batch is answered as a whole, and with a ledger its tasks are in the hint
 * table only then. So a batch with a task that is due soon is small.
 */
export function limitByTime(clock: Clock, bulkMax: number): BatchLimit<{ readonly when: RingTime }> {
  return () => {
    const soonMs = clock.now() + SOON_MS
    const isSoon = ({ kind, ms }: RingTime) => ms < (kind === 'at' ? soonMs : SOON_MS)
    return ({ when }) => (isSoon(when) ? Math.min(BATCH_MAX, bulkMax) : bulkMax)
  }
}

/** Yields the items in batches of up to `limit` items. `bytesOf` returns the size of an item's payload. */
export function* batchesOf<T>(
  items: readonly T[],
  limit: BatchLimit<T>,
  bytesOf: (item: T) => number = noBytes,
): Generator<Batch<T>> {
  let draft = new Draft<T>(limit)
  for (const item of items) {
    draft.add(item, bytesOf(item))
    if (!draft.isFull) continue
    yield draft
    draft = new Draft(limit)
  }
  if (draft.items.length > 0) yield draft
}

/**
 * Converts the items of an iterable of any length, and yields them in batches of up to `limit` items. Keeps one batch in
 * memory. `convert` may throw, which ends the iteration. The first batches are smaller, so that the store begins its work
 * early. The items of an async iterable may come slowly: its batches have up to `BATCH_MAX` items, so that the first ones
 * do not wait for long.
 */
export async function* batchesOfStream<S, T>(
  clock: Clock,
  items: Iterable<S> | AsyncIterable<S>,
  limit: BatchLimit<T>,
  convert: (item: S) => T,
  bytesOf: (item: T) => number,
): AsyncGenerator<Batch<T>> {
  const isPlain = Symbol.iterator in items
  let max = 2 * BATCH_MAX
  const make = () => new Draft<T>(isPlain ? limit : BATCH_MAX, max)
  let draft = make()
  const add = (given: S) => {
    const item = convert(given)
    draft.add(item, bytesOf(item))
  }
  // There are two loops, because `for await` over a plain iterable would await every item.
  if (isPlain) {
    for (const item of items) {
      add(item)
      if (draft.isFull) {
        yield draft
        max *= 2
        draft = make()
      } else if (draft.items.length % BATCH_MAX === 0) {
        // Converting a large batch takes tens of milliseconds. Let timers and I/O run meanwhile.
        await clock.turn()
      }
    }
  } else {
    for await (const item of items) {
      add(item)
      if (!draft.isFull) continue
      yield draft
      draft = make()
    }
  }
  if (draft.items.length > 0) yield draft
}

/** A batch that grows until it has as many items as the smallest limit of its items, or `BATCH_BYTES_MAX` bytes. */
class Draft<T> implements Batch<T> {
  readonly items: T[] = []
  readonly #maxOf: ((item: T) => number) | null
  #max: number
  bytes = 0

  constructor(limit: BatchLimit<T>, max = Number.POSITIVE_INFINITY) {
    this.#maxOf = typeof limit === 'number' ? null : limit()
    this.#max = typeof limit === 'number' ? Math.min(limit, max) : max
  }

  get isFull(): boolean {
    return this.items.length >= this.#max || this.bytes >= BATCH_BYTES_MAX
  }

  add(item: T, bytes: number): void {
    if (this.#maxOf !== null) this.#max = Math.min(this.#max, this.#maxOf(item))
    this.items.push(item)
    this.bytes += bytes
  }
}

/** Yields the places (key and cell) of all selected tasks, in batches. Each batch has tasks of one cell. */
export async function* findPlaces(
  store: TaskStore,
  clock: Clock,
  topic: string,
  cells: readonly number[],
  among: 'live' | 'dead',
  what: Selection,
): AsyncGenerator<Place[]> {
  for (const cell of cells) {
    let cursor: string | null = null
    do {
      const page = await store.find({ topic, cell }, among, what, cursor)
      for (const { items: keys } of batchesOf(page.keys, BATCH_MAX)) {
        yield keys.map((key) => ({ key, cell }))
        await clock.turn()
      }
      cursor = page.cursor
    } while (cursor !== null)
  }
}

/** Returns a copy of a `TocsinError` with the index of the item that caused it. Returns any other error unchanged. */
export function atIndex(error: unknown, index: number, list = 'tasks'): Error {
  if (!TocsinError.is(error)) return asError(error)
  return new TocsinError(
    error.code,
    `${list}[${index}].${error.message}`,
    { ...error.details, index },
    error.cause,
  )
}

/**
 * Returns the error that a bulk call throws after one of its batches failed with `error`. `accepted` is the number of
 * tasks in the batches before the failed batch. If `accepted` is 0, returns `error`. Otherwise returns 'interrupted'
 * with the number of all written tasks: `accepted`, plus the tasks that the failed batch has written
 * (`error.details.accepted`).
 */
export function interrupted(accepted: number, error: unknown): Error {
  const cause = asError(error)
  const inLast = TocsinError.is(cause) ? Number(cause.details['accepted'] ?? 0) : 0
  if (accepted === 0) return cause
  return new TocsinError(
    'interrupted',
    `the first ${accepted + inLast} tasks are in, then: ${cause.message}`,
    { accepted: accepted + inLast },
    cause,
  )
}

function ignore(): void {}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(describeError(thrown))
}
