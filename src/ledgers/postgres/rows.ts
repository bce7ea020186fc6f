/** The rows of hints that PostgreSQL returns. */
import type { Hint } from '../../hint-table.ts'
import { hintOf } from '../rows.ts'

/**
 * The columns of a hint. `leaseMs` is the end of the lease, or null if the task is not claimed. `nowMs` is the time of
 * the statement. Both are in Unix milliseconds.
 */
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
  // The lease has expired. The next claim will count a lost lease. The hint counts it already, because this loss may
  // make the task a suspect.
  return hintOf({ ...row, lost: lost + 1 })
}
