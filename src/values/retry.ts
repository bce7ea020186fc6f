/** How often a failed task is retried, and how long it waits before each retry, in ms. */
export interface RetryPolicy {
  readonly maxAttempts: number
  readonly backoff: 'exponential' | 'fixed'
  readonly minMs: number
  readonly maxMs: number
  /** With 0.2, each wait varies by up to ±20 %, so that tasks that failed together are not retried together. */
  readonly jitter: number
}

/** Returns the wait after a failed attempt. `failures` counts that attempt too. `fraction` is random, 0 ≤ x < 1. */
export function backoffMs(policy: RetryPolicy, failures: number, fraction: number): number {
  // Limit the exponent, so that minMs * growth stays finite. 2^60 ms is longer than any maxMs.
  const growth = policy.backoff === 'fixed' ? 1 : 2 ** Math.min(failures - 1, 60)
  const plainMs = Math.min(policy.minMs * growth, policy.maxMs)
  return Math.round(plainMs * (1 + policy.jitter * (2 * fraction - 1)))
}
