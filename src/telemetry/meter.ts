import type { SettleOutcome } from '../timetable.ts'

/** Receives events for metrics. Called for every task: an implementation must be fast and must not throw. */
export interface Meter {
  /** A task was handed to a handler or to a pull client. Lateness is counted from this ring, so the wait of a retry does not count. */
  fired(topic: string, latenessMs: number): void
  /** The outcome of a task was recorded. */
  settled(topic: string, outcome: SettleOutcome['kind']): void
}

export const noMeter: Meter = { fired: () => {}, settled: () => {} }
