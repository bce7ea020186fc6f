/** Work over any number of tasks, in pieces of bounded size, with room for others in between. */
import type { Clock } from './clock.ts'
import { describeError, TocsinError } from './errors.ts'
import type { Place, Selection, Timetable } from './timetable.ts'

/** One call moves at most this many tasks. */
export const CHUNK = 1_000

/** The places of what is selected, cell by cell, in pieces. */
export async function* placesOf(
  timetable: Timetable,
  clock: Clock,
  topic: string,
  cells: readonly number[],
  among: 'live' | 'dead',
  what: Selection,
): AsyncGenerator<Place[]> {
  for (const cell of cells) {
    let cursor: string | null = null
    do {
      const page = await timetable.find({ topic, cell }, among, what, cursor)
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
  if (accepted === 0) return cause
  return new TocsinError(
    'interrupted',
    `the first ${accepted} tasks are in, then: ${cause.message}`,
    { accepted },
    cause,
  )
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(describeError(thrown))
}
