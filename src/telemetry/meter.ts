import type { SettleOutcome } from '../timetable.ts'

/** Whoever counts what happens, for figures. Called for every task: it must be quick, and never throws. */
export interface Meter {
  /** A task was handed to a handler, or to whoever pulls; so much later than it was to ring, this time: a retry that was to wait is not late. */
  fired(topic: string, latenessMs: number): void
  /** Its outcome was recorded. */
  settled(topic: string, outcome: SettleOutcome['kind']): void
}

export const noMeter: Meter = { fired: () => {}, settled: () => {} }
