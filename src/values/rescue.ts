/** How a task rings again after its lease ran out. Shared by the stores that apply this rule in JavaScript. */

/** Most expired claims that one claim call rescues, so that the call stays short after a crash or a stall. */
export const RESCUES_PER_CLAIM = 4

/** After this many lost leases in a row a task is a suspect, and is claimed alone. */
export const LOSSES_OF_A_SUSPECT = 2

/**
 * Rescued tasks ring again spread over up to `RESCUE_SPREAD_MS` · 2^losses, so that the task that crashed a process is not in
 * one batch with the same tasks again. The doublings are limited: from the second loss on a task runs alone, and a longer
 * delay would only make it late.
 */
export const RESCUE_SPREAD_MS = 1_000
export const RESCUE_DOUBLINGS_MAX = 4

const GOLDEN = 0.6180339887498949

/** Steps by the golden ratio from a random start, which keeps the tasks of one batch far apart. */
export function nextSpread(spread: number): number {
  return (spread + GOLDEN) % 1
}

/** Returns the delay of a task that lost `lost` leases in a row. `spread` is a fraction from 0 to 1. */
export function rescueDelayMs(spread: number, lost: number): number {
  return Math.ceil(spread * RESCUE_SPREAD_MS * 2 ** Math.min(lost, RESCUE_DOUBLINGS_MAX))
}

/** `lost` may be the placeholder of a store that fills in the number itself. */
export function poisonText(lost: number | '%s'): string {
  return `its lease ran out ${lost} times in a row, the last time running alone`
}
