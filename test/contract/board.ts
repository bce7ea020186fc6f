/** What every board promises, as cases: written once, run against each adapter. */
import { describe, it } from 'vitest'
import { beating } from './board/beating.ts'
import type { BoardCase, BoardHarness } from './board/helpers.ts'
import { leaving } from './board/leaving.ts'
import { listening } from './board/listening.ts'
import { records } from './board/records.ts'
import { tokens } from './board/tokens.ts'

export type { BoardCase, BoardHarness } from './board/helpers.ts'

export interface BoardContractOptions {
  /** False: nobody is told of what another process does; it is found at the next beat. */
  readonly pushes?: boolean
}

export const boardCases: readonly BoardCase[] = [...beating, ...leaving, ...records, ...tokens]

/** One test per case, each with a board of its own. */
export function boardContract(
  name: string,
  open: () => Promise<BoardHarness>,
  { pushes = true }: BoardContractOptions = {},
): void {
  describe(`the contract of a board: ${name}`, () => {
    for (const one of [...boardCases, ...(pushes ? listening : [])])
      it(one.name, () => runBoardCase(one, open))
  })
}

export async function runBoardCase(one: BoardCase, open: () => Promise<BoardHarness>): Promise<void> {
  const harness = await open()
  try {
    await one.run(harness)
  } finally {
    await harness.close()
  }
}
