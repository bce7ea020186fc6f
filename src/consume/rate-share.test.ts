import { describe, expect, it } from 'vitest'
import { rateOfShare } from './rate-share.ts'

function share(owned: readonly number[], slots = 16) {
  return { owned, slots }
}

function slots(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, n) => from + n)
}

describe("a node's part of a topic's rate", () => {
  it('is the whole rate if the node owns all slots, and null if there is no rate', () => {
    expect(rateOfShare({ limit: 10, perMs: 1_000 }, share(slots(0, 16)))).toEqual({ limit: 10, perMs: 1_000 })
    expect(rateOfShare(null, share([1, 2]))).toBeNull()
  })

  it.each([16, 17, 100, 1_000])('adds up to exactly %i over all nodes', (limit) => {
    for (const nodes of [2, 3, 4, 5]) {
      const parts = Array.from({ length: nodes }, (_, n) => {
        const owned = slots(0, 16).filter((slot) => slot % nodes === n)
        return rateOfShare({ limit, perMs: 1_000 }, share(owned))
      })
      expect(parts.reduce((sum, part) => sum + (part?.limit ?? 0), 0)).toBe(limit)
    }
  })

  it('holds on average if the limit is below the number of slots', () => {
    expect(rateOfShare({ limit: 1, perMs: 1_000 }, share([0]))).toEqual({ limit: 1, perMs: 16_000 })
    for (const limit of [1, 4, 8, 10, 15])
      for (const nodes of [2, 3, 16]) {
        const parts = Array.from({ length: nodes }, (_, n) =>
          rateOfShare({ limit, perMs: 1_000 }, share(slots(0, 16).filter((slot) => slot % nodes === n))),
        )
        const perSecond = parts.reduce((sum, part) => sum + (1_000 * part!.limit) / part!.perMs, 0)
        expect(perSecond).toBeCloseTo(limit, 6)
      }
  })

  it('is no more than the limit in any period of the rate', () => {
    for (let limit = 1; limit < 64; limit++)
      for (let owned = 1; owned < 64; owned++) {
        const part = rateOfShare({ limit, perMs: 1_000 }, share(slots(0, owned), 64))
        expect(part!.perMs).toBeGreaterThanOrEqual(1_000)
        expect(part!.limit).toBeLessThanOrEqual(limit)
      }
  })
})
