import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { WorkerPool } from '../simulation/worker-pool.ts'
import type { Violation } from '../simulation/history.ts'
import { planOf } from '../simulation/plan.ts'
import { replaced } from './replacing.ts'
import type { PlantedBug } from './simulation.ts'

export interface Caught {
  readonly seed: number
  /** How many runs it took. */
  readonly runs: number
  readonly violation: Violation
}

/** Plants a bug into a copy of the compiled simulator and runs seed after seed until the checker reports a violation. Returns null if none is reported. */
export async function hunt(compiled: string, bug: PlantedBug, runsMax: number): Promise<Caught | null> {
  const copy = await mkdtemp(`${compiled}-planted-`)
  try {
    await cp(compiled, copy, { recursive: true, filter: (path) => !path.endsWith('.map') })
    await plant(copy, bug)
    return await huntIn(copy, bug, runsMax)
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

async function plant(copy: string, bug: PlantedBug): Promise<void> {
  const path = join(copy, bug.file)
  await writeFile(path, replaced(await readFile(path, 'utf8'), bug))
}

async function huntIn(
  copy: string,
  {
    composition,
    faults,
    configEveryMs,
    isPulled,
    isBatched,
    hasRate = false,
    fastClaims = false,
    firstSeed = 1,
  }: PlantedBug,
  runsMax: number,
): Promise<Caught | null> {
  const workerPool = new WorkerPool(copy, 1)
  try {
    for (let runs = 1; runs <= runsMax; runs++) {
      const seed = ((firstSeed + runs - 2) % runsMax) + 1
      const report = await workerPool.run(
        planOf(seed, {
          composition,
          longShare: 0,
          faults,
          configEveryMs,
          isPulled,
          isBatched,
          hasRate,
          fastClaims,
          hasLedgerCrashes: false,
        }),
      )
      const violation =
        'broke' in report ? { invariant: 'L6', message: report.broke, seq: -1 } : report.violations[0]
      if (violation !== undefined) return { seed, runs, violation }
    }
    return null
  } finally {
    await workerPool.close()
  }
}
