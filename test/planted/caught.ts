import { TocsinError } from '../../src/errors.ts'

/** A busy machine may lose a connection in the middle of a case. Such a run says nothing about the bug: it is repeated. */
const RUNS_MAX = 3

/** Expects an assertion of the case to fail, and shows the whole error where something else failed. */
export async function expectCaught(run: () => Promise<unknown>): Promise<void> {
  let error: unknown
  for (let runs = 0; runs < RUNS_MAX; runs++) {
    error = await run().then(
      () => new Error('the case sees nothing: it passed with the bug'),
      (thrown: unknown) => thrown,
    )
    if (!isUnavailable(error)) break
  }
  if (!(error instanceof Error) || error.name !== 'AssertionError')
    throw new Error('no assertion of the case failed', { cause: error })
}

function isUnavailable(error: unknown): boolean {
  return TocsinError.is(error) && error.code === 'timetable-unavailable'
}
