/** Rows as PostgreSQL tells them. */
import type { Hint } from '../../hint-table.ts'
import { hintOf } from '../rows.ts'

/** What is read to make a hint. The lease is null when nobody holds it. */
export type HintRow = [
  key: string,
  cell: number,
  ringMs: number,
  failures: number,
  priority: number,
  lost: number,
  leaseMs: number | null,
  nowMs: number,
]

export function hintOfRow([key, cell, ring_ms, failures, priority, lost, leaseMs, nowMs]: HintRow): Hint {
  const row = { key, cell, ring_ms, failures, priority, lost }
  if (leaseMs === null) return hintOf(row)
  if (leaseMs > nowMs) return hintOf(row, leaseMs)
  // Its lease is over, and the next claim will find it so.
  return hintOf({ ...row, lost: lost + 1 })
}
