/** Far tasks stay on the disk: five million of them, and a process with a consumer stays small. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { isLong } from '../generated.ts'
import { TOPIC, temporaryFolder } from '../fault/embedded/life.ts'
import { type Entry, startProgram } from '../fault/program.ts'

const TASKS = 5_000_000
const NEAR = 1_000
const MONTH_MS = 30 * 86_400_000
const RSS_MB_MAX = 300
/** While millions are written in one call; more where a slow disk moves the writer to a thread with a cache of its own. */
const RSS_MB_WRITING_MAX = 600
const MEGABYTE = 1_000_000
const WITHIN_MS = 900_000

interface Figures extends Entry {
  readonly rssMb: number
  readonly created: number
}

describe.skipIf(!isLong)('long rounds (npm run test:long)', () => {
  it(
    'five million tasks due next month on an embedded ledger cost disk, not memory',
    { timeout: 1_200_000 },
    async () => {
      using folder = temporaryFolder()
      const path = join(folder.path, 't.db')
      const options = { open: {}, topic: TOPIC, path, count: TASKS, farMs: MONTH_MS, near: NEAR }
      await using program = await startProgram('embedded/millions', options)
      await program.untilCount('near', 1, WITHIN_MS)
      await program.untilCount('start', NEAR, 60_000)
      const [scheduled] = program.of('scheduled') as Figures[]
      expect(scheduled).toMatchObject({ created: TASKS })
      await program.close()
      const fileMb = statSync(path).size / MEGABYTE
      const writing = peakMb(program.of('memory') as Figures[])

      // Once more, on the file as it is: opened, consumed, and left alone for a while.
      const openedMs = performance.now()
      await using second = await startProgram('embedded/millions', { ...options, count: 0 })
      await second.untilCount('ready', 1)
      const openMs = performance.now() - openedMs
      await second.untilCount('start', NEAR, 60_000)
      // Real time: memory is measured while the process is idle.
      await sleep(5_000)
      await second.close()
      const resting = peakMb(second.of('memory') as Figures[])
      console.log(
        `embedded, ${TASKS} far tasks:`,
        JSON.stringify({
          seconds: Math.round(scheduled!.ms / 1_000),
          perSecond: Math.round((TASKS / scheduled!.ms) * 1_000),
          fileMb: Math.round(fileMb),
          rssMbWriting: Math.round(writing),
          rssMbReopened: Math.round(resting),
          openMs: Math.round(openMs),
        }),
      )
      expect(second.of('start').every(({ key }) => key.startsWith('near-'))).toBe(true)
      expect(resting).toBeLessThan(RSS_MB_MAX)
      expect(writing).toBeLessThan(RSS_MB_WRITING_MAX)
    },
  )
})

function peakMb(figures: readonly Figures[]): number {
  return Math.max(...figures.map(({ rssMb }) => rssMb))
}
