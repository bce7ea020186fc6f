/** Processes any number of tasks in batches of at most `BATCH_MAX`. Other code of the process runs between batches. */
import type { Clock } from '../clock.ts'
import { describeError, TocsinError } from '../errors.ts'
import type { Place, Selection } from '../timetable.ts'
import type { TaskStore } from '../store.ts'
import { BATCH_MAX } from '../lib/batch-max.ts'

/** Maximum number of batches sent and not yet answered. The store works while the next batches are prepared. */
const UNANSWERED_MAX = 32

/**
 * Sends batches in order, with up to `UNANSWERED_MAX` batches unanswered, and passes the answers to `take` in order.
 * After a failure, sends no more batches and waits for the answers of all sent batches. Calls `take` for the batches
 * before the first failed batch. Then throws the error.
 */
export async function pipelined<B, A>(
  clock: Clock,
  batches: Iterable<B> | AsyncIterable<B>,
  send: (batch: B) => Promise<A>,
  take: (answer: A, batch: B) => void,
): Promise<void> {
  const unanswered: { batch: B; answer: Promise<A> }[] = []
  const takeOldest = async () => {
    const { answer, batch } = unanswered[0] as { batch: B; answer: Promise<A> }
    take(await answer, batch)
    unanswered.shift()
  }
  try {
    for await (const batch of batches) {
      const answer = send(batch)
      answer.catch(ignore)
      unanswered.push({ batch, answer })
      if (unanswered.length === UNANSWERED_MAX) await takeOldest()
      // Let timers and I/O run between two batches. A call with a single batch is not delayed.
      if (unanswered.length > 1) await clock.turn()
    }
    while (unanswered.length > 0) await takeOldest()
  } catch (error) {
    const answers = await Promise.allSettled(unanswered.map(({ answer }) => answer))
    // The batches before the first failed batch were accepted: take their answers.
    for (const [i, answer] of answers.entries()) {
      if (answer.status === 'rejected') break
      take(answer.value, unanswered[i]?.batch as B)
    }
    throw error
  }
}

/** Yields slices of at most `BATCH_MAX` items. */
export function* batchesOf<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += BATCH_MAX) yield items.slice(at, at + BATCH_MAX)
}

/** Yields batches of at most `BATCH_MAX` items from an iterable of any length. Keeps one batch in memory. */
export async function* batchesOfStream<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = []
  // There are two loops, because `for await` over a plain iterable would await every item.
  if (Symbol.iterator in items) {
    for (const item of items) {
      batch.push(item)
      if (batch.length < BATCH_MAX) continue
      yield batch
      batch = []
    }
  } else {
    for await (const item of items) {
      batch.push(item)
      if (batch.length < BATCH_MAX) continue
      yield batch
      batch = []
    }
  }
  if (batch.length > 0) yield batch
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
      for (const keys of batchesOf(page.keys)) {
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
