import type { Rate } from '../lib/rate-limiter.ts'

/**
 * Returns a node's part of a topic's rate: the sum of the parts of the slots that the node pulls. The part of a slot is
 * a whole number, and the parts of all slots add up to exactly the limit, so no central counter is needed. A limit
 * below the number of slots cannot be divided into whole numbers. Then each node gets a whole number of tasks per
 * longer period, and the rate is met on average.
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
