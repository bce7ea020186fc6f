/** The order of listings: by ring time, then fewer failures first, then by the bytes of the key, as stores have it. */

/** The position of a task in a listing: what a cursor holds. */
export interface ListPosition {
  readonly ringMs: number
  readonly failures: number
  readonly key: string
}

/** Of a live or an ended task; `generation` tells ended tasks of one key apart. */
interface Listed extends ListPosition {
  readonly state: string
  readonly generation?: number
}

export function positionOf({ ringMs, failures, key, state, generation = 0 }: Listed): ListPosition {
  // What has ended lies in the order in which it did; how often it failed plays no part. But of one key several may
  // have ended in one moment.
  const isLive = state === 'pending' || state === 'claimed'
  return { ringMs, failures: isLive ? failures : generation, key }
}

export function comparePositions(a: ListPosition, b: ListPosition): number {
  return a.ringMs - b.ringMs || a.failures - b.failures || compareKeys(a.key, b.key)
}

interface RingOrder {
  readonly ringMs: number
  readonly cell: number
  readonly key: string
}

/** The order of hints: by ring time, then by place. */
export function compareFrontiers(a: RingOrder, b: RingOrder): number {
  // Not their difference: nowhere is before any time, and not a number away from itself.
  if (a.ringMs !== b.ringMs) return a.ringMs < b.ringMs ? -1 : 1
  return a.cell - b.cell || compareKeys(a.key, b.key)
}

const SURROGATE = /[\ud800-\udfff]/

/** JavaScript compares UTF-16 units, which differs from the order of the bytes only above U+FFFF. */
export function compareKeys(a: string, b: string): number {
  if (a === b) return 0
  if (SURROGATE.test(a) || SURROGATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : 1
}
