import type { SettleOutcome } from '../timetable.ts'

/**
 * The safety nets. Each of them finds tasks that the usual way has lost. Without faults they have nothing to do.
 *
 * - lease: a lease ended without an outcome, because its holder died or could not extend it
 * - look: the periodic look at a cell found a task of which no wake had told
 * - sweeper: an overdue task of the ledger had no hint in the timetable
 */
export type SafetyNet = 'lease' | 'look' | 'sweeper'

/** Counts tasks for metrics. Its methods are called for every task, so they must be fast and must not throw. */
export interface Meter {
  /**
   * Called when a task is handed to a pull client, or has passed the checks before its guard and handler are called.
   * `latenessMs` counts from the last time the task rang, so the wait before a retry does not count.
   */
  fired(topic: string, latenessMs: number): void
  /**
   * Called when the outcome of a task was recorded. Not called for a task that an HTTP pull settles before a client has
   * it, because it is too late or is given back.
   */
  settled(topic: string, outcome: SettleOutcome['kind']): void
  /** Called when a safety net found `count` tasks. */
  caught(topic: string, net: SafetyNet, count: number): void
}

export const noMeter: Meter = { fired: () => {}, settled: () => {}, caught: () => {} }
