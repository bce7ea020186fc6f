/** A process dies and comes back a hundred times under load: each time the others take over its slots, and give them back. */
import { describe, expect, test } from 'vitest'
import { check } from './checker/check.ts'
import { Division } from './checker/rules/membership.ts'
import { SETTLED_MS } from './checker/stability.ts'
import type { Composition, Event } from './history.ts'
import type { Fault, NodePlan, Plan } from './plan.ts'
import { simulate } from './world.ts'

const DEATHS = 100
/** Long enough to be settled again before the next one. */
const EVERY_MS = SETTLED_MS + 2_000
/** Back before another process has noticed, and long after. */
const AWAY_MS = [200, 1_000, 3_000, 7_000]
/** A death is noticed within so long, and all is dealt anew. */
const NOTICED_MS = 5_000
const TIMEOUT_MS = 300_000

const node = (name: string, consumes: NodePlan['consumes'], concurrency: number): NodePlan => ({
  name,
  skewMs: 0,
  driftPpm: 0,
  consumes,
  concurrency,
})

const death = (n: number): Fault => ({
  kind: 'crash',
  atMs: 5_000 + n * EVERY_MS + n * 37,
  forMs: AWAY_MS[n % AWAY_MS.length] as number,
  node: 2,
  byMs: 0,
  mode: 'refuses',
  noise: null,
  // Half of them in the middle of something.
  aim: n % 2 === 0 ? null : 'claim',
})

const planOfDeaths = (composition: Composition): Plan => ({
  seed: 1,
  composition,
  nodes: [node('n1', 'single', 16), node('n2', 'batch', 4), node('n3', 'single', 16)],
  spanMs: DEATHS * (EVERY_MS + 37) + 10_000,
  callEveryMs: 500,
  lookMs: 10_000,
  aheadMs: 25_000,
  slots: 16,
  cells: 64,
  leaseMs: 3_000,
  serverSkewMs: { timetable: 0, ledger: 0 },
  faults: Array.from({ length: DEATHS }, (_, n) => death(n)),
})

/** After each death: how long until each slot had one owner again, all with their shares. */
function takeovers(events: readonly Event[]): number[] {
  const division = new Division()
  const took: number[] = []
  let diedMs: number | null = null
  for (const event of events) {
    if (event.kind === 'consume') division.consumers.set(event.life, event.capacity)
    if (event.kind === 'slots') division.shares.set(event.life, event)
    if (event.kind === 'record') Object.assign(division, { version: event.version, slots: event.slots })
    if (event.kind === 'life' && (event.phase === 'crashes' || event.phase === 'closes'))
      division.consumers.delete(event.life)
    // Now and then a task takes another one down, too: then it takes until that is noticed.
    if (event.kind === 'life' && event.phase === 'crashes') diedMs = event.trueMs
    if (diedMs === null || event.kind !== 'slots' || division.faults().length > 0) continue
    took.push(event.trueMs - diedMs)
    diedMs = null
  }
  return took.sort((a, b) => a - b)
}

describe('a process that dies and comes back a hundred times', () => {
  test.each(['redis', 'center', 'alone'] as const)(
    'with %s: no promise is broken, and its slots are taken over each time',
    async (composition) => {
      const { history } = await simulate(planOfDeaths(composition))
      const took = takeovers(history.events)
      const starts = history.events.filter(({ kind }) => kind === 'start').length
      const buried = history.events.filter(
        (event) => event.kind === 'card' && event.phase === 'buried',
      ).length
      const [p50, max] = [took[took.length >> 1] as number, took.at(-1) as number]
      console.log(
        `rejoining, ${composition}: ${took.length} deaths, ${buried} burials, ${starts} deliveries; ` +
          `each slot had one owner again after ${p50.toFixed(0)} ms (p50), ${max.toFixed(0)} ms (max)`,
      )
      expect(check(history)).toEqual([])
      expect(took.length).toBeGreaterThanOrEqual(DEATHS)
      expect(max).toBeLessThan(NOTICED_MS)
    },
    TIMEOUT_MS,
  )
})
