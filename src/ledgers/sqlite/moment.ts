/** When a step takes place. Tasks are due by the wall clock; leases end by the steady one, which no step can move. */
export interface Moment {
  readonly nowMs: number
  readonly steadyMs: number
}
