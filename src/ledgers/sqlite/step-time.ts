/**
 * The time of a step, on two clocks. The wall clock decides whether a task is due. The monotonic clock, which is never
 * set back, decides whether a lease has expired.
 */
export interface StepTime {
  /** The time of the wall clock, in Unix milliseconds. */
  readonly nowMs: number
  /** The time of the monotonic clock, in milliseconds. */
  readonly steadyMs: number
}
