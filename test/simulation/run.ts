import { check } from './checker/check.ts'
import { type Figures, figuresOf } from './checker/figures.ts'
import type { Composition, Violation } from './history.ts'
import type { Plan } from './plan.ts'
import { simulate } from './world.ts'

/** What is kept of a run. */
export interface RunReport {
  readonly seed: number
  readonly composition: Composition
  readonly simulatedMs: number
  readonly figures: Figures
  /** What became of calls on bad lines, by kind. */
  readonly fates: Readonly<Record<string, number>>
  readonly violations: readonly Violation[]
}

export async function run(plan: Plan): Promise<RunReport> {
  const { history, fates, simulatedMs } = await simulate(plan)
  return {
    seed: plan.seed,
    composition: plan.composition,
    simulatedMs,
    figures: figuresOf(history),
    fates: Object.fromEntries(fates),
    violations: check(history),
  }
}
