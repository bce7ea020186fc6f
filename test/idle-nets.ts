import { expect, onTestFinished } from 'vitest'
import { type Meter, noMeter, type SafetyNet } from '../src/telemetry/meter.ts'

export type NetCounts = Partial<Record<SafetyNet, number>>

/** Adds up what the safety nets found. */
export function netCounter(): Meter & { readonly counts: NetCounts } {
  const counts: NetCounts = {}
  const caught = (_topic: string, net: SafetyNet, count: number) => {
    counts[net] = (counts[net] ?? 0) + count
  }
  return { ...noMeter, caught, counts }
}

/**
 * Returns a meter that fails the test, at its end, if a safety net had something to do. Without a fault, each task comes by
 * its usual way: a net that makes up for a lost one would hide the mistake from the test.
 */
export function idleNets(): Meter {
  const counter = netCounter()
  onTestFinished(() =>
    expect(counter.counts, 'a safety net found tasks in a test without a fault').toEqual({}),
  )
  return counter
}
