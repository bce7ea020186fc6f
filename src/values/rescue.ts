/** How tasks come back whose lease ran out: the rule of every store that keeps count of it in this process. */

/** Expired claims that one call rescues, so that a claim stays short after a crash or a stall. */
export const RESCUES_PER_CLAIM = 4

/** Leases lost in a row that make a task a suspect, to be claimed alone. */
export const LOSSES_OF_A_SUSPECT = 2

/**
 * What a killer took down with it comes back spread over up to this · 2^losses, not all in one batch again. From the second
 * loss on it runs alone, and more than some seconds more would only have it wait.
 */
export const RESCUE_SPREAD_MS = 1_000
export const RESCUE_DOUBLINGS_MAX = 4

const GOLDEN = 0.6180339887498949

/** Steps of the golden ratio from a random start: batch-mates of a killer come back far apart. */
export function nextSpread(spread: number): number {
  return (spread + GOLDEN) % 1
}

/** How long a task waits that lost so many leases in a row; `spread` is a fraction of 0 to 1. */
export function rescueDelayMs(spread: number, lost: number): number {
  return Math.ceil(spread * RESCUE_SPREAD_MS * 2 ** Math.min(lost, RESCUE_DOUBLINGS_MAX))
}

/** `lost` may be a placeholder, for a store that fills it in by itself. */
export function poisonText(lost: number | '%s'): string {
  return `its lease ran out ${lost} times in a row, the last time running alone`
}
