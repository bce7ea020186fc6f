import { describe, expect, it } from 'vitest'
import { LOSSES_OF_A_SUSPECT, nextSpread, poisonText, rescueDelayMs, RESCUES_PER_CLAIM } from './rescue.ts'

describe('the delay of a rescued task', () => {
  // The Lua scripts have the same rule: test/contract/differential compares them.
  it.each([
    [0, 1, 0],
    [0.5, 0, 500],
    [0.5, 1, 1_000],
    [0.5, 2, 2_000],
    [0.5, 4, 8_000],
    [0.5, 5, 8_000],
    [0.5, 1_000, 8_000],
    [0.0001, 1, 1],
    [0.9999, 1, 2_000],
  ])('spread %d, after %d lost leases, is %d ms', (spread, lost, ms) => {
    expect(rescueDelayMs(spread, lost)).toBe(ms)
  })

  it('differs for all tasks of a batch, from any start', () => {
    for (const start of [0, 0.3, 0.999]) {
      const spreads: number[] = []
      for (let spread = start; spreads.length < 100; spread = nextSpread(spread)) spreads.push(spread)
      expect(spreads.every((spread) => spread >= 0 && spread < 1)).toBe(true)
      const sorted = spreads.toSorted((a, b) => a - b)
      const gaps = sorted.slice(1).map((spread, i) => spread - (sorted[i] as number))
      expect(Math.min(...gaps)).toBeGreaterThan(0.003)
      expect(Math.max(...gaps)).toBeLessThan(0.03)
    }
  })
})

it('says how often a poison task lost its lease', () => {
  expect(poisonText(3)).toBe('its lease ran out 3 times in a row, the last time running alone')
  expect(poisonText('%s')).toContain(' %s times ')
})

it('makes a suspect of a task at its second lost lease, and rescues four claims at a time', () => {
  expect(LOSSES_OF_A_SUSPECT).toBe(2)
  expect(RESCUES_PER_CLAIM).toBe(4)
})
