import type { Clock } from '../../src/clock.ts'
import { TestTocsin } from '../../src/testing/test-tocsin.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { TaskStore } from '../../src/store.ts'
import { type Meter, noMeter } from '../../src/telemetry/meter.ts'
import { idleNets } from '../idle-nets.ts'

const START_MS = Date.parse('2026-11-11T00:00:00Z')
const PATIENCE_MS = 60

/** Returns a Tocsin whose timetable is wrapped, to inject faults. */
export function faultyTocsin(
  wrap: (timetable: TaskStore, clock: Clock) => TaskStore,
  meter: Meter = noMeter,
): TestTocsin {
  const clock = new VirtualClock(START_MS)
  return new TestTocsin(clock, PATIENCE_MS, (timetable) => wrap(timetable, clock), meter)
}

/**
 * Returns a Tocsin with a short patience: many of these tests have handlers that hang on purpose. The test fails if a safety
 * net has something to do; a test that loses leases or wakes on purpose says 'needs nets'.
 */
export function quickTocsin(nets: 'idle' | 'needs nets' = 'idle'): TestTocsin {
  return faultyTocsin((timetable) => timetable, nets === 'idle' ? idleNets() : noMeter)
}

/** Returns the timetable with some of its methods replaced. */
export function wrapped(timetable: TaskStore, overrides: Partial<TaskStore>): TaskStore {
  return new Proxy(timetable, {
    get(target, name) {
      if (Object.hasOwn(overrides, name)) return overrides[name as keyof TaskStore]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** A promise that the test resolves. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}
