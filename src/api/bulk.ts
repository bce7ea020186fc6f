/** Work on any number of tasks, in batches of at most `BATCH_MAX`, that leaves time for other callers in between. */
import type { Clock } from '../clock.ts'
import { describeError, TocsinError } from '../errors.ts'
import type { Place, Selection } from '../timetable.ts'
import type { TaskStore } from '../store.ts'
import { BATCH_MAX } from '../lib/batch-max.ts'

/** Batches sent and not yet answered, so that the store works while the next batches are prepared. */
const UNANSWERED_MAX = 32

/**
 * Sends batches in order, up to `UNANSWERED_MAX` ahead of their answers, and takes the answers in order. After a failure
 * no more batches are sent, the unanswered ones are awaited, and the answers before the first failed one are still taken.
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
      // Let timers and I/O run between batches; a call of a single batch is not delayed.
      if (unanswered.length > 1) await clock.turn()
    }
    while (unanswered.length > 0) await takeOldest()
  } catch (error) {
    const answers = await Promise.allSettled(unanswered.map(({ answer }) => answer))
    // Batches sent before the failed one count as accepted, up to the first gap.
    for (const [i, answer] of answers.entries()) {
      if (answer.status === 'rejected') break
      take(answer.value, unanswered[i]?.batch as B)
    }
    throw error
  }
}

/** Slices of at most `BATCH_MAX`. */
export function* batchesOf<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += BATCH_MAX) yield items.slice(at, at + BATCH_MAX)
}

/** Batches of at most `BATCH_MAX` from an iterable of any length. Holds one batch in memory. */
export async function* batchesOfStream<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T[]> {
  let batch: T[] = []
  // Two loops: `for await` over a plain iterable would await every item.
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

/** Batches of the places that a selection matches, cell by cell. */
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

/** The same error, with the index of the item that caused it. */
export function atIndex(error: unknown, index: number, list = 'tasks'): Error {
  if (!TocsinError.is(error)) return asError(error)
  return new TocsinError(
    error.code,
    `${list}[${index}].${error.message}`,
    { ...error.details, index },
    error.cause,
  )
}

/** The error of a bulk call that failed after `accepted` tasks were written; the plain cause if none were. */
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
