import type { Rate } from '../lib/rate-limiter.ts'

/**
 * A node's part of a topic's rate. Each slot has a whole part of the limit, so that all of them together make it up; a
 * node has those of the slots that it owns. Nobody counts centrally. Where the limit is smaller than the number of slots,
 * that cannot be done in whole numbers: each node takes fewer tasks in a longer span, and the rate holds on average.
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
