/**
 * The time of a step, on two clocks. The wall clock decides whether a task is due. The monotonic clock, which is never
 * set back, decides whether a lease has expired.
 */
export interface StepTime {
  /** Wall clock, Unix milliseconds. */
  readonly nowMs: number
  /** Monotonic clock, milliseconds. */
  readonly steadyMs: number
}
