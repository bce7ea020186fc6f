/** The order in which all stores list live tasks: by ring time, then by failures, then by the bytes of the key. */

/** The position of a task in a listing. A cursor encodes a position. */
export interface ListPosition {
  readonly ringMs: number
  readonly failures: number
  readonly key: string
}

/** A live or an ended task. `generation` distinguishes the ended tasks of one key. */
interface Listed extends ListPosition {
  readonly state: string
  readonly generation?: number
}

export function positionOf({ ringMs, failures, key, state, generation = 0 }: Listed): ListPosition {
  // `ringMs` of an ended task is the time of its end. Several tasks of one key may have ended in the same millisecond.
  // So for ended tasks, the generation takes the place of the failures.
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

/** Compares hints by ring time, then by cell, then by key. */
export function compareFrontiers(a: RingOrder, b: RingOrder): number {
  // Do not subtract: the ring time of the frontier before all hints is -Infinity, and -Infinity - -Infinity is NaN.
  if (a.ringMs !== b.ringMs) return a.ringMs < b.ringMs ? -1 : 1
  return a.cell - b.cell || compareKeys(a.key, b.key)
}

const SURROGATE = /[\ud800-\udfff]/

/** Compares by UTF-8 bytes. JavaScript compares UTF-16 units; the orders differ only for characters above U+FFFF. */
export function compareKeys(a: string, b: string): number {
  if (a === b) return 0
  if (SURROGATE.test(a) || SURROGATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : 1
}
