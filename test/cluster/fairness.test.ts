import { afterAll, beforeAll, expect, test } from 'vitest'
import { isLong } from '../generated.ts'
import { quantile } from '../fault/records.ts'
import { type Entry, startProgram } from '../fault/program.ts'
import { type Composition, Servers } from './compositions.ts'

const OVERDUE = isLong ? 1_000_000 : 100_000
const PER_SECOND = 200
const CALM_MS = 2_000
/** Many times what it should be on a machine that has nothing else to do; on one that has, it is stretched. */
const LATE_MS_MAX = 500
/** What was kept from a core for longer than this says nothing. */
const WAITED_SHARE_MAX = 0.9
const WITHIN_MS = isLong ? 900_000 : 110_000

interface Result extends Entry {
  readonly tookMs: number
  /** The part of that time in which the process was kept waiting for a core. */
  readonly waitedShare: number
  readonly before: number[]
  readonly while: number[]
  readonly after: number[]
  readonly handled: number
}

let servers: Servers
beforeAll(async () => {
  servers = await Servers.start()
}, 60_000)
afterAll(() => servers.stop())

test.each(['Redis', 'Redis + PostgreSQL'] satisfies Composition[])(
  `%s: a topic with ${OVERDUE.toLocaleString('en-US')} overdue does not hold up another one of the same process`,
  { timeout: WITHIN_MS + 10_000 },
  async (composition) => {
    await using place = await servers.place(composition)
    await using program = await startProgram('../../cluster/programs/two-topics', {
      open: place.open,
      topic: '',
      count: OVERDUE,
      perSecond: PER_SECOND,
      calmMs: CALM_MS,
    })
    await program.untilCount('result', 1, WITHIN_MS)
    const [result] = program.of('result') as [Result]
    const text = (lateMs: number[]) =>
      `p50 ${quantile(lateMs, 0.5)} p99 ${quantile(lateMs, 0.99)} max ${quantile(lateMs, 1)} ms (${lateMs.length})`
    const maxMs = LATE_MS_MAX / (1 - Math.min(result.waitedShare, WAITED_SHARE_MAX))
    const perSecond = Math.round((OVERDUE * 1000) / result.tookMs)
    console.log(
      [
        `${composition}: ${OVERDUE} overdue made up for in ${result.tookMs} ms (${perSecond}/s), ${(100 * result.waitedShare).toFixed(0)}% of it kept waiting for a core; lateness of the other topic (p99 ≤ ${maxMs.toFixed(0)} ms):`,
        `  before ${text(result.before)}`,
        `  while  ${text(result.while)}`,
        `  after  ${text(result.after)}`,
      ].join('\n'),
    )
    expect(result.handled).toBe(OVERDUE)
    // Enough to speak of a hundredth of them.
    expect(result.while.length).toBeGreaterThan(100)
    expect(quantile(result.while, 0.99)).toBeLessThan(maxMs)
    for (const lateMs of [...result.before, ...result.while, ...result.after])
      expect(lateMs).toBeGreaterThanOrEqual(0)
    await program.close()
    expect(program.of('unhandled')).toEqual([])
  },
)
