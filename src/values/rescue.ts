/** The rules by which a task rings again after its lease expired. The Lua scripts for Redis have the same rules. */

/** The maximum number of expired claims that one claim call rescues. Keeps the call short after a crash or a stall. */
export const RESCUES_PER_CLAIM = 4

/** The number of lost leases in a row after which a task is a suspect. A suspect is claimed alone. */
export const LOSSES_OF_A_SUSPECT = 2

/**
 * The rescued tasks of a claim ring again at different times, spread over `RESCUE_SPREAD_MS` · 2^losses. So a task that
 * crashed a process is not in one batch with the same tasks again. `RESCUE_DOUBLINGS_MAX` limits the exponent: after
 * two losses a task runs alone, and a longer delay would only make it late.
 */
export const RESCUE_SPREAD_MS = 1_000
export const RESCUE_DOUBLINGS_MAX = 4

const GOLDEN = 0.6180339887498949

/**
 * Returns the `spread` of the next rescued task, a fraction from 0 to 1. Steps by the golden ratio, from a random
 * start, keep the tasks of a batch far apart.
 */
export function nextSpread(spread: number): number {
  return (spread + GOLDEN) % 1
}

/** Returns the delay until a task that lost `lost` leases in a row rings again. `spread` is a fraction from 0 to 1. */
export function rescueDelayMs(spread: number, lost: number): number {
  return Math.ceil(spread * RESCUE_SPREAD_MS * 2 ** Math.min(lost, RESCUE_DOUBLINGS_MAX))
}

/** Returns the error text of a poison task. `lost` is '%s' for a store that inserts the number itself. */
export function poisonText(lost: number | '%s'): string {
  return `its lease ran out ${lost} times in a row, the last time running alone`
}
