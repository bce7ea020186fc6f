/** When a step takes place. Tasks are due by the wall clock. Leases end by the monotonic clock, which is never set back. */
export interface StepTime {
  /** Wall clock, Unix milliseconds. */
  readonly nowMs: number
  /** Monotonic clock, milliseconds. */
  readonly steadyMs: number
}
