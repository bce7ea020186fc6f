/**
 * What every timetable that serves a ledger promises, as cases: written once, run against each adapter, and by
 * planted/hint-table.test.ts against broken ones, to see that they see.
 */
import { describe, it } from 'vitest'
import { claiming } from './hint-table/claiming.ts'
import { filling } from './hint-table/filling.ts'
import type { HintCase, HintHarness } from './hint-table/helpers.ts'
import { looking } from './hint-table/looking.ts'
import { putting } from './hint-table/putting.ts'
import { removing } from './hint-table/removing.ts'
import { waking } from './hint-table/waking.ts'

export type { HintCase, HintHarness } from './hint-table/helpers.ts'

export const hintCases: readonly HintCase[] = [
  ...putting,
  ...removing,
  ...claiming,
  ...looking,
  ...filling,
  ...waking,
]

/** One test per case, each with a table of its own. `more`: what this adapter promises besides. */
export function hintTableContract<H extends HintHarness>(
  name: string,
  open: () => Promise<H>,
  more: readonly HintCase<H>[] = [],
): void {
  describe(`the contract of a hint table: ${name}`, () => {
    for (const one of [...hintCases, ...more]) it(one.name, () => runHintCase(one, open))
  })
}

export async function runHintCase<H extends HintHarness>(
  one: HintCase<H>,
  open: () => Promise<H>,
): Promise<void> {
  const harness = await open()
  try {
    await one.run(harness)
  } finally {
    await harness.close()
  }
}
