/**
 * Seeds of the simulation, over all compositions, each judged by the checker: 100, or 300 in `npm run test:long`. And what
 * makes that worth something: that runs are repeated exactly, that they are interesting (every composition, every kind of
 * fault), and that a failing plan is cut down to what matters.
 */
import { createHash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { generated, isLong } from '../generated.ts'
import { check } from './checker/check.ts'
import { compile } from './compile.ts'
import { WorkerPool } from './worker-pool.ts'
import type { Composition } from './history.ts'
import { type Fault, type Plan, planOf } from './plan.ts'
import { REGRESSIONS } from './regressions.ts'
import { run } from './run.ts'
import { shrink } from './shrink.ts'
import { traceOf } from './key-trace.ts'
import { Tally } from './tally.ts'
import { simulate } from './world.ts'

const SEEDS = isLong ? 300 : 100
const SEEDS_EACH = 25
/** Per composition: runs without faults, in which the safety nets must have nothing to do. */
const CALM_SEEDS = generated(2, 20)
const TIMEOUT_MS = 300_000

const COMPOSITIONS: readonly Composition[] = ['redis', 'center', 'alone', 'embedded']

const batches = Array.from({ length: SEEDS / SEEDS_EACH }, (_, n) => n * SEEDS_EACH + 1)

describe(`${SEEDS} seeds`, () => {
  const tally = new Tally()
  let compiled: ReturnType<typeof compile>
  let workerPool: WorkerPool
  beforeAll(() => {
    compiled = compile()
    workerPool = new WorkerPool(compiled.folder, availableParallelism())
  }, TIMEOUT_MS)
  afterAll(async () => {
    await workerPool.close()
    compiled.remove()
  })

  test.each(batches)(
    `from %i, ${SEEDS_EACH} of them: no promise is broken`,
    async (from) => {
      // Hours are for `npm run simulate`.
      const plans = Array.from({ length: SEEDS_EACH }, (_, n) => planOf(from + n, { longShare: 0 }))
      for (const report of await Promise.all(plans.map((plan) => workerPool.run(plan)))) {
        const advice = `npm run simulate -- --seed ${report.seed} --long 0 tells its story`
        if ('broke' in report) throw new Error(`${report.broke}\n${advice}`)
        tally.add(report)
        const broken = report.violations.map(({ invariant, message }) => `${invariant}: ${message}`)
        expect(broken, advice).toEqual([])
      }
    },
    TIMEOUT_MS,
  )

  test('were interesting', () => {
    const {
      runs,
      byComposition,
      events,
      deliveries,
      duplicates,
      cancels,
      racingCancels,
      settles,
      staleSettles,
    } = tally.summary()
    console.log(
      `simulation: ${JSON.stringify({ runs, events, deliveries, duplicates, cancels, racingCancels, settles, staleSettles })}`,
    )
    expect(runs).toBe(SEEDS)
    expect(Object.keys(byComposition).toSorted()).toEqual(COMPOSITIONS.toSorted())
    expect(tally.boring()).toEqual([])
  })
})

describe('a run in which nothing goes wrong', () => {
  test.each(COMPOSITIONS)(
    'of %s needs no safety net, and breaks no promise',
    async (composition) => {
      for (let seed = 1; seed <= CALM_SEEDS; seed++) {
        const { violations } = await run(planOf(seed, { composition, longShare: 0, isCalm: true }))
        expect(violations, `seed ${seed}`).toEqual([])
      }
    },
    TIMEOUT_MS,
  )
})

test(
  'a run in which processes leave, and nothing else happens, ends no lease without an outcome',
  async () => {
    for (let seed = 1; seed <= CALM_SEEDS; seed++) {
      const { violations } = await run(
        planOf(seed, { composition: 'redis', longShare: 0, faults: ['leave'] }),
      )
      expect(violations, `seed ${seed}`).toEqual([])
    }
  },
  TIMEOUT_MS,
)

describe('bugs that were found do not come back', () => {
  test.each(REGRESSIONS.map((one) => [one.name, one] as const))(
    '%s',
    async (_, { plan }) => {
      expect((await run(plan)).violations).toEqual([])
    },
    TIMEOUT_MS,
  )
})

describe('was wrong once', () => {
  test('who finds tasks by looking keeps those that others pull, until there is no room for its own', async () => {
    const consumer = { skewMs: 0, driftPpm: 0, consumes: 'single', concurrency: 16 } as const
    const { violations } = await run({
      seed: 1,
      composition: 'alone',
      nodes: [
        { name: 'n1', ...consumer },
        { name: 'n2', ...consumer },
      ],
      spanMs: 30_000,
      callEveryMs: 100,
      lookMs: 10_000,
      aheadMs: 25_000,
      slots: 16,
      polledMax: 50,
      cells: 64,
      leaseMs: 3_000,
      serverSkewMs: { timetable: 0, ledger: 0 },
      faults: [],
    })
    expect(violations).toEqual([])
  })
})

describe('a run', () => {
  test.each(COMPOSITIONS)(
    'of %s is the same whenever it is repeated, event by event',
    async (composition) => {
      const hashOf = async () => {
        const { history } = await simulate(planOf(7, { composition, longShare: 0 }))
        return createHash('sha256').update(JSON.stringify(history)).digest('hex')
      }
      expect(await hashOf()).toBe(await hashOf())
    },
    60_000,
  )

  test('of hours, in which little happens', { timeout: TIMEOUT_MS }, async () => {
    const report = await run(planOf(3, { longShare: 1, composition: 'center' }))
    expect(report.simulatedMs).toBeGreaterThan(3_600_000)
    expect(report.violations).toEqual([])
  })

  test('has a story for each of its keys', async () => {
    const { history } = await simulate(planOf(7, { composition: 'redis', longShare: 0 }))
    const story = traceOf(history, 'k1')
    expect(story.some((line) => line.includes('call') && line.includes('op schedule'))).toBe(true)
    expect(story.some((line) => line.includes(' k2'))).toBe(false)
  })
})

describe('a plan that fails', () => {
  const crashesOf = (faults: readonly Fault[]) => faults.filter(({ kind }) => kind === 'crash')

  test('is cut down to the faults that it needs', { timeout: TIMEOUT_MS }, async () => {
    const isRich = ({ faults }: Plan) => faults.length > 5 && crashesOf(faults).length > 1
    const seeds = Array.from({ length: 100 }, (_, seed) =>
      planOf(seed, { composition: 'center', longShare: 0 }),
    )
    const plan = seeds.find(isRich) as Plan
    const crashes = crashesOf(plan.faults)
    // As if one thing were wrong: that a process dies at a certain moment.
    const last = crashes.at(-1)
    const small = await shrink(plan, async ({ faults }) => faults.includes(last as (typeof faults)[number]))
    expect(small.faults).toEqual([last])
    expect(small.nodes.length).toBe((last?.node ?? 0) + 1)
    expect(small.spanMs).toBeLessThan(plan.spanMs)
    expect(check((await simulate(small)).history)).toEqual([])
  })
})
