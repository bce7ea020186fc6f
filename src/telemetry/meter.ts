import type { SettleOutcome } from '../timetable.ts'

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
}

export const noMeter: Meter = { fired: () => {}, settled: () => {} }
