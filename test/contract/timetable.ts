/**
 * What every timetable promises, as cases: written once, run against each adapter, and by planted/timetable.test.ts
 * against broken ones, to see that they see.
 *
 * A case reads no clock but the timetable's own, and holds also when that clock moves between two calls.
 */
import { describe, it } from 'vitest'
import { bookkeeping } from './timetable/bookkeeping.ts'
import { cancelling } from './timetable/cancelling.ts'
import { claiming } from './timetable/claiming.ts'
import { dead } from './timetable/dead.ts'
import type { TimetableCase, TimetableHarness } from './timetable/helpers.ts'
import { looking } from './timetable/looking.ts'
import { rescuing } from './timetable/rescue.ts'
import { scheduling } from './timetable/scheduling.ts'
import { settling } from './timetable/settling.ts'
import { waking } from './timetable/waking.ts'

export type { TimetableCase, TimetableHarness } from './timetable/helpers.ts'

export const timetableCases: readonly TimetableCase[] = [
  ...scheduling,
  ...claiming,
  ...settling,
  ...rescuing,
  ...cancelling,
  ...dead,
  ...looking,
  ...waking,
  ...bookkeeping,
]

/** For clocks that have to be waited for. */
const SLOW_TIMEOUT_MS = 60_000

/** One test per case, each with a timetable of its own. */
export function timetableContract(
  name: string,
  open: () => Promise<TimetableHarness>,
  /** Cases that are somebody else's to keep, by name. */
  except: readonly string[] = [],
): void {
  describe(`the contract of a timetable: ${name}`, () => {
    for (const one of timetableCases.filter((any) => !except.includes(any.name)))
      it(one.name, () => runCase(one, open), one.slow === true ? SLOW_TIMEOUT_MS : undefined)
  })
}

export async function runCase(one: TimetableCase, open: () => Promise<TimetableHarness>): Promise<void> {
  const harness = await open()
  try {
    await one.run(harness)
  } finally {
    await harness.close()
  }
}
