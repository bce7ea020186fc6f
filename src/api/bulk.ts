/** Work over any number of tasks, in pieces of bounded size, with room for others in between. */
import type { Clock } from '../clock.ts'
import { describeError, TocsinError } from '../errors.ts'
import type { Place, Selection } from '../timetable.ts'
import type { TaskStore } from '../store.ts'

/** One call moves at most this many tasks. */
export const CHUNK = 1_000

/** Pieces that may be under way at once, so that the store works while the next ones are made. */
const AHEAD = 32

/**
 * Sends pieces in order, some ahead of their answers, and takes the answers in order. When one fails, no more are
 * sent, those under way are waited for, and what was taken before stays taken.
 */
export async function pipelined<P, A>(
  clock: Clock,
  pieces: Iterable<P> | AsyncIterable<P>,
  send: (piece: P) => Promise<A>,
  take: (answer: A, piece: P) => void,
): Promise<void> {
  const underWay: { piece: P; answer: Promise<A> }[] = []
  const takeOldest = async () => {
    const { answer, piece } = underWay[0] as { piece: P; answer: Promise<A> }
    take(await answer, piece)
    underWay.shift()
  }
  try {
    for await (const piece of pieces) {
      const answer = send(piece)
      answer.catch(ignore)
      underWay.push({ piece, answer })
      if (underWay.length === AHEAD) await takeOldest()
      // Others get their turn, too; a single piece has nobody to wait for.
      if (underWay.length > 1) await clock.turn()
    }
    while (underWay.length > 0) await takeOldest()
  } catch (error) {
    const answers = await Promise.allSettled(underWay.map(({ answer }) => answer))
    // What was sent before the failure counts, as far as it goes without a gap.
    for (const [i, answer] of answers.entries()) {
      if (answer.status === 'rejected') break
      take(answer.value, underWay[i]?.piece as P)
    }
    throw error
  }
}

/** Slices of at most `CHUNK`. */
export function* slicesOf<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < items.length; at += CHUNK) yield items.slice(at, at + CHUNK)
}

/** The places of what is selected, cell by cell, in pieces. */
export async function* placesOf(
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
      for (let at = 0; at < page.keys.length; at += CHUNK) {
        yield page.keys.slice(at, at + CHUNK).map((key) => ({ key, cell }))
        await clock.turn()
      }
      cursor = page.cursor
    } while (cursor !== null)
  }
}

/** Pieces of `CHUNK`, from anything that can be looped over. */
export async function* chunksOf<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T[]> {
  let chunk: T[] = []
  if (Symbol.iterator in items) {
    for (const item of items) {
      chunk.push(item)
      if (chunk.length < CHUNK) continue
      yield chunk
      chunk = []
    }
  } else {
    for await (const item of items) {
      chunk.push(item)
      if (chunk.length < CHUNK) continue
      yield chunk
      chunk = []
    }
  }
  if (chunk.length > 0) yield chunk
}

/** The same error, saying which of many it is about. */
export function atIndex(error: unknown, index: number, list = 'tasks'): Error {
  if (!TocsinError.is(error)) return asError(error)
  return new TocsinError(
    error.code,
    `${list}[${index}].${error.message}`,
    { ...error.details, index },
    error.cause,
  )
}

/** Part of a bulk call is in; the caller must know how much. */
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
