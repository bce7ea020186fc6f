/** A topic's rate holds for all processes together, measured by the handlers themselves. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isLong } from '../generated.ts'
import type { Entry } from '../fault/program.ts'
import { fullestSpan } from '../fullest-span.ts'
import { type Composition, Servers } from './compositions.ts'
import { Crew } from './crew.ts'

const LIMIT = 50
const PER_MS = 1_000
const TASKS = (isLong ? 30 : 4) * LIMIT
const JOIN_WITHIN_MS = 30_000
const WITHIN_MS = 60_000 + 5 * (TASKS / LIMIT) * PER_MS

interface Start extends Entry {
  readonly monotonicMs: number
}

let servers: Servers
beforeAll(async () => {
  servers = await Servers.start()
}, 60_000)
afterAll(() => servers.stop())

describe.concurrent('a rate', () => {
  test.each(['Redis', 'Redis + PostgreSQL'] satisfies Composition[])(
    `%s: three processes start at most ${LIMIT} handlers within ${PER_MS} ms, however the span is laid`,
    { timeout: WITHIN_MS + JOIN_WITHIN_MS },
    async (composition) => {
      await using place = await servers.place(composition)
      await using crew = await Crew.assemble(place, {
        topic: 'rated',
        lease: '30s',
        workMs: 5,
        perSecond: 0,
        rate: { limit: LIMIT, per: PER_MS },
      })
      const names = ['one', 'two', 'three']
      await crew.balanced(names, await crew.join(...names), JOIN_WITHIN_MS)
      await crew.topic.scheduleMany(Array.from({ length: TASKS }, () => ({ delay: 0, payload: null })))
      await crew.drain(WITHIN_MS)
      const starts = (crew.starts() as Start[])
        .map(({ monotonicMs }) => monotonicMs)
        .toSorted((a, b) => a - b)
      expect(starts.length).toBe(TASKS)
      const fullest = fullestSpan(starts, PER_MS)
      const tookMs = (starts.at(-1) as number) - (starts[0] as number)
      console.log(
        `${composition}: at most ${fullest} of ${TASKS} starts within ${PER_MS} ms, all in ${tookMs.toFixed(0)} ms`,
      )
      expect(fullest).toBeLessThanOrEqual(LIMIT)
    },
  )
})
