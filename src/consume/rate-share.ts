import type { Rate } from '../lib/rate-limiter.ts'

/**
 * Divides a topic's rate among the nodes, so that no central counter is needed. Returns a node's part: the sum of the
 * parts of the slots that the node pulls. The part of a slot is a whole number, and the parts of all slots add up to
 * exactly the limit. A limit below the number of slots cannot be divided into whole numbers. Then each node gets a
 * whole number of tasks per longer period, and the rate is met on average. The period is never shorter than that of the
 * rate: two shorter periods, one at each end, would fit into one of the rate. Null means that the topic has no rate limit.
 * A node without slots gets the whole rate, but it claims nothing.
 */
export function rateOfShare(
  rate: Rate | null,
  { owned, slots }: { readonly owned: readonly number[]; readonly slots: number },
): Rate | null {
  if (rate === null || owned.length === slots || owned.length === 0) return rate
  const { limit, perMs } = rate
  if (limit < slots) {
    const part = (limit * owned.length) / slots
    const whole = Math.ceil(part)
    return { limit: whole, perMs: (perMs * whole) / part }
  }
  const upTo = (slot: number) => Math.floor((slot * limit) / slots)
  return { limit: owned.reduce((sum, slot) => sum + upTo(slot + 1) - upTo(slot), 0), perMs }
}
