import { crc32 } from '../lib/crc32.ts'

/**
 * Computes the cell of a task from its key, or from the key's prefix if the topic's `slotBy` is 'prefix'. The cell of a
 * key never changes. A change of the number of slots moves no task: it only assigns the cells to other pullers. A cell
 * has 16 buckets, which leaves room for a finer division later.
 *
 *     slotBy 'key':    key ──────┐
 *                                ├─ crc32 & 1023 ─▶ bucket (0–1023) ─ & 63 ─▶ cell (0–63) ─ & (slots − 1) ─▶ slot
 *     slotBy 'prefix': prefix ───┘
 */
export const BUCKETS = 1024
export const CELLS = 64

export const ALL_CELLS: readonly number[] = Array.from({ length: CELLS }, (_, cell) => cell)

export type SlotBy = 'key' | 'prefix'

/** Returns the part of a key before its first ':'; the whole key if it has no ':'. */
export function prefixOf(key: string): string {
  const colon = key.indexOf(':')
  return colon === -1 ? key : key.slice(0, colon)
}

export function bucketOf(key: string, slotBy: SlotBy): number {
  return crc32(slotBy === 'prefix' ? prefixOf(key) : key) & (BUCKETS - 1)
}

export function cellOf(key: string, slotBy: SlotBy): number {
  return bucketOf(key, slotBy) & (CELLS - 1)
}

/** Returns the cells that the puller of `slot` pulls, if there are `slots` slots. */
export function cellsOfSlot(slot: number, slots: number): number[] {
  const cells: number[] = []
  for (let cell = slot; cell < CELLS; cell += slots) cells.push(cell)
  return cells
}
