/** Each planted bug violates some invariant within 100 seeds. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isLong } from '../generated.ts'
import { compile } from '../simulation/compile.ts'
import { PLANTED_BUGS } from './simulation.ts'
import { hunt } from './simulation-hunt.ts'

const SEEDS_MAX = 100
const TIMEOUT_MS = 600_000

let compiled: ReturnType<typeof compile>
beforeAll(() => {
  compiled = compile()
}, TIMEOUT_MS)
afterAll(() => compiled.remove())

test('there are enough of them, and no two are the same', () => {
  expect(new Set(PLANTED_BUGS.map(({ name }) => name)).size).toBe(PLANTED_BUGS.length)
  expect(PLANTED_BUGS.length).toBeGreaterThanOrEqual(20)
})

describe('a planted bug is caught', { concurrent: true }, () => {
  test.each(PLANTED_BUGS.map((bug) => [bug.name, bug] as const))(
    '%s',
    async (name, bug) => {
      const caught = await hunt(compiled.folder, isLong ? { ...bug, firstSeed: 1 } : bug, SEEDS_MAX)
      expect(caught, `no violation in ${SEEDS_MAX} runs of ${bug.composition}`).not.toBeNull()
      console.log(
        `${name}: seed ${caught?.seed}, run ${caught?.runs}, ${caught?.violation.invariant}: ${caught?.violation.message}`,
      )
    },
    TIMEOUT_MS,
  )
})
