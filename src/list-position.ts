/** The order of listings: by ring time, then fewer failures first, then by the bytes of the key, as stores have it. */
import type { EntryView, ListPosition } from './timetable.ts'

export function positionOf({ ringMs, failures, key, state }: EntryView): ListPosition {
  // The dead lie in the order in which they died; how often they failed plays no part.
  return { ringMs, failures: state === 'dead' ? 0 : failures, key }
}

export function comparePositions(a: ListPosition, b: ListPosition): number {
  return a.ringMs - b.ringMs || a.failures - b.failures || compareKeys(a.key, b.key)
}

const SURROGATE = /[\ud800-\udfff]/

/** JavaScript compares UTF-16 units, which differs from the order of the bytes only above U+FFFF. */
function compareKeys(a: string, b: string): number {
  if (a === b) return 0
  if (SURROGATE.test(a) || SURROGATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : 1
}
