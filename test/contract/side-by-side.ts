import type { TimetableCase, TimetableHarness } from './timetable/helpers.ts'
import { runCase } from './timetable.ts'

/** They mostly wait: as many as keep the machine busy. */
const SIDE_BY_SIDE = 12

/** Runs cases on a real clock side by side, and returns the outcome of each by its name. */
export function runSideBySide(
  cases: readonly TimetableCase[],
  open: () => Promise<TimetableHarness>,
): Map<string, Promise<void>> {
  // Those that take long start first, so that the others fill the time beside them.
  const waiting = cases.toSorted((a, b) => Number(b.slow ?? false) - Number(a.slow ?? false))
  const started = new Map<string, () => void>()
  const all = new Map(
    waiting.map((one) => {
      const start = new Promise<void>((resolve) => started.set(one.name, resolve))
      const outcome = start.then(() => runCase(one, open))
      return [one.name, outcome]
    }),
  )
  const startNext = (): void => {
    const next = waiting.shift()
    if (next === undefined) return
    void Promise.allSettled([all.get(next.name)]).then(startNext)
    started.get(next.name)?.()
  }
  for (let n = 0; n < SIDE_BY_SIDE; n++) startNext()
  return all
}
