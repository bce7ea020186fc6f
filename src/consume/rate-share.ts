import type { Rate } from '../lib/rate-limiter.ts'

/**
 * Returns a node's part of a topic's rate. Each slot has a whole number of the limit, and all slots together have exactly
 * the limit; a node has the sum of the slots that it owns. No central counter is needed. A limit below the number of slots
 * cannot be divided into whole numbers: each node then gets fewer tasks per longer span, and the rate holds on average.
 */
export function rateOfShare(
  rate: Rate | null,
  { owned, slots }: { readonly owned: readonly number[]; readonly slots: number },
): Rate | null {
  if (rate === null || owned.length === slots || owned.length === 0) return rate
  const { limit, perMs } = rate
  if (limit < slots) {
    const part = (limit * owned.length) / slots
    const whole = Math.max(1, Math.floor(part))
    return { limit: whole, perMs: (perMs * whole) / part }
  }
  const upTo = (slot: number) => Math.floor((slot * limit) / slots)
  return { limit: owned.reduce((sum, slot) => sum + upTo(slot + 1) - upTo(slot), 0), perMs }
}
