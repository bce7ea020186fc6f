/** The rows of hints that PostgreSQL returns. */
import type { Hint } from '../../hint-table.ts'
import { hintOf } from '../rows.ts'

/** The columns of a hint. `leaseMs` is null if the task is not claimed. */
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
  // The lease has expired. The next claim will count it as lost.
  return hintOf({ ...row, lost: lost + 1 })
}
